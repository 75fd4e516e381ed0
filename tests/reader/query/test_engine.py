"""SQL over snapshots: the answers are those over all rows, whatever was pruned, and nothing else
can be reached."""

from __future__ import annotations

import datetime as dt
import errno
import math
import os
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from blockstore.bucket.local import LocalBucket
from blockstore.bucket.memory import MemoryBucket
from blockstore.errors import (
    AccessDenied,
    Corrupt,
    Invalid,
    NoMemory,
    NotFound,
    ObjectMissing,
    Unavailable,
)
from blockstore.format.definition import Definition
from blockstore.reader.cache import ChunkCache
from blockstore.reader.errors import BadSql, UnknownTable
from blockstore.reader.query import Capacity, Engine
from blockstore.scan.view import TableSnapshot
from blockstore.world import World
from tests.blockstore.scan.tables import NOON, Lake
from tests.reader.query.lakes import everything, lake, snapshot_of
from tests.support.examples import few


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Names that DuckDB would take for patterns and partitions, were they not taken as they are.
    return tmp_path_factory.mktemp("lake") / "year=2013" / "a[b]*'c"


@pytest.fixture(scope="module")
def snapshot(folder: Path) -> TableSnapshot:
    return snapshot_of(lake(LocalBucket(str(folder / "t"), World.manual().clock, durable=False)))


@pytest.fixture(scope="module")
def engine(snapshot: TableSnapshot) -> Engine:
    return Engine({"t": snapshot, "u": snapshot}, world=snapshot.world)


@pytest.fixture(scope="module")
def plain(snapshot: TableSnapshot) -> duckdb.DuckDBPyConnection:
    """Plain DuckDB over all rows: what every answer is compared with."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.from_arrow(everything(snapshot)).create("t")
    connection.execute("CREATE VIEW u AS FROM t")
    return connection


def bag(table: pa.Table) -> Counter[str]:
    return Counter(repr([_plain(value) for value in row.values()]) for row in table.to_pylist())


def _plain(value: object) -> object:
    return "nan" if isinstance(value, float) and math.isnan(value) else value


numbers = st.integers(-110, 170)
floats = st.sampled_from(
    ["-20.0", "0.0", "0.1", "7.25", "1e3", "-0.0", "17", "0.30000000000000004"]
)
texts = st.sampled_from(["'s1'", "''", "'it''s'", "'s12'", "'zz'", "'S1'"])
times = st.integers(-20, 320).map(
    lambda tenth: (NOON + dt.timedelta(hours=tenth / 10)).isoformat(sep=" ")
)
moments = st.one_of(
    times.map(lambda text: f"'{text}'"),
    times.map(lambda text: f"TIMESTAMP '{text}'"),
    times.map(lambda text: f"TIMESTAMPTZ '{text}+00'"),
    times.map(lambda text: f"TIMESTAMPTZ '{text}+02:00'"),
    st.sampled_from(
        ["DATE '2013-01-01'", "DATE '2013-01-02'", "'2013-01-02'", "'2013-01-02T00:00:00Z'"]
    ),
)
COLUMNS = {
    "n": numbers.map(str) | st.sampled_from(["60.5", "1e2", "99999999999", "'7'"]),
    "f": floats,
    "s": texts,
    "time": moments,
    "extra": numbers.map(str),
    "cluster": st.sampled_from(["'eu1'", "'us'"]),
}


@st.composite
def comparisons(draw: st.DrawFn, qualified: str | None) -> str:
    column = draw(st.sampled_from(sorted(COLUMNS)))
    values = COLUMNS[column]
    names = (
        [column, f"t.{column}", f'"{column.upper()}"']
        if qualified is None
        else [f"{qualified}.{column}"]
    )
    name, prefix = draw(st.sampled_from(names)), "" if qualified is None else f"{qualified}."
    match draw(st.integers(0, 7)):
        case 0 | 1 | 2:
            operator = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "!=", "=="]))
            sides = (name, draw(values))
            left, right = sides if draw(st.booleans()) else sides[::-1]
            return f"{left} {operator} {right}"
        case 3:
            return (
                f"{name} {draw(st.sampled_from(['', 'NOT ']))}BETWEEN {draw(values)} AND "
                f"{draw(values)}"
            )
        case 4:
            listed = draw(st.lists(values, min_size=1, max_size=3))
            return f"{name} {draw(st.sampled_from(['', 'NOT ']))}IN ({', '.join(listed)})"
        case 5:
            return f"{name} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"
        case 6:
            pattern = draw(st.sampled_from(["s1%", "%", "s_", "it''s%", "S%", "s1"]))
            return f"{prefix}s {draw(st.sampled_from(['LIKE', 'NOT LIKE', 'ILIKE']))} '{pattern}'"
        case _:
            odd = [
                "{}n + 1 > 20",
                "sqrt(abs({}n)) < 5",
                "coalesce({}n, 0) = 0",
                "{0}n = {0}extra",
                "true",
                "NULL",
            ]
            return draw(st.sampled_from(odd)).format(prefix)


def conditions(qualified: str | None = None) -> st.SearchStrategy[str]:
    return st.recursive(
        comparisons(qualified),
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(lambda two: f"({two[0]} AND {two[1]})"),
            st.tuples(inner, inner).map(lambda two: f"({two[0]} OR {two[1]})"),
            inner.map(lambda one: f"(NOT {one})"),
        ),
        max_leaves=5,
    )


ALONE = [
    "SELECT * FROM t WHERE {a}",
    "SELECT count(*), sum(n), min(s) FROM t WHERE {a}",
    "SELECT n FROM t WHERE {a} AND n IN (SELECT n FROM t WHERE {b})",
    "SELECT n FROM t WHERE {a} AND EXISTS (SELECT 1 FROM t AS y WHERE y.n = t.n)",
    "SELECT n, s FROM t WHERE {a} UNION ALL SELECT extra, s FROM t WHERE {b}",
    "WITH t AS (SELECT * FROM t WHERE {a}) SELECT count(*), max(f) FROM t WHERE {b}",
    "SELECT s, count(*) FROM t WHERE {a} GROUP BY s HAVING count(*) > 1",
    "SELECT n FROM (SELECT * FROM t WHERE {a}) AS t WHERE {b}",
    "SELECT n + 7 AS extra FROM t WHERE {a}",
]
JOINED = [
    "SELECT t.n, u.n FROM t JOIN u ON t.n = u.n AND {a} WHERE {b}",
    "SELECT t.n, u.n FROM t, u WHERE t.n = u.n AND {a} AND {b}",
    "SELECT t.n, u.n FROM t LEFT JOIN u ON t.n = u.n AND {a} WHERE {b}",
    "SELECT t.n, u.n FROM t LEFT JOIN u ON t.n = u.n AND {b} WHERE {a}",
    "SELECT t.n, u.n FROM t RIGHT JOIN u ON t.n = u.n AND {a} WHERE {b}",
    "SELECT t.n, u.n FROM t RIGHT JOIN u ON t.n = u.n AND {b} WHERE {a}",
    "SELECT t.n, u.n FROM t FULL JOIN u ON t.n = u.n + 100 AND {b} WHERE {a}",
    "SELECT n, t.s, u.f FROM t LEFT JOIN u USING (n) WHERE {a} AND n > 20",
    "SELECT n, t.s, u.f FROM t RIGHT JOIN u USING (n) WHERE {b} AND n > 20",
    "SELECT n, t.s, u.f FROM t FULL JOIN u USING (n) WHERE n > 20",
    "SELECT count(*) FROM t NATURAL JOIN u WHERE {a} AND n < 50",
    "SELECT n FROM t SEMI JOIN u ON t.n = u.extra AND {a} AND {b}",
    "SELECT n FROM t ANTI JOIN u ON t.n = u.extra AND {a} AND {b}",
    "SELECT t.n, u.n FROM t ASOF JOIN u ON t.n >= u.n AND {b} WHERE {a}",
    "SELECT t.n, u.n FROM t ASOF LEFT JOIN u ON t.n >= u.n WHERE {b}",
    (
        "SELECT t.n, y.m FROM t, LATERAL (SELECT max(n) AS m FROM u WHERE u.s = t.s AND {b}) y "
        "WHERE "
        "{a}"
    ),
    "SELECT n FROM t WHERE {a} AND n NOT IN (SELECT n FROM u WHERE {b} AND n IS NOT NULL)",
    "SELECT n, (SELECT count(*) FROM u WHERE u.n < t.n AND {b}) FROM t WHERE {a}",
    (
        "SELECT t.n, u.n, z.n FROM t LEFT JOIN (u JOIN t AS z ON u.n = z.n AND {b}) ON t.n = u.n "
        "WHERE {a}"
    ),
]
questions = st.one_of(
    st.builds(str.format, st.sampled_from(ALONE), a=conditions(), b=conditions()),
    st.builds(str.format, st.sampled_from(JOINED), a=conditions("t"), b=conditions("u")),
)


@settings(max_examples=few(200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sql=questions)
def test_pruning_never_changes_an_answer(
    engine: Engine, plain: duckdb.DuckDBPyConnection, sql: str
) -> None:
    try:
        expected = plain.sql(sql).to_arrow_table()
    except (duckdb.Error, OSError):
        # Not every random comparison is SQL; and an error of a value that pruning leaves out may
        # stay away.
        return
    assert bag(engine.query(sql).read_all()) == bag(expected)


def test_what_cannot_match_is_not_read(engine: Engine) -> None:
    def chunks(where: str) -> int:
        answer = engine.run(f"SELECT count(*) FROM t WHERE {where}")
        answer.reader.read_all()
        return len(answer.plans["t"].chunks)

    every = chunks("true")
    assert every == 9
    assert chunks("n = -95") == 1
    assert chunks("time < '2013-01-01 13:00:00'") == 1
    assert chunks("cluster = 'eu1'") == 1
    assert chunks("extra IS NOT NULL") == 3
    assert chunks("n > 1e9") == 0


def test_every_column_has_its_type_also_without_rows(
    engine: Engine, snapshot: TableSnapshot
) -> None:
    full = engine.query("SELECT * FROM t").schema
    empty = engine.query("SELECT * FROM t WHERE n > 1e9")
    assert empty.schema == full
    assert empty.read_all().num_rows == 0
    assert full.names == [*snapshot.definition.schema.names, "cluster"]
    assert full.field("time").type == pa.timestamp("us", "UTC")
    assert full.field("n").type == pa.int64()


def test_hidden_columns_come_only_when_named(engine: Engine, snapshot: TableSnapshot) -> None:
    hidden = ["_source", "_row_id", "_version"]
    found = engine.query("SELECT _source, n FROM t").read_all()
    assert bag(found) == bag(everything(snapshot, ["_source", "n"]))
    written = engine.query("SELECT _source, _row_id, _version, n FROM t WHERE n <= -12").read_all()
    assert bag(written) == bag(everything(snapshot, [*hidden, "n"], "n <= -12"))
    assert written.num_rows > 80
    assert not set(hidden) & set(engine.query("SELECT * FROM t").schema.names)
    only = engine.query("SELECT _source FROM t GROUP BY _source").read_all()
    assert Counter(only["_source"].to_pylist()) == Counter(
        set(everything(snapshot, ["_source"])["_source"].to_pylist())
    )


def test_tables_are_joined(folder: Path, snapshot: TableSnapshot) -> None:
    made = Lake(
        LocalBucket(str(folder / "names"), World.manual().clock, durable=False),
        Definition.create(pa.schema([("s", pa.string()), ("long", pa.string())])),
    )
    made.append([{"s": f"s{number}", "long": f"name of {number}"} for number in range(13)])
    with Engine({"t": snapshot, "names": snapshot_of(made)}, world=snapshot.world) as engine:
        sql = (
            "SELECT long, count(*) AS c FROM t JOIN names USING (s) WHERE names.s IN ('s4', 's5') "
            "GROUP BY ALL ORDER BY ALL"
        )
        found = engine.query(sql).read_all().to_pylist()
    counts = Counter(everything(snapshot)["s"].to_pylist())
    assert found == [{"long": f"name of {number}", "c": counts[f"s{number}"]} for number in (4, 5)]


def test_buckets_without_files_answer_the_same_from_the_cache(
    tmp_path: Path, snapshot: TableSnapshot
) -> None:
    world = World.manual()
    made = lake(MemoryBucket(world.clock, "memory://x"))
    cache = ChunkCache(tmp_path, world)
    with Engine({"t": snapshot_of(made)}, world=world, cache=cache) as engine:
        assert bag(engine.query("SELECT * FROM t").read_all()) == bag(everything(snapshot))
        used = cache.bytes_used()
        assert used > 0
        assert engine.query("SELECT count(*) FROM t WHERE n = -95").read_all().to_pylist() == [
            {"count_star()": 1}
        ]
        assert cache.bytes_used() == used
    assert list(cache.held.glob("*/*")) == []


def test_batches_come_one_by_one_and_memory_does_not_grow(engine: Engine) -> None:
    reader = engine.query("SELECT x.range FROM range(100000000000) x")
    first = [reader.read_next_batch().num_rows for _ in range(20)]
    assert max(first) <= 65_536
    del reader


def test_a_query_can_be_canceled(engine: Engine) -> None:
    answer = engine.run("SELECT x.range FROM range(100000000000) x")
    answer.reader.read_next_batch()
    answer.cancel()
    with pytest.raises(Unavailable, match="canceled"):
        for _ in answer.reader:
            pass


def test_a_query_that_needs_too_much_memory_says_so(snapshot: TableSnapshot) -> None:
    capacity = Capacity(queries=1, memory_bytes=64 << 20, threads=1, spill_bytes=1 << 20)
    with (
        Engine({"t": snapshot}, world=snapshot.world, capacity=capacity) as engine,
        pytest.raises(NoMemory, match=r"limit of 1 MiB of temporary disk .*raise spill"),
    ):
        engine.query("SELECT x.range, hash(x.range) h FROM range(30000000) x ORDER BY h").read_all()


@pytest.mark.parametrize(
    ("sql", "error", "says"),
    [
        ("SELEC 1", Invalid, "line 1, column 1"),
        ("SELECT min(at) FROM t", Invalid, "line 1, column 14; .*in double quotes"),
        ("SELECT nope\nFROM t", Invalid, "nope.*line 1, column 8"),
        ("SELECT n,\n  nofunction(n) FROM t", Invalid, "nofunction.*line 2, column 3"),
        ("SELECT * FROM tt", NotFound, "no table tt: did you mean t?"),
        ("SELECT * FROM elsewhere", NotFound, "the tables are t, u"),
        ("SELECT CAST(s AS INTEGER) FROM t WHERE s = 'it''s'", Invalid, "it's"),
        ("SELECT error('no')", Invalid, "no"),
        ("SELECT * FROM t; SELECT 1", Invalid, "found 2"),
    ],
)
def test_wrong_sql_is_reported_in_a_sentence_with_its_place(
    engine: Engine, sql: str, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says.replace("?", r"\?")) as raised:
        engine.query(sql).read_all()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("340282366920938463463374607431768211455::uhugeint", "UHUGEINT"),
        ("[{'a': 1::bignum}]", "BIGNUM"),
        ("map {1: '1010'::bit}", "BIT"),
        ("'10:00:00+01'::timetz", "TIME WITH TIME ZONE"),
    ],
)
def test_a_type_of_which_arrow_has_other_values_is_refused(
    engine: Engine, value: str, kind: str
) -> None:
    with pytest.raises(BadSql, match=f"column 'x' has values of the type {kind}, which no result"):
        engine.query(f"SELECT {value} AS x").read_all()
    assert engine.query(f"SELECT ({value})::varchar AS x").read_all().num_rows == 1


def test_tables_of_one_name_in_sql_are_refused(snapshot: TableSnapshot) -> None:
    with pytest.raises(Invalid, match="the same name in SQL"):
        Engine({"t": snapshot, "T": snapshot})


class TestDamage:
    """R11: the block's name, never fewer rows."""

    @pytest.fixture
    def made(self, tmp_path: Path) -> Lake:
        return lake(LocalBucket(str(tmp_path / "t"), World.manual().clock, durable=False))

    def chunk(self, made: Lake, ulid: str) -> Path:
        path = made.bucket.path_of(f"{ulid}/chunks/t0-000001.parquet")
        assert path is not None
        return Path(path)

    def fails(self, made: Lake, error: type[Exception], says: str) -> None:
        snapshot = snapshot_of(made)
        with Engine({"t": snapshot}, world=snapshot.world) as engine:
            with pytest.raises(error, match=says) as raised:
                engine.query("SELECT sum(n), max(f), max(s), max(time) FROM t").read_all()
            assert made.live[0].ulid in str(raised.value)
            # What does not need the block is answered.
            assert engine.query("SELECT count(*) FROM t WHERE n = 40").read_all()[0][0].as_py() == 1

    def test_a_missing_chunk_fails_the_query(self, made: Lake) -> None:
        self.chunk(made, made.live[0].ulid).unlink()
        self.fails(made, ObjectMissing, "is missing; query the newest")

    def test_a_cut_chunk_fails_the_query(self, made: Lake) -> None:
        path = self.chunk(made, made.live[0].ulid)
        path.write_bytes(path.read_bytes()[:-10])
        self.fails(made, Corrupt, "bytes, expected")

    def test_a_link_in_a_chunk_s_place_is_not_followed(self, made: Lake, tmp_path: Path) -> None:
        """Who may write into the folder must not have a gateway read what only the gateway may."""
        path = self.chunk(made, made.live[0].ulid)
        path.rename(tmp_path / "elsewhere.parquet")
        path.symlink_to(tmp_path / "elsewhere.parquet")
        self.fails(made, Corrupt, "links are not followed")

    def test_a_chunk_that_may_not_be_read_is_not_called_damaged(
        self, made: Lake, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        closed, lstat = str(self.chunk(made, made.live[0].ulid)), os.lstat

        def guarded(path: str, **words: Any) -> os.stat_result:
            if path == closed:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
            return lstat(path, **words)

        monkeypatch.setattr("blockstore.reader.query.files.os.lstat", guarded)
        self.fails(
            made, AccessDenied, "access to chunks/t0-000001.parquet is denied; give this user"
        )

    def test_a_garbled_chunk_fails_the_query(self, made: Lake) -> None:
        path = self.chunk(made, made.live[0].ulid)
        data = bytearray(path.read_bytes())
        data[4:200] = bytes(196)
        path.write_bytes(bytes(data))
        self.fails(made, Corrupt, "another hash")

    def test_a_chunk_of_another_hash_is_never_cached(self, tmp_path: Path) -> None:
        world = World.manual()
        made = lake(MemoryBucket(world.clock, "memory://x"))
        ulid = made.live[0].ulid
        key = f"{ulid}/chunks/t0-000001.parquet"
        data = bytearray(made.bucket.get(key).data)
        data[10] ^= 1
        made.bucket.put(key, bytes(data))
        cache = ChunkCache(tmp_path, world)
        with Engine({"t": snapshot_of(made)}, world=world, cache=cache) as engine:
            with pytest.raises(Corrupt, match=ulid):
                engine.query("SELECT count(*) FROM t WHERE n < -60")
            made.bucket.delete([key])
            with pytest.raises(ObjectMissing, match=ulid):
                engine.query("SELECT count(*) FROM t WHERE n < -60")
        assert list(cache.held.glob("*/*")) == []

    def test_a_malformed_block_that_may_hold_rows_fails_a_strict_engine(self, made: Lake) -> None:
        snapshot = snapshot_of(made)
        snapshot = TableSnapshot(
            bucket=snapshot.bucket, world=snapshot.world, snapshot=_with_malformed(made)
        )
        with (
            Engine({"t": snapshot}, world=snapshot.world) as engine,
            pytest.raises(Corrupt, match=r"01J9.*meta\.json"),
        ):
            engine.query("SELECT 1 FROM t")
        with Engine({"t": snapshot}, world=snapshot.world, strict=False) as engine:
            assert engine.query("SELECT count(*) FROM t").read_all()[0][0].as_py() > 0


def _with_malformed(made: Lake):  # type: ignore[no-untyped-def]
    from dataclasses import replace

    return replace(
        made.snapshot(), malformed={"01J90000000000000000000000": "its meta.json does not parse"}
    )


def test_rows_that_come_with_a_query_are_tables_of_that_query_only(
    engine: Engine, snapshot: TableSnapshot
) -> None:
    rows = {"catalog:x": pa.table({"a": [1, 2]})}
    with engine.run('SELECT sum(a) AS s FROM "catalog:x" AS x', given=rows) as answer:
        assert answer.reader.read_all().to_pylist() == [{"s": 3}]
        assert answer.versions == {}
    with pytest.raises(UnknownTable):
        engine.run('SELECT * FROM "catalog:x"')
    with pytest.raises(BadSql, match="is named"):
        engine.run('WITH "catalog:x" AS (SELECT 1) SELECT * FROM "catalog:x"', given=rows)
