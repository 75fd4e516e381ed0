"""Values from words of the command line: pairs, lists, times, jobs. A wrong word raises Usage."""

from __future__ import annotations

from collections.abc import Iterable

from blockstore.cli.failure import Usage
from blockstore.errors import Invalid
from blockstore.format.block import Job
from blockstore.operations.instants import to_ms

_YEAR_AND_DAY = len("20130131")
"""So many digits are a day in ISO 8601; more are milliseconds."""


def pairs(words: Iterable[str], option: str) -> dict[str, str]:
    """Parse ``name=value`` words; a name given twice is an error."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name or not equals:
            raise Usage(f"{option} is {word!r}, expected name=value")
        if name in found:
            raise Usage(f"{option} names {name!r} twice, expected each name once")
        found[name] = value
    return found


def listed(text: str | None) -> tuple[str, ...]:
    """Split ``a,b`` into its parts."""
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def moment_ms(text: str, option: str) -> int:
    """Parse an ISO 8601 time (UTC if it has no zone) or milliseconds since the epoch."""
    if text.isascii() and text.isdigit() and len(text) > _YEAR_AND_DAY:
        return int(text)
    try:
        return to_ms(text)
    except Invalid:
        raise Usage(
            f"{option} is {text!r}, expected a time such as 2013-01-31T23:59:00Z, or "
            "milliseconds since the epoch"
        ) from None


def job_of(app: str | None, batch: int | None) -> Job | None:
    """Return the job that ``--app`` and ``--batch`` name; None if neither is given."""
    if app is None and batch is None:
        return None
    if app is None or batch is None:
        raise Usage("--app and --batch belong together: give both or neither")
    return Job(app=app, batch=batch)
