"""Timelines of tables that a process holds open: looked at when a page asks, and not more often
than is useful.

Rules:
- One look is one LIST, then the index, then a GET for each object that the table's catalog has not
  read: the catalog is the process's own, so what its loops have read costs nothing here.
- A look is good for ``refresh_s``, and longer where the table has many objects, since a store asks
  money for a listing: a second for each thousand. Who asks meanwhile, or while another looks at the
  same table, gets that one.
- A look changes nothing in the bucket.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from blockstore.errors import Corrupt, NotFound, ObjectMissing
from blockstore.format.meta import load_meta
from blockstore.names import DELETION_MARK
from blockstore.service.pages.detail import BlockDetail
from blockstore.service.pages.timeline import Sighting, Timeline, timeline_of
from blockstore.table import Table
from blockstore.world import World

_OBJECT_S = 0.001
"""For so long a look is good, for each object that it listed."""


def look(
    table: Table, quarantined: Mapping[str, str] | None = None, *, name: str | None = None
) -> Timeline:
    """The table's timeline as of now, under ``name`` or the table's own."""
    return _look(table, quarantined, name)[0]


def _look(
    table: Table, quarantined: Mapping[str, str] | None, name: str | None
) -> tuple[Timeline, int]:
    """The timeline, and how many objects were listed for it."""
    listing = table.catalog.listing()
    state = table.log.poll() if table.indexed else None

    def answered_by_index(ulid: str) -> bool:
        marked = DELETION_MARK in listing.directories[ulid].objects
        return state is not None and ulid in state.blocks and not marked

    found = table.catalog.look(listing, skip=answered_by_index).found
    definition = table.definition
    timeline = timeline_of(
        name or table.name,
        state=state,
        sighting=Sighting(listing=listing, found=found),
        now_ms=listing.now_ms,
        properties=definition.properties,
        boundary=table.log.boundary.seen if table.indexed else None,
        quarantined=quarantined,
        time_column=definition.time_column,
    )
    return timeline, listing.objects


def detail_of(table: Table, ulid: str) -> BlockDetail:
    """What the index, or else the block's own meta.json, says of it; without a meta where that
    cannot be read. Raises NotFound if it has none."""
    block = table.log.state.blocks.get(ulid) if table.indexed else None
    if block is not None:
        hidden = tuple(sorted(block.excepted))
        return BlockDetail(
            ulid=ulid, url=table.url, meta=block.meta, version=block.version, excepted=hidden
        )
    try:
        return BlockDetail(ulid=ulid, url=table.url, meta=load_meta(table.bucket, ulid))
    except ObjectMissing as error:
        raise NotFound(
            f"{table.url} has no block {ulid} with a meta.json: it is being uploaded, was "
            "aborted, or has been removed"
        ) from error
    except Corrupt:
        return BlockDetail(ulid=ulid, url=table.url, meta=None)


@dataclass(slots=True)
class _Kept:
    """The last look at one table."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    timeline: Timeline | None = None
    until_s: float = 0.0


class LiveTimelines:
    """A ``TimelineSource`` over tables that ``open_table`` answers by name; it raises NotFound for
    others."""

    def __init__(
        self,
        open_table: Callable[[str], Table],
        world: World,
        *,
        quarantined: Callable[[str], Mapping[str, str]] = lambda table: {},
        refresh_s: float = 10.0,
    ) -> None:
        self._open = open_table
        self._clock = world.clock
        self._quarantined = quarantined
        self._refresh_s = refresh_s
        self._kept: dict[str, _Kept] = {}
        self._lock = threading.Lock()

    def timeline(self, table: str) -> Timeline:
        """The table's blocks as of a moment ago."""
        handle = self._open(table)
        with self._lock:
            kept = self._kept.setdefault(table, _Kept())
        with kept.lock:
            if kept.timeline is None or self._clock.monotonic_s() >= kept.until_s:
                kept.timeline, objects = _look(handle, self._quarantined(table), table)
                kept.until_s = self._clock.monotonic_s() + max(self._refresh_s, objects * _OBJECT_S)
            return kept.timeline

    def detail(self, table: str, ulid: str) -> BlockDetail:
        """One block of the table."""
        return detail_of(self._open(table), ulid)
