"""What our reader answers to a question of a vector, in the form of the vectors' JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from blockstore.bucket.memory import MemoryBucket
from blockstore.clock import ManualClock
from blockstore.errors import (
    BlockstoreError,
    BoundaryLost,
    Corrupt,
    NewerFormat,
    NotFound,
    ObjectMissing,
    VersionExpired,
)
from blockstore.format.definition import Definition
from blockstore.format.fields import field_id
from blockstore.ids import Ids
from blockstore.index.state import State
from blockstore.scan.chunk import HIDDEN, ScanChunk
from blockstore.scan.execute import read_plan, resolve
from blockstore.scan.plan import ScanPlan, plan_scan
from blockstore.scan.snapshot import Snapshot
from blockstore.table import Table
from blockstore.world import Serial, World
from tests.golden.oracle import told_sources
from tests.golden.plain import plain, sorted_rows

__all__ = ["answer"]

ERRORS: dict[type[BlockstoreError], str] = {
    BoundaryLost: "boundary-lost",
    NewerFormat: "newer-format",
    Corrupt: "corrupt",
    VersionExpired: "version-expired",
    ObjectMissing: "missing",
    NotFound: "not-found",
}


def opened(folder: Path, ask: dict[str, Any]) -> Table:
    """A table in a folder, looked at at the time that a question says."""
    modified = ask.get("modified", 0)
    clock = ManualClock(modified)
    world = World(clock=clock, ids=Ids.seeded(clock, 0), pool=Serial())
    bucket = MemoryBucket(clock)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            bucket.put(str(path.relative_to(folder)), path.read_bytes())
    clock.advance((ask.get("now", modified) - modified) / 1000)
    return Table.open_bucket(bucket, world, discovery="list" if ask.get("list") else None)


def answer(folder: Path, ask: dict[str, Any]) -> dict[str, Any]:
    """What our reader says."""
    try:
        table = opened(folder, ask)
        named = {key: ask[key] for key in ("version", "tag", "as_of") if key in ask}
        snapshot = table.snapshot(**named).snapshot
        listing = bool(ask.get("list"))
        state = (
            shown_listing(snapshot)
            if listing
            else shown_state(table.log.at(snapshot.version or 0), snapshot)
        )
        return {"state": state, "rows": sorted_rows(read(table, snapshot))}
    except BlockstoreError as error:
        return {"error": next(said for kind, said in ERRORS.items() if isinstance(error, kind))}


def about(definition: Definition, *, ids: bool = True) -> dict[str, Any]:
    return {
        "columns": [
            [one.name, str(one.type), field_id(one) if ids else None] for one in definition.schema
        ],
        "time_column": definition.time_column,
        "sort_by": list(definition.sort_by),
    }


def shown_listing(snapshot: Snapshot) -> dict[str, Any]:
    listed = [
        {"ulid": one.meta.ulid, "sources": told_sources(sorted(one.sources))}
        for one in snapshot.listed
    ]
    return {
        "version": snapshot.version,
        **about(snapshot.definition, ids=snapshot.version is not None),
        "listed": listed,
        "left_out": sorted(snapshot.malformed),
    }


def shown_state(state: State, snapshot: Snapshot) -> dict[str, Any]:
    assert state.version == snapshot.version
    live = {source for block in state.blocks for source in block.meta.sources}
    last = state.last
    return {
        "version": state.version,
        "time": state.time_ms,
        **about(state.definition),
        "labels": dict(state.definition.labels),
        "blocks": [
            {
                "ulid": one.ulid,
                "level": one.meta.level,
                "version": one.version,
                "first_row_id": one.first_row_id,
                "sources": told_sources(one.meta.sources),
                "excepted": sorted(one.excepted),
            }
            for one in state.blocks
        ],
        "accounted": told_sources(
            [one for one in map(bytes.decode, state.accounted.array()) if one not in live]
        ),
        "tags": dict(state.tags),
        "epochs": {role: list(epoch) for role, epoch in state.epochs.items()},
        "batches": {
            app: [list(one) for one in held.ranges] for app, held in sorted(state.batches.items())
        },
        "horizon": state.horizon,
        "floor": state.floor,
        "next_row_id": state.next_row_id,
        "void": list(state.void),
        "requires": list(state.requires),
        "last": {
            "commit": last.commit,
            **({"sha256": last.sha256, "chain": last.chain} if last.chain else {}),
        },
    }


def read(table: Table, snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    """The rows, their chunks compared with their hashes; what a chunk cannot give is null."""
    plan = plan_scan(snapshot, columns=[*snapshot.columns.visible.names, "_source"])
    plan = resolve(table.bucket, plan, table.world)
    for chunk in plan.chunks:
        yield from read_chunk(table, plan, chunk)


def read_chunk(table: Table, plan: ScanPlan, chunk: ScanChunk) -> Iterator[dict[str, Any]]:
    given = [name for name in HIDDEN.names if chunk.gives(name)]
    output = plan.columns.select([*plan.columns.visible.names, *given])
    one = replace(plan, chunks=(chunk,), output_schema=output)
    rows = read_plan(table.bucket, one, table.world, verify=True).read_all()
    columns = [plain(column) for column in rows.columns]
    for values in zip(*columns, strict=True):
        yield dict.fromkeys(HIDDEN.names) | dict(zip(rows.column_names, values, strict=True))
