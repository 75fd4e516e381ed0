"""The test vectors: our reader answers what stands in them, and what stands in them is what the script put into the tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

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
from blockstore.scan.execute import read_plan
from blockstore.scan.plan import ScanPlan, plan_scan
from blockstore.scan.snapshot import Snapshot
from blockstore.table import Table
from blockstore.world import Serial, World
from tests.golden.make_vectors import HERE, VECTORS
from tests.golden.oracle import told_sources
from tests.golden.plain import plain, sorted_rows

ERRORS: dict[type[BlockstoreError], str] = {
    BoundaryLost: "boundary-lost",
    NewerFormat: "newer-format",
    Corrupt: "corrupt",
    VersionExpired: "version-expired",
    ObjectMissing: "missing",
    NotFound: "not-found",
}


def stored(name: str) -> dict[str, Any]:
    """A vector's expected.json."""
    found: dict[str, Any] = json.loads((HERE / name / "expected.json").read_text())
    return found


def opened(name: str, ask: dict[str, Any]) -> Table:
    """A vector's table, looked at at the time that a question says."""
    modified = ask.get("modified", 0)
    clock = ManualClock(modified)
    world = World(clock=clock, ids=Ids.seeded(clock, 0), pool=Serial())
    bucket = MemoryBucket(clock)
    folder = HERE / name / "table"
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            bucket.put(str(path.relative_to(folder)), path.read_bytes())
    clock.advance((ask.get("now", modified) - modified) / 1000)
    return Table.open_bucket(bucket, world, discovery="list" if ask.get("list") else None)


def answer(name: str, ask: dict[str, Any]) -> dict[str, Any]:
    """What our reader says."""
    try:
        table = opened(name, ask)
        named = {key: ask[key] for key in ("version", "tag", "as_of") if key in ask}
        snapshot = table.snapshot(**named).snapshot
        listing = bool(ask.get("list"))
        state = (
            shown_listing(snapshot) if listing else shown_state(table.log.at(snapshot.version or 0), snapshot)
        )
        return {"state": state, "rows": sorted_rows(read(table, snapshot))}
    except BlockstoreError as error:
        return {"error": next(said for kind, said in ERRORS.items() if isinstance(error, kind))}


def about(definition: Definition, *, ids: bool = True) -> dict[str, Any]:
    return {
        "columns": [[one.name, str(one.type), field_id(one) if ids else None] for one in definition.schema],
        "time_column": definition.time_column,
        "sort_by": list(definition.sort_by),
    }


def shown_listing(snapshot: Snapshot) -> dict[str, Any]:
    listed = [
        {"ulid": one.meta.ulid, "sources": told_sources(sorted(one.sources))} for one in snapshot.listed
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
        "batches": {app: [list(one) for one in held.ranges] for app, held in sorted(state.batches.items())},
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


@contextmanager
def named(name: str, ask: dict[str, Any]) -> Iterator[None]:
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f"{name}, asked {ask}: {error}") from None


@pytest.mark.parametrize("name", VECTORS)
def test_our_reader_answers_what_stands_in_the_vector(name: str) -> None:
    asks = stored(name)["asks"]
    assert asks
    for asked in asks:
        found = answer(name, asked["ask"])
        with named(name, asked["ask"]):
            assert found == {key: value for key, value in asked.items() if key != "ask"}


@pytest.mark.parametrize(("name", "make"), VECTORS.items())
def test_what_stands_in_the_vector_is_what_was_put_in(name: str, make: Callable[[], Any]) -> None:
    """The rows of the committed file are those of the script's own lists, made anew; names that are drawn may come out otherwise."""
    made = make().asks
    asks = stored(name)["asks"]
    assert len(made) == len(asks)
    for put, kept in zip(made, asks, strict=True):
        with named(name, kept["ask"]):
            assert put.get("error") == kept.get("error")
            assert visible(put) == visible(kept)


def visible(asked: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows without what is drawn anew."""
    rows = ({key: value for key, value in row.items() if key != "_source"} for row in asked.get("rows", ()))
    return sorted_rows(rows)


def test_every_vector_that_is_kept_is_known() -> None:
    assert sorted(path.name for path in HERE.iterdir() if path.is_dir()) == sorted(VECTORS)


def test_the_vectors_are_small() -> None:
    assert sum(path.stat().st_size for path in HERE.rglob("*") if path.is_file()) < 1_500_000
