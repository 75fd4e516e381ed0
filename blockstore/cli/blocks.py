"""Blocks as the command line shows them: all directories of a table, or those of a snapshot.

A block has the same JSON form in every verb. Its state comes from ``lifecycle.states``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from blockstore.cli.output import Cell, Column, count, iso, size, span
from blockstore.format.block import BlockMeta
from blockstore.index.rows import LiveBlock
from blockstore.lifecycle.list_path import list_snapshot
from blockstore.lifecycle.listing import Directory, Found, Listing, look
from blockstore.lifecycle.states import BlockState, Verdict, classify
from blockstore.scan.view import TableSnapshot
from blockstore.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A block, or what is left of one."""

    ulid: str
    meta: BlockMeta | None
    state: BlockState
    reason: str
    version: int | None = None
    first_row_id: int | None = None
    excepted: tuple[str, ...] = ()
    objects: int | None = None
    bytes: int = 0

    def json(self) -> dict[str, Cell]:
        """Return the block as JSON."""
        value: dict[str, Cell] = {
            "ulid": self.ulid,
            "state": str(self.state),
            "reason": self.reason,
        }
        value |= {"version": self.version, "bytes": self.bytes}
        if self.meta is not None:
            value |= meta_json(self.meta)
        value["excepted"] = list(self.excepted)
        return value

    @property
    def source(self) -> str | None:
        """The block's only source; None if it has several."""
        return (
            self.meta.sources[0] if self.meta is not None and len(self.meta.sources) == 1 else None
        )


def live(snapshot: TableSnapshot) -> list[Shown]:
    """Return the blocks of a snapshot, from metadata only."""
    return [_live(block) for block in snapshot.blocks]


def examine(table: Table) -> list[Shown]:
    """Return every directory of the table and every block that the index names.

    Reads one listing, the index and the metas that neither has.
    """
    listing = table.catalog.listing()
    state = table.log.poll() if table.indexed else None
    known = {} if state is None else {block.ulid: block for block in state.blocks}
    if table.indexed:
        loaded = {ulid: block.meta for ulid, block in known.items()}
        found: Mapping[str, Found] = look(table.bucket, table.world, listing, loaded=loaded)
    else:
        found = table.catalog.look(listing).found
    properties = table.definition.properties
    covered = {
        meta.ulid
        for meta in list_snapshot(found, state, properties, listing.now_ms).cover.superseded
    }
    shown = [
        _directory(
            one,
            classify(one.evidence(state, covered=ulid in covered), listing.now_ms, properties),
            known,
        )
        for ulid, one in found.items()
    ]
    gone = [_gone(block, listing) for ulid, block in known.items() if ulid not in found]
    return sorted([*shown, *gone], key=lambda block: block.ulid)


def _live(block: LiveBlock) -> Shown:
    return Shown(
        ulid=block.ulid,
        meta=block.meta,
        state=BlockState.READY,
        reason="an index entry names it"
        if block.version
        else "complete, and older than sync_delay",
        version=block.version or None,
        first_row_id=block.first_row_id if block.version else None,
        excepted=tuple(sorted(block.excepted)),
        bytes=block.meta.bytes,
    )


def _directory(one: Found, verdict: Verdict, known: Mapping[str, LiveBlock]) -> Shown:
    directory: Directory = one.directory
    block = known.get(directory.ulid)
    meta = one.meta or (block.meta if block else None)
    return Shown(
        ulid=directory.ulid,
        meta=meta,
        state=verdict.state,
        reason=verdict.reason,
        version=block.version if block else None,
        first_row_id=block.first_row_id if block else None,
        excepted=tuple(sorted(block.excepted)) if block else (),
        objects=len(directory.objects),
        bytes=meta.bytes if meta else sum(found.size for found in directory.objects.values()),
    )


def _gone(block: LiveBlock, listing: Listing) -> Shown:
    """Return a block that the index names and the listing lacks: committed since, or lost."""
    return Shown(
        ulid=block.ulid,
        meta=block.meta,
        state=BlockState.MALFORMED,
        reason=f"an index entry names it, but the listing of {iso(listing.now_ms)} does not have "
        "its directory",
        version=block.version,
        first_row_id=block.first_row_id,
        excepted=tuple(sorted(block.excepted)),
        objects=0,
        bytes=block.meta.bytes,
    )


def meta_json(meta: BlockMeta) -> dict[str, Cell]:
    """Return the content of meta.json as JSON; times are ISO texts."""
    return {
        "ulid": meta.ulid,
        "min_time": iso(meta.min_time),
        "max_time": iso(meta.max_time),
        "rows": meta.rows,
        "bytes": meta.bytes,
        "chunks": len(meta.chunks),
        "level": meta.level,
        "revision": meta.revision,
        "resolution": meta.resolution,
        "labels": dict(meta.labels),
        "sources": list(meta.sources),
        "parents": [parent.ulid for parent in meta.parents],
        "visible_by": str(meta.visible_by),
        "job": None if meta.job is None else {"app": meta.job.app, "batch": meta.job.batch},
        "producer": meta.producer,
        "uploaded": iso(meta.uploaded_time) if meta.uploaded_time else None,
        "schema_id": meta.schema_id,
    }


SHORT = (
    Column("ulid", "BLOCK"),
    Column("span", "TIME", fold=True, least=len("2013-01-01 00:00 …")),
    Column("rows", "ROWS", right=True),
    Column("size", "SIZE", right=True),
    Column("level", "LEVEL", right=True),
)
LONG = (
    *SHORT,
    Column("state", "STATE"),
    Column("labels", "LABELS", fold=True),
    Column("from", "SOURCE"),
)
WIDE = (
    *LONG,
    Column("version", "VERSION", right=True),
    Column("chunks", "CHUNKS", right=True),
    Column("revision", "REVISION", right=True),
    Column("job", "JOB"),
    Column("uploaded", "UPLOADED"),
    Column("reason", "WHY", fold=True),
)


def cells(block: Shown) -> dict[str, str]:
    """Return the block as text: every column that a table may show."""
    meta = block.meta
    row = {
        "ulid": block.ulid,
        "size": size(block.bytes),
        "state": str(block.state),
        "version": "" if block.version is None else str(block.version),
        "reason": block.reason,
    }
    if meta is None:
        return row | dict.fromkeys(
            ("span", "rows", "level", "labels", "from", "chunks", "revision", "job", "uploaded"), ""
        )
    return row | {
        "span": span(meta.min_time, meta.max_time),
        "rows": count(meta.rows),
        "level": str(meta.level),
        "labels": _pairs(meta.labels.items()),
        "from": "itself"
        if meta.sources == (meta.ulid,)
        else block.source or f"{count(len(meta.sources))} sources",
        "chunks": str(len(meta.chunks)),
        "revision": str(meta.revision),
        "job": "" if meta.job is None else f"{meta.job.app}/{meta.job.batch}",
        "uploaded": iso(meta.uploaded_time // 1000 * 1000) if meta.uploaded_time else "",
    }


def _pairs(items: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(items))
