"""Properties of a table: delays, consistency, retention, isolation.

They belong to the table so that writers, the compactor and readers use the same numbers.

R10, checked when a value is built, all problems at once:
- the upload timeout (24 h) < ``partial_delay``: an upload that is still alive is never treated as
  aborted;
- ``sync_delay`` < ``delete_delay``, and with a reader's ``max_staleness`` (``check_reader``):
  ``sync_delay`` + ``max_staleness`` < ``delete_delay``: nothing is removed that a reader may use;
- on an eventual store ``sync_delay`` >= 5 min: a listing has caught up before a block counts.

``row_history`` is written only where it was set: else it follows from what identifies the rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from blockstore.errors import Invalid
from blockstore.format.durations import format_duration, parse_duration
from blockstore.format.identity import Identity, RowIds

UPLOAD_TIMEOUT_S = 24 * 3600
"""An upload gives up after this, so no upload owns what is older than ``partial_delay``."""

_EVENTUAL_SYNC_DELAY_S = 300
_DURATIONS = ("sync_delay", "delete_delay", "partial_delay", "history_retention")
_NAMES = ("consistency", *_DURATIONS, "retention", "isolation", "row_history")

_IDENTITY = ("row_ids", "key")

FOREVER_S = math.inf
"""A ``row_history`` that ends never."""


class Consistency(StrEnum):
    """What the store's listings promise."""

    STRONG = "strong"
    EVENTUAL = "eventual"


class Isolation(StrEnum):
    """Whether a concurrent append conflicts with an overwrite, delete or revert with a predicate;
    where rows have an identity, whether all that a change has read must be as it was."""

    WRITE_SERIALIZABLE = "write-serializable"
    SERIALIZABLE = "serializable"


E = TypeVar("E", bound=StrEnum)


@dataclass(frozen=True, slots=True, kw_only=True)
class Properties:
    """The properties of a table, with their defaults; delays in seconds."""

    consistency: Consistency = Consistency.STRONG
    sync_delay_s: float = 15 * 60
    delete_delay_s: float = 48 * 3600
    partial_delay_s: float = 48 * 3600
    history_retention_s: float = 48 * 3600
    retention_s: float | None = None
    isolation: Isolation = Isolation.WRITE_SERIALIZABLE
    row_history_s: float | None = None
    """For how long a version of a row is kept after a newer one has replaced it; None: not set."""

    def __post_init__(self) -> None:
        problems = []
        if self.partial_delay_s <= UPLOAD_TIMEOUT_S:
            problems.append(
                f"partial_delay is {format_duration(self.partial_delay_s)}, expected more than "
                f"the upload timeout of {format_duration(UPLOAD_TIMEOUT_S)}, or a running upload "
                "would be treated as aborted"
            )
        if self.delete_delay_s <= self.sync_delay_s:
            problems.append(
                f"delete_delay is {format_duration(self.delete_delay_s)}, expected more than the "
                f"sync_delay of {format_duration(self.sync_delay_s)}, or blocks would be removed "
                "that readers still need"
            )
        if self.consistency is Consistency.EVENTUAL and self.sync_delay_s < _EVENTUAL_SYNC_DELAY_S:
            problems.append(
                f"sync_delay is {format_duration(self.sync_delay_s)}, expected at least "
                f"{format_duration(_EVENTUAL_SYNC_DELAY_S)} on an eventually consistent store, "
                "whose listings lag"
            )
        if problems:
            raise Invalid("the table's properties contradict each other: " + "; ".join(problems))

    @property
    def upload_timeout_s(self) -> float:
        """After this long an upload gives up (24 h, the same for every table)."""
        return UPLOAD_TIMEOUT_S

    def is_due(self, marked_ms: float, now_ms: float) -> bool:
        """Whether a deletion mark that the store modified at ``marked_ms`` is old enough, by the
        store's clock, for the removal of what it marks (R8)."""
        return now_ms - marked_ms >= self.delete_delay_s * 1000

    def kept_history_s(self, identity: Identity | None) -> float:
        """For how long former versions of rows are kept: ``row_history``, or if that is not set,
        forever where rows have ids, and not at all where they have a key."""
        if self.row_history_s is not None:
            return self.row_history_s
        return FOREVER_S if isinstance(identity, RowIds) else 0.0

    def check_reader(self, max_staleness_s: float) -> None:
        """Raise Invalid if a reader this stale could need a block that is removed (R10)."""
        if self.sync_delay_s + max_staleness_s >= self.delete_delay_s:
            raise Invalid(
                f"max_staleness is {format_duration(max_staleness_s)} and the table's sync_delay "
                f"is {format_duration(self.sync_delay_s)}, expected a sum below its delete_delay "
                f"of {format_duration(self.delete_delay_s)}; lower max_staleness or raise "
                "delete_delay"
            )

    @classmethod
    def parse(cls, values: Mapping[str, object]) -> Properties:
        """Return properties from names and texts as users write them: ``{"sync_delay": "15m"}``."""
        return cls().changed(values)

    def changed(self, values: Mapping[str, object]) -> Properties:
        """Return these properties with some replaced, in the notation of ``parse``."""
        changes: dict[str, object] = {}
        for name, value in values.items():
            if name in _DURATIONS:
                changes[f"{name}_s"] = _duration(name, value)
            elif name == "retention":
                changes["retention_s"] = None if value in (None, "none") else _duration(name, value)
            elif name == "consistency":
                changes[name] = _choice(Consistency, name, value)
            elif name == "isolation":
                changes[name] = _choice(Isolation, name, value)
            elif name == "row_history":
                changes["row_history_s"] = _row_history(value)
            elif name in _IDENTITY:
                raise Invalid(
                    f"{name} is no property: what identifies rows is said when a table is created, "
                    "and stays; create another table with it, and insert the rows of this one"
                )
            else:
                raise Invalid(
                    f"unknown table property {name!r}, expected one of {', '.join(_NAMES)}"
                )
        return replace(self, **changes)  # type: ignore[arg-type]

    def to_json(self) -> dict[str, str]:
        """Return all properties in the notation of ``parse``."""
        return {
            "consistency": str(self.consistency),
            **{name: format_duration(getattr(self, f"{name}_s")) for name in _DURATIONS},
            "retention": "none" if self.retention_s is None else format_duration(self.retention_s),
            "isolation": str(self.isolation),
            **({} if self.row_history_s is None else {"row_history": self._row_history()}),
        }

    def _row_history(self) -> str:
        words = {0.0: "none", FOREVER_S: "forever"}
        assert self.row_history_s is not None
        return words.get(self.row_history_s) or format_duration(self.row_history_s)


def _duration(name: str, value: object) -> float:
    if not isinstance(value, (str, int, float)):
        raise Invalid(f'{name} is {value!r}, expected a duration such as "15m"')
    return parse_duration(value, name)


def _row_history(value: object) -> float:
    if value in (None, "none"):
        return 0.0
    return FOREVER_S if value == "forever" else _duration("row_history", value)


def _choice(kind: type[E], name: str, value: object) -> E:
    try:
        return kind(str(value))
    except ValueError:
        raise Invalid(f"{name} is {value!r}, expected one of {', '.join(kind)}") from None
