"""The blocks of a table as a timeline shows them: values, and the one function that makes them.
Pure.

Rules:
- The state of a block is told by ``lifecycle.states`` and never guessed here; ``live`` is what
  readers read. What is quarantined (malformed, or said so by whoever merges) is shown as that,
  whatever else it is.
- Live blocks come from the columns of the index's state: no object is made for those of level 1, so
  that ten thousand of them cost milliseconds.
- Without a listing a timeline shows the live blocks alone and claims nothing of files.
- A directory without a readable meta.json stands at the time of its ULID.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import orjson

from blockstore.format.block import BlockMeta, StreamKey
from blockstore.format.properties import Properties
from blockstore.ids import ulid_time_ms
from blockstore.index.state import State
from blockstore.lifecycle.list_path import list_snapshot
from blockstore.lifecycle.listing import Directory, Found, Listing
from blockstore.lifecycle.states import BlockState, classify
from blockstore.names import META

NO_STREAM = StreamKey((), 0)
_UNLISTED_MS = 5 * 60 * 1000
"""A live block that a listing lacks was committed after it, unless it is older than this."""


class Shade(StrEnum):
    """What the colour of a block says."""

    LIVE = "live"
    FRESH = "fresh"
    SUPERSEDED = "superseded"
    MARKED = "marked"
    DELETING = "deleting"
    PARTIAL = "partial"
    QUARANTINED = "quarantined"


_SHADES = {
    BlockState.READY: Shade.LIVE,
    BlockState.FRESH: Shade.FRESH,
    BlockState.SUPERSEDED: Shade.SUPERSEDED,
    BlockState.MARKED: Shade.MARKED,
    BlockState.DELETING: Shade.DELETING,
    BlockState.PARTIAL: Shade.PARTIAL,
    BlockState.MALFORMED: Shade.QUARANTINED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineBlock:
    """One block, as much of it as a timeline draws and a filter asks for."""

    ulid: str
    stream: StreamKey = NO_STREAM
    level: int = 0
    """0 where it cannot be told."""
    min_time: int
    max_time: int
    rows: int = 0
    bytes: int = 0
    sources: int = 0
    shade: Shade
    reason: str = ""
    no_compact: bool = False
    version: int | None = None
    """The entry that added it; None for a block that no entry names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """A table's blocks at one moment, and the versions that can be asked for."""

    table: str
    now_ms: int
    version: int | None = None
    """None for a table without an index."""
    boundary: int | None = None
    tags: Mapping[str, int] = field(default_factory=dict)
    time_column: str | None = None
    blocks: tuple[TimelineBlock, ...] = ()
    """By ULID."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """A listing, and what it says of the directories that the index does not answer for."""

    listing: Listing
    found: Mapping[str, Found]


def timeline_of(
    table: str,
    *,
    state: State | None,
    sighting: Sighting | None,
    now_ms: int,
    properties: Properties,
    boundary: int | None = None,
    quarantined: Mapping[str, str] | None = None,
    time_column: str | None = None,
) -> Timeline:
    """The timeline of a table: ``state`` is None without an index, ``sighting`` without a listing;
    the listing comes first, as everywhere. ``quarantined`` are blocks, by ULID, that a merge found
    damaged, and why."""
    bad = quarantined or {}
    blocks = {block.ulid: block for block in _live(state, sighting, now_ms, bad)}
    if sighting is not None:
        for block in _listed(sighting, state, now_ms, properties, bad):
            blocks.setdefault(block.ulid, block)
    definition = None if state is None else state.table
    return Timeline(
        table=table,
        now_ms=now_ms,
        version=None if state is None else state.version,
        boundary=boundary,
        tags={} if state is None else dict(state.tags),
        time_column=time_column if definition is None else definition.time_column,
        blocks=tuple(blocks[ulid] for ulid in sorted(blocks)),
    )


def _live(
    state: State | None, sighting: Sighting | None, now_ms: int, bad: Mapping[str, str]
) -> Iterator[TimelineBlock]:
    if state is None:
        return
    frame = state.blocks.table()
    columns = (frame[name].to_pylist() for name in _COLUMNS)
    merged = [
        ulid
        for ulid, level in zip(
            *(frame[name].to_pylist() for name in ("ulid", "level")), strict=True
        )
        if level > 1
    ]
    sources = {
        ulid: len(block.meta.sources) for ulid, block in state.blocks.get_all(merged).items()
    }
    streams: dict[str, StreamKey] = {}
    directories = {} if sighting is None else sighting.listing.directories
    for ulid, low, high, rows, size, level, text, version in zip(*columns, strict=True):
        directory = directories.get(ulid)
        damage = None if sighting is None else _damage(ulid, size, directory, state, now_ms)
        yield TimelineBlock(
            ulid=ulid,
            stream=streams.get(text) or streams.setdefault(text, _stream(text)),
            level=level,
            min_time=low,
            max_time=high,
            rows=rows,
            bytes=size,
            sources=sources.get(ulid, 1),
            shade=Shade.QUARANTINED if damage or ulid in bad else Shade.LIVE,
            reason=bad.get(ulid) or damage or "",
            no_compact=directory is not None and directory.no_compact,
            version=version,
        )


_COLUMNS = ("ulid", "min_time", "max_time", "rows", "bytes", "level", "stream", "version")


def _stream(text: str) -> StreamKey:
    value = orjson.loads(text)
    return StreamKey(tuple(sorted(value["labels"].items())), value["resolution"])


def _damage(
    ulid: str, size: int, directory: Directory | None, state: State, now_ms: int
) -> str | None:
    """How the listing contradicts a live block.

    Its meta is looked at only where the sizes do not add up.
    """
    if directory is not None and META in directory.objects:
        stored = sum(
            info.size for path, info in directory.objects.items() if path.startswith("chunks/")
        )
        if stored == size:
            return None
        block = state.blocks.get(ulid)
        contradiction = None if block is None else directory.difference(block.meta)
        return None if contradiction is None else f"an index entry names it, but {contradiction}"
    if directory is not None:
        return "an index entry names it, but meta.json is missing"
    if now_ms - ulid_time_ms(ulid) < _UNLISTED_MS:
        return None
    block = state.blocks.get(ulid)
    late = block is not None and now_ms - block.meta.uploaded_time < _UNLISTED_MS
    return None if late else "an index entry names it, but the listing shows no such directory"


def _listed(
    sighting: Sighting,
    state: State | None,
    now_ms: int,
    properties: Properties,
    bad: Mapping[str, str],
) -> Iterator[TimelineBlock]:
    snapshot = list_snapshot(sighting.found, state, properties, now_ms)
    covered = {meta.ulid for meta in snapshot.cover.superseded}
    for ulid, one in sighting.found.items():
        verdict = classify(one.evidence(state, covered=ulid in covered), now_ms, properties)
        shade = _SHADES[verdict.state]
        hidden = shade is Shade.LIVE and ulid in bad
        yield _block(one, Shade.QUARANTINED if hidden else shade, bad.get(ulid) or verdict.reason)


def _block(one: Found, shade: Shade, reason: str) -> TimelineBlock:
    directory, meta = one.directory, one.meta
    moment = ulid_time_ms(directory.ulid)
    if meta is None:
        return TimelineBlock(
            ulid=directory.ulid,
            min_time=moment,
            max_time=moment + 1,
            bytes=sum(info.size for info in directory.objects.values()),
            shade=shade,
            reason=reason,
            no_compact=directory.no_compact,
        )
    return _described(meta, shade, reason, directory)


def _described(meta: BlockMeta, shade: Shade, reason: str, directory: Directory) -> TimelineBlock:
    return TimelineBlock(
        ulid=meta.ulid,
        stream=meta.stream,
        level=meta.level,
        min_time=meta.min_time,
        max_time=meta.max_time,
        rows=meta.rows,
        bytes=meta.bytes,
        sources=len(meta.sources),
        shade=shade,
        reason=reason,
        no_compact=directory.no_compact,
    )
