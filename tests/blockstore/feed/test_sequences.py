"""Random operations with merges and cleaning in between: from every version on the feed says, of
every later one, exactly by what it differs from the one before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blockstore.bucket.memory import MemoryBucket
from blockstore.compactor.clean.cleaner import Cleaner
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.format.definition import Definition
from blockstore.index import log as index_log
from blockstore.index.epochs import COMPACTOR, claim
from blockstore.operations.access import Access
from blockstore.operations.expire import expire
from blockstore.rows.expire import expire_rows
from blockstore.table import Table
from blockstore.world import World
from tests.blockstore.feed.recorded import Recorded, small_runs
from tests.compactor.run.changing import DAY_S, Changing
from tests.compactor.scene import small_chunks
from tests.support.examples import few

IDS = st.integers(0, 7)
VALUES = st.dictionaries(IDS, st.integers(-3, 3), min_size=1, max_size=4)
FRESH = st.lists(st.integers(-3, 3), min_size=1, max_size=4)
LIMITS = st.sampled_from([(256, 1_000_000, 200_000), (2, 3, 1), (1, 1, 1), (3, 100, 2)])
CHANGES = (
    st.tuples(st.just("insert"), FRESH),
    st.tuples(st.just("set"), VALUES),
    st.tuples(st.just("update"), st.integers(-3, 3)),
    st.tuples(st.just("delete"), st.sets(IDS, min_size=1, max_size=3)),
    st.tuples(st.just("restore"), st.integers(1, 6)),
    st.tuples(st.just("expire"), st.integers(0, 3)),
    st.tuples(st.just("compact"), st.booleans()),
)
BY_KEY = st.one_of(*CHANGES, st.tuples(st.just("put"), VALUES), st.tuples(st.just("merge"), VALUES))
BY_ID = st.one_of(*CHANGES, st.tuples(st.just("put new"), st.tuples(VALUES, FRESH)))
OPTIONS: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@pytest.fixture(autouse=True)
def blocks_of_many_chunks() -> Iterator[None]:
    with small_chunks():
        yield


def sees(table: Table) -> dict[Any, Any]:
    """The current rows, as the oracle of ``Changing`` holds them."""
    identity = table.definition.identity
    assert identity is not None
    names = [*dict.fromkeys((*identity.columns, *table.definition.schema.names))]
    rows = table.snapshot().scan(columns=names).to_table().to_pylist()
    return {
        row[identity.columns[0]]: {name: row[name] for name in table.definition.schema.names}
        for row in rows
    }


def walk(made: Changing, todo: list[tuple[str, Any]]) -> Recorded:
    recorded = Recorded()
    for what, given_ in todo:
        match what:
            case "insert":
                made.insert(given_)
            case "set":
                made.set(given_)
            case "update":
                made.update(given_)
            case "delete":
                made.delete(given_)
            case "put":
                made.put(given_.items())
            case "put new":
                made.put_new(*given_)
            case "merge":
                made.merge(given_)
            case "compact":
                made.world.clock.sleep(DAY_S if given_ else 1.0)
                made.compact()
            case "restore":
                table = made.open()
                if given_ < table.log.state.version:
                    table.restore(version=given_)
                    relearn(made, table)
            case _:
                table = made.open()
                ulids = table.log.state.blocks.ulids()[given_ : given_ + 2]
                if ulids:
                    expire_rows(access(table), ulids, "retention")
                    relearn(made, table)
        recorded.record(made.open())
    return recorded


def access(table: Table) -> Access:
    return Access.of(table.bucket, table.world, table.log)


def relearn(made: Changing, table: Table) -> None:
    """Take the table as it is now for what is to be changed next."""
    now, version = sees(table), table.log.state.version
    made.oracle.versions = {one: {version: now.get(one)} for one in {*now, *made.oracle.versions}}


def check(recorded: Recorded, table: Table, limits: tuple[int, int, int]) -> None:
    with small_runs(*limits):
        for after in range(max(recorded.rows) + 1):
            recorded.check(table, after, images=after % 2 == 0)


@settings(max_examples=few(10), **OPTIONS)
@given(todo=st.lists(BY_KEY, max_size=12), limits=LIMITS)
def test_a_table_with_a_key(todo: list[tuple[str, Any]], limits: tuple[int, int, int]) -> None:
    made = Changing(Path(mkdtemp()), False, "none")
    check(walk(made, todo), made.open(), limits)


@settings(max_examples=few(10), **OPTIONS)
@given(todo=st.lists(BY_ID, max_size=12), limits=LIMITS)
def test_a_table_with_row_ids(todo: list[tuple[str, Any]], limits: tuple[int, int, int]) -> None:
    made = Changing(Path(mkdtemp()), True, "forever")
    check(walk(made, todo), made.open(), limits)


SCHEMA = pa.schema(
    [("n", pa.int64()), ("x", pa.float64()), ("word", pa.string()), ("list", pa.list_(pa.int8()))]
)
ROW = st.tuples(
    st.integers(0, 3),
    st.sampled_from([None, 0.5, -0.0, 0.0, float("nan")]),
    st.sampled_from([None, "", "a", "1:a"]),
    st.sampled_from([None, [], [1], [None]]),
)
ROWS = st.lists(ROW, min_size=1, max_size=5)
WITHOUT = st.one_of(
    st.tuples(st.just("append"), ROWS),
    st.tuples(st.just("append"), ROWS),
    st.tuples(st.just("overwrite"), st.tuples(ROWS, st.integers(0, 3))),
    st.tuples(st.just("delete"), st.integers(0, 3)),
    st.tuples(st.just("revert"), st.integers(0, 3)),
    st.tuples(st.just("restore"), st.integers(1, 6)),
    st.tuples(st.just("expire"), st.integers(0, 3)),
    st.tuples(st.just("compact"), st.booleans()),
)


def table_without() -> Table:
    world = World.manual(seed=1)
    bucket = MemoryBucket(world.clock)
    definition = Definition.create(SCHEMA, sort_by=["n"])
    return Table(bucket, world, index_log.create(bucket, world, definition))


@settings(max_examples=few(10), **OPTIONS)
@given(todo=st.lists(WITHOUT, max_size=10), limits=LIMITS)
def test_a_table_without_an_identity(
    todo: list[tuple[str, Any]], limits: tuple[int, int, int]
) -> None:
    table, recorded, sources = table_without(), Recorded(), list[str]()
    merging = Settings(tier_blocks=2, work_dir=Path(mkdtemp()))
    for what, given_ in todo:
        match what:
            case "append":
                sources.append(str(table.append(rows(given_)).ulid))
            case "overwrite":
                new = [(given_[1], *row[1:]) for row in given_[0]]
                table.overwrite(rows(new), where=f"n = {given_[1]}")
            case "delete":
                table.delete(f"n = {given_}")
            case "revert":
                if given_ < len(sources):
                    table.revert(sources[given_])
            case "restore":
                if given_ < table.log.state.version:
                    table.restore(version=given_)
            case "expire":
                ulids = table.log.state.blocks.ulids()[given_ : given_ + 1]
                if ulids:
                    expire(table.log, table.world, ulids, "retention")
            case _:
                table.world.clock.sleep(DAY_S if given_ else 1.0)
                compact_once(table, merging)
        recorded.record(table)
    Cleaner(table, claim(table.log, table.world, COMPACTOR)).run()
    recorded.record(table)
    check(recorded, table, limits)


def rows(given_: list[tuple[Any, ...]]) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(SCHEMA.names, row, strict=True)) for row in given_], schema=SCHEMA
    )
