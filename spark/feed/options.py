"""The options of a read of changes, checked when they are parsed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from blockstore.errors import Invalid
from blockstore.spark.options import flag, integer, known, table_url

_OPTIONS = ("path", "changes", "after", "until", "before_images")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOptions:
    """Which changes to read."""

    url: str
    after: int
    until: int | None = None
    """None means the newest version, and in a stream no end."""
    before_images: bool = False
    columns: Mapping[str, int | None] | None = None
    """Which column each name meant when the columns were fixed; None before that."""


def wants_changes(options: Mapping[str, str]) -> bool:
    """Whether the options ask for changes instead of rows. Raises Invalid."""
    return flag({name.lower(): value for name, value in options.items()}, "changes")


def change_options(options: Mapping[str, str]) -> ChangeOptions:
    """Parse the options. Raises Invalid with the name of the wrong one."""
    given = known(options, _OPTIONS, "read of changes")
    if "after" not in given:
        raise Invalid(
            "changes are read after a version: name it with option('after', 40), or 0 to begin "
            "with the table."
        )
    until = given.get("until")
    return ChangeOptions(
        url=table_url(given, "load"),
        after=integer(given["after"], "after", least=0),
        until=None if until is None else integer(until, "until", least=0),
        before_images=flag(given, "before_images"),
    )
