"""Rows that change, in SQL: the rows of an oracle, as Arrow scans return them, in this process and
in another, of local files and of a bucket without files, merged or not, at every version."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blockstore.format.block import BlockKind
from blockstore.format.definition import Definition
from blockstore.reader.cache import ChunkCache
from blockstore.reader.query import Capacity, Engine
from blockstore.reader.tables.at import At
from blockstore.scan.view import TableSnapshot
from blockstore.table import Table
from blockstore.world import World
from tests.reader.query.changed import Moving, copied, created, merged
from tests.support.examples import few
from tests.support.versions import Oracle

pytestmark = pytest.mark.slow

CAPACITY = Capacity(queries=1, memory_bytes=512 << 20, threads=1, spill_bytes=64 << 20)
KEYED = pa.schema(
    [("day", pa.date32()), ("name", pa.string()), ("n", pa.int64()), ("f", pa.float64())]
)
BY_ID = pa.schema([("name", pa.string()), ("n", pa.int64()), ("f", pa.float64())])

QUERIES = [
    "SELECT name, n, f, _version FROM t",
    "SELECT count(*) FROM t",
    "SELECT count(*) FROM t WHERE n = 1",
    "SELECT name, n FROM t WHERE n > 0",
    "SELECT name FROM t WHERE n < 2 AND f IS NULL",
    "SELECT f, _version FROM t WHERE name = 'b' OR n = -1",
    "SELECT n, count(*), min(_version), max(f) FROM t GROUP BY n",
    "SELECT name, sum(n) FROM t GROUP BY name ORDER BY name",
    "SELECT count(*), sum(_version) FROM t WHERE _version > 3",
    "SELECT t.n, u.f FROM t JOIN t AS u ON t.n = u.n AND t.name = u.name WHERE u.n > -2",
    "SELECT count(*) FROM t WHERE n IS NULL",
    "SELECT x.n FROM (SELECT * FROM t WHERE n >= 0) AS x ORDER BY x.n NULLS LAST LIMIT 3",
    "SELECT DISTINCT name FROM t",
    "SELECT 1 FROM t",
]
OF_IDS = [
    "SELECT _row_id, _version, n FROM t",
    "SELECT n FROM t WHERE _row_id = 2",
    "SELECT _row_id FROM t WHERE _row_id BETWEEN 1 AND 5 AND n > 0",
    "SELECT max(_row_id), count(_row_id) FROM t",
]
OF_KEYS = [
    "SELECT day, name, site, n, _version FROM t",
    "SELECT site, count(*) FROM t GROUP BY site",
    "SELECT n FROM t WHERE day = '2024-01-02' AND name = 'b'",
    "SELECT n, _version FROM t WHERE site = 'b' AND n > 0",
    "SELECT max(day) FROM t WHERE site <> 'b'",
]


@dataclass(frozen=True, slots=True)
class Engines:
    """Every way to a row, each over one source that is replaced."""

    root: Path
    local: Engine
    worker: Engine
    remote: Engine

    def all(self) -> Sequence[Engine]:
        return self.local, self.worker, self.remote

    def show(self, local: Table, far: Table) -> None:
        for engine, table in ((self.local, local), (self.worker, local), (self.remote, far)):
            source = engine.source
            assert isinstance(source, Moving)
            source.tables["t"] = table
            source.shown.clear()


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    root = tmp_path_factory.mktemp("changed")
    (root / "tables").mkdir()
    world = World.real()
    cache = ChunkCache(root / "cache", world)
    with (
        Engine(Moving(root / "tables"), world=world) as local,
        Engine(Moving(root / "tables"), world=world, capacity=CAPACITY, isolated=True) as worker,
        Engine(Moving(None), world=world, cache=cache) as remote,
    ):
        yield Engines(root / "tables", local, worker, remote)


numbering = count()


def bag(rows: pa.Table) -> Counter[str]:
    return Counter(map(repr, (list(row.values()) for row in rows.to_pylist())))


def asked(engine: Engine, sql: str, version: int | None = None) -> Counter[str]:
    with engine.run(sql, at=At(version=version)) as answer:
        return bag(answer.reader.read_all())


def expected(rows: Sequence[Mapping[str, Any]], schema: pa.Schema, sql: str) -> Counter[str]:
    connection = duckdb.connect()
    connection.from_arrow(pa.Table.from_pylist(list(rows), schema)).create("t")
    return bag(connection.sql(sql).to_arrow_table())


def check(
    engines: Engines,
    queries: Sequence[str],
    shown: Mapping[str, TableSnapshot],
    rows: Sequence[Mapping[str, Any]],
    schema: pa.Schema,
    *,
    version: int | None = None,
) -> None:
    """Every query of every engine, and scans; ``shown`` are the snapshots of both tables."""
    for sql in queries:
        truth = expected(rows, schema, sql)
        for engine in engines.all():
            assert asked(engine, sql, version) == truth, sql
    for where in (None, "n > 0", "n < 2 AND f IS NULL", "_version > 3"):
        sql = f"SELECT {', '.join(schema.names)} FROM t WHERE {where or 'true'}"
        truth = expected(rows, schema, sql)
        for snapshot in shown.values():
            found = snapshot.scan(columns=schema.names, where=where)
            assert bag(found.to_table()) == truth
            assert snapshot.count() == len(rows)
    limited = asked(engines.local, "SELECT n, _version FROM t LIMIT 2", version)
    everything = expected(rows, schema, "SELECT n, _version FROM t")
    assert limited <= everything
    assert limited.total() == min(2, len(rows))


def check_all(
    engines: Engines,
    table: Table,
    queries: Sequence[str],
    rows_at: Callable[[int | None], list[Mapping[str, Any]]],
    schema: pa.Schema,
    merges: Sequence[tuple[BlockKind, int, int]],
) -> None:
    """The newest version, one version before, and the newest with some blocks merged."""
    far = copied(table)
    engines.show(table, far)
    newest = table.snapshot()
    shown = {"local": newest, "remote": far.snapshot()}
    check(engines, queries, shown, rows_at(None), schema)
    assert newest.version is not None
    past = max(1, newest.version - 2)
    then = {"local": table.snapshot(version=past), "remote": far.snapshot(version=past)}
    check(engines, queries[:2], then, rows_at(past), schema, version=past)
    for kind, first, last in merges:
        for name, snapshot in shown.items():
            own = [
                block.meta.ulid
                for block in snapshot.snapshot.blocks
                if block.meta.kind is kind
                and block.meta.level == 1
                and block.meta.labels in ({}, {"site": "a"})
            ]
            shown[name] = merged(snapshot, own[first:last], kind)
    for engine, name in zip(engines.all(), ("local", "local", "remote"), strict=True):
        assert isinstance(engine.source, Moving)
        engine.source.shown["t"] = replace(shown[name], reads=None)
    check(engines, queries, shown, rows_at(None), schema)


NAMES = st.sampled_from(["a", "b", "Ä 'x'", ""])
DAYS = st.sampled_from([dt.date(2024, 1, 1), dt.date(2024, 1, 2)])
SMALL = st.one_of(st.none(), st.integers(-2, 3))
FLOATS = st.sampled_from([None, 0.5, -1.5])
CELLS = st.dictionaries(st.tuples(DAYS, NAMES), st.tuples(SMALL, FLOATS), min_size=1, max_size=5)
MERGES = st.lists(
    st.tuples(
        st.sampled_from([BlockKind.CHANGES, BlockKind.PLAIN]),
        st.integers(0, 3),
        st.integers(1, 5),
    ),
    max_size=2,
)


def some_of(queries: Sequence[str]) -> st.SearchStrategy[list[str]]:
    """Some queries; there is not the time for all of them with each sequence."""
    return st.lists(st.sampled_from(queries), min_size=4, max_size=4, unique=True)


KEYED_STEPS = st.one_of(
    st.tuples(st.just("upsert"), CELLS),
    st.tuples(st.just("upsert elsewhere"), CELLS),
    st.tuples(st.just("update"), st.integers(-1, 3)),
    st.tuples(st.just("delete rows"), st.sets(st.tuples(DAYS, NAMES), min_size=1, max_size=3)),
)


@settings(
    max_examples=few(12),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(KEYED_STEPS, min_size=1, max_size=9), MERGES, some_of([*QUERIES, *OF_KEYS]))
def test_a_table_with_a_key_and_two_streams(
    engines: Engines,
    steps: list[tuple[str, Any]],
    merges: list[tuple[BlockKind, int, int]],
    queries: list[str],
) -> None:
    definition = Definition.create(KEYED, key=["name", "day"], sort_by=["n"], labels={"site": "a"})
    table = created(engines.root / str(next(numbering)), definition)
    oracle = Oracle(lambda row: (row["site"], row["day"], row["name"]))
    for what, given_ in steps:
        current = oracle.current()
        if what == "delete rows":
            keys = [{"name": name, "day": day} for day, name in given_]
            kinds = pa.schema([KEYED.field("name"), KEYED.field("day")])
            done = table.delete_rows(pa.Table.from_pylist(keys, kinds))
            oracle.delete(done.version, [("a", day, name) for day, name in given_])
        elif what == "update":
            hit = [row for row in current.values() if row["site"] == "a" and row["n"] is not None]
            hit = [row for row in hit if row["n"] < given_]
            where = f"n < {given_} AND site = 'a'"
            done = table.update({"n": pc.field("n") + 1}, where=where)
            oracle.put(done.version, [{**row, "n": row["n"] + 1} for row in hit])
        else:
            site = "b" if what == "upsert elsewhere" else "a"
            rows = [
                {"day": day, "name": name, "n": n, "f": f} for (day, name), (n, f) in given_.items()
            ]
            done = table.upsert(pa.Table.from_pylist(rows, KEYED), labels={"site": site})
            oracle.put(done.version, [{**row, "site": site} for row in rows])
    more = [pa.field("site", pa.string()), pa.field("_version", pa.int64())]
    check_all(
        engines,
        table,
        queries,
        lambda version: rows_of(oracle, version),
        pa.schema([*KEYED, *more]),
        merges,
    )


def rows_of(
    oracle: Oracle, version: int | None, name: str | None = None
) -> list[Mapping[str, Any]]:
    """The rows at a version; with ``name`` also their identities."""
    found = []
    for one, versions in oracle.versions.items():
        known = [at for at in versions if version is None or at <= version]
        row = versions[max(known)] if known else None
        if row is not None:
            more: dict[str, Hashable] = {} if name is None else {name: one}
            found.append({**row, "_version": max(known), **more})
    return found


IDS = st.integers(0, 9)
BY_ID_STEPS = st.one_of(
    st.tuples(st.just("append"), st.lists(st.tuples(SMALL, FLOATS), min_size=1, max_size=4)),
    st.tuples(st.just("put"), st.dictionaries(IDS, SMALL, max_size=3)),
    st.tuples(st.just("update"), st.integers(-1, 3)),
    st.tuples(st.just("delete rows"), st.sets(IDS, min_size=1, max_size=3)),
    st.tuples(st.just("cells"), st.dictionaries(IDS, SMALL, min_size=1, max_size=3)),
)


@settings(
    max_examples=few(12),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(BY_ID_STEPS, min_size=1, max_size=9), MERGES, some_of([*QUERIES, *OF_IDS]))
def test_a_table_with_row_ids(
    engines: Engines,
    steps: list[tuple[str, Any]],
    merges: list[tuple[BlockKind, int, int]],
    queries: list[str],
) -> None:
    definition = Definition.create(BY_ID, row_ids=True, sort_by=["name"])
    table = created(engines.root / str(next(numbering)), definition)
    oracle = Oracle(lambda row: row["_row_id"])
    for what, given_ in steps:
        following = table.log.state.next_row_id
        current = oracle.current()
        if what == "append":
            rows = [{"name": f"{place:02}", "n": n, "f": f} for place, (n, f) in enumerate(given_)]
            version = table.append(pa.Table.from_pylist(rows, BY_ID)).version
            for place, row in enumerate(rows):
                oracle.put_at(version, following + place, row)
        elif what == "put":
            # The new row comes last by its name, so that its id is known.
            there = {one: n for one, n in given_.items() if one in current}
            rows = [{"_row_id": one, "name": "p", "n": n, "f": 1.0} for one, n in there.items()]
            rows.append({"_row_id": None, "name": "q", "n": 5, "f": None})
            data = pa.Table.from_pylist(rows, pa.schema([("_row_id", pa.int64()), *BY_ID]))
            version = table.put_rows(data).version
            same = [one for one, row in current.items() if {**row, "_row_id": one} in rows]
            rows = [row for row in rows if row["_row_id"] not in same]
            new = following + len(rows) - 1
            for row in rows:
                one = row.pop("_row_id")
                oracle.put_at(version, new if one is None else one, row)
        elif what == "update":
            hit = {
                one: row
                for one, row in current.items()
                if row["n"] is not None and row["n"] < given_
            }
            version = table.update({"n": pc.field("n") + 1}, where=f"n < {given_}").version
            for one, row in hit.items():
                oracle.put_at(version, one, {**row, "n": row["n"] + 1})
        elif what == "delete rows":
            gone = [one for one in given_ if one < following]
            if gone:
                version = table.delete_rows(gone).version
                oracle.delete(version, [one for one in gone if one in current])
        else:
            cells = {one: n for one, n in given_.items() if one in current}
            if cells:
                done = table.set_cells([{"_row_id": one, "n": n} for one, n in cells.items()])
                for one, n in cells.items():
                    if n == current[one]["n"]:
                        continue
                    oracle.put_at(done.version, one, {**current[one], "n": n})
    more = [pa.field("_version", pa.int64()), pa.field("_row_id", pa.int64())]
    check_all(
        engines,
        table,
        queries,
        lambda version: rows_of(oracle, version, "_row_id"),
        pa.schema([*BY_ID, *more]),
        merges,
    )
