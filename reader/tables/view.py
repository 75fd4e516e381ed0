"""The state of one table at one moment, as a value for pages, metrics and errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from blockstore.scan.view import TableSnapshot


class TableState(StrEnum):
    """The state of a table."""

    LOADING = "loading"
    """Not read yet."""
    READY = "ready"
    """The last look succeeded."""
    DEGRADED = "degraded"
    """The last look failed; the snapshot before it is still young enough to serve, or there is
    none."""
    STALE = "stale"
    """No look succeeded within ``max_staleness``: queries fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableView:
    """One table."""

    name: str
    url: str
    state: TableState
    reason: str | None
    """The error of the last look."""
    snapshot: TableSnapshot | None
    staleness_s: float | None
    """Seconds since the last look that succeeded; None before the first."""
    version: int | None = None
    rows: int | None = None
    """All rows of the snapshot's blocks, including hidden rows of merged blocks."""
    bytes: int | None = None
    blocks: int | None = None
    tags: Mapping[str, int] = field(default_factory=dict)
    idle: bool = False
    """Whether it is polled on demand only."""
