"""Words of the command line, read as values: pairs, lists, moments, jobs.

A wrong word is a usage error.
"""

from __future__ import annotations

from collections.abc import Iterable

from blockstore.cli.failure import Usage
from blockstore.errors import Invalid
from blockstore.format.block import Job
from blockstore.operations.instants import to_ms

_YEAR_AND_DAY = len("20130131")
"""Digits that ISO 8601 reads as a day; more are milliseconds."""


def pairs(words: Iterable[str], option: str) -> dict[str, str]:
    """``k=v`` words as a mapping; a name given twice is an error."""
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
    """``a,b`` as its parts."""
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def moment_ms(text: str, option: str) -> int:
    """An ISO 8601 moment (UTC where it names no zone) or milliseconds since the epoch, in
    milliseconds."""
    if text.isascii() and text.isdigit() and len(text) > _YEAR_AND_DAY:
        return int(text)
    try:
        return to_ms(text)
    except Invalid:
        raise Usage(
            f"{option} is {text!r}, expected a moment such as 2013-01-31T23:59:00Z, or "
            "milliseconds since the epoch"
        ) from None


def job_of(app: str | None, batch: int | None) -> Job | None:
    """The job that ``--app`` and ``--batch`` name together; None where neither is given."""
    if app is None and batch is None:
        return None
    if app is None or batch is None:
        raise Usage("--app and --batch name a job together: give both or neither")
    return Job(app=app, batch=batch)
