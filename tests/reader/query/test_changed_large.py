"""Rows that change in large chunks: windows, pages that are read directly, sparse columns, counts
without a file, names that DuckDB uses itself; and no new way out of the engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from blockstore.bucket.metered import Metered
from blockstore.errors import Corrupt
from blockstore.format import block_writer
from blockstore.format.definition import Definition
from blockstore.format.identity import Key, RowIds
from blockstore.reader.cache import ChunkCache
from blockstore.reader.errors import BadSql, UnknownTable
from blockstore.reader.query import Capacity, Engine
from blockstore.reader.query.sql import shown, views
from blockstore.reader.query.sql.shown import beside, joined_away
from blockstore.reader.query.task import Given
from blockstore.scan.chunk import ScanChunk
from blockstore.scan.view import TableSnapshot
from blockstore.table import Table
from blockstore.world import World
from tests.reader.query.changed import copied, created

pytestmark = pytest.mark.slow

CAPACITY = Capacity(queries=1, memory_bytes=512 << 20, threads=1, spill_bytes=64 << 20)
ROWS = 120_000
SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int32()), ("v", pa.float64()), ("s", pa.string())])


def rows(first: int, count: int = ROWS, seed: int = 0) -> pa.Table:
    random = np.random.default_rng(seed + first)
    return pa.table(
        {
            "id": np.arange(first, first + count),
            "k": random.integers(0, 50, count).astype("int32"),
            "v": np.round(random.random(count), 6),
            "s": [f"text {number}" for number in random.integers(0, 2**31, count)],
        },
        schema=SCHEMA,
    )


@dataclass(frozen=True, slots=True)
class Changed:
    """A table after some changes, twice, and its current rows."""

    folder: Path
    local: TableSnapshot
    bucket: Metered
    current: dict[int, dict[str, object]]

    def remote(self) -> TableSnapshot:
        return replace(Table.open_bucket(self.bucket, World.real()).snapshot(), reads=None)


@pytest.fixture(scope="module", params=["key", "row ids"])
def changed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Changed:
    folder = tmp_path_factory.mktemp("large") / "t"
    by_key = request.param == "key"
    definition = Definition.create(
        SCHEMA, sort_by=["id"], **({"key": ["id"]} if by_key else {"row_ids": True})
    )
    assert isinstance(definition.identity, Key if by_key else RowIds)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_writer, "rows_per_group", lambda *_: 30_000)
        table = created(folder, definition)
        current = {}
        for first in (0, ROWS):
            data = rows(first)
            (table.upsert if by_key else table.append)(data)
            current.update({row["id"]: row for row in data.to_pylist()})
        ids = np.random.default_rng(9).choice(2 * ROWS, 3_000, replace=False).tolist()
        new = [{**current[one], "k": 77, "v": -1.0} for one in sorted(ids)]
        if by_key:
            table.upsert(pa.Table.from_pylist(new, SCHEMA))
            table.delete_rows(list(range(60_000, 60_040)))
        else:
            ided = pa.schema([("_row_id", pa.int64()), *SCHEMA])
            given = [{**row, "_row_id": row["id"]} for row in new]
            table.put_rows(pa.Table.from_pylist(given, ided))
            table.delete_rows(list(range(60_000, 60_040)))
        current.update({row["id"]: row for row in new})
        for one in range(60_000, 60_040):
            current.pop(one)
    return Changed(
        folder, replace(table.snapshot(), reads=None), Metered(copied(table).bucket), current
    )


@pytest.fixture(scope="module")
def engines(changed: Changed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Engine]]:
    cache = ChunkCache(tmp_path_factory.mktemp("cache"), World.real())
    with (
        Engine({"t": changed.local}) as local,
        Engine({"t": changed.local}, capacity=CAPACITY, isolated=True) as worker,
        Engine({"t": changed.remote()}, cache=cache) as remote,
    ):
        yield [local, worker, remote]


def bag(table: pa.Table) -> Counter[str]:
    return Counter(map(repr, (tuple(row.values()) for row in table.to_pylist())))


def test_groups_have_the_current_rows_alone(changed: Changed, engines: list[Engine]) -> None:
    expected = Counter(row["k"] for row in changed.current.values())
    for engine in engines:
        found = engine.query("SELECT k, count(*) AS n FROM t GROUP BY k").read_all()
        assert dict(zip(*found.to_pydict().values(), strict=True)) == expected
        assert engine.query("SELECT count(*) FROM t").read_all()[0][0].as_py() == len(
            changed.current
        )


def test_rows_of_large_files_are_left_out_by_bits(
    changed: Changed, engines: list[Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown, "_LARGE_ROWS", ROWS)
    joined = []

    def spied(rows: shown.LeftOut, name: str, files: str, number: str) -> tuple[str, object]:
        joined.append(sum(map(len, rows)))
        return joined_away(rows, name, files, number)

    monkeypatch.setattr(views, "joined_away", spied)
    without = {one: row for one, row in changed.current.items() if one % 8 != 7 or row["k"] != 77}
    expected = Counter(row["k"] for row in without.values())
    for engine in engines:
        sql = "SELECT k, count(*) FROM t WHERE id % 8 <> 7 OR k <> 77 GROUP BY k"
        found = engine.query(sql).read_all()
        assert dict(zip(*found.to_pydict().values(), strict=True)) == expected
    assert max(joined, default=0) <= 40, "only rows of the small files of changes"
    bits = shown.bits_of(replace(changed.local.scan().plan.chunks[0], hidden=np.array([0, 9])))
    assert bits[:3] == bytes([0b10000000, 0b01000000, 0])
    assert len(bits) == ROWS // 8


@pytest.fixture
def zipped(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the columns of bits that queries read beside large files."""
    monkeypatch.setattr(shown, "_LARGE_ROWS", ROWS)
    names: list[str] = []

    def spied(chunk: ScanChunk, name: str, column: str) -> Given:
        names.append(name)
        return beside(chunk, name, column)

    monkeypatch.setattr(views, "beside", spied)
    return names


ALL_ROWS = [
    "SELECT * FROM t",
    "SELECT s, id FROM t",
    "SELECT k, count(*), sum(id), min(s) FROM t GROUP BY k",
    "SELECT k, count(*) FROM t GROUP BY k HAVING k = 77",
    "SELECT count(*), count(DISTINCT v) FROM t",
    "SELECT * FROM t ORDER BY id LIMIT 2000 OFFSET 59000",
    "SELECT * FROM t ORDER BY v, id DESC LIMIT 10",
    "SELECT DISTINCT k FROM t",
    "SELECT max(x) FROM (SELECT id + 1 AS x, k FROM t) GROUP BY k",
    "SELECT id, lag(id) OVER (ORDER BY id) FROM t",
]


@pytest.mark.parametrize("sql", ALL_ROWS)
def test_a_query_of_all_rows_reads_the_bits_beside_the_file(
    changed: Changed, engines: list[Engine], zipped: list[str], sql: str
) -> None:
    current = pa.Table.from_pylist([*changed.current.values()], SCHEMA)
    with duckdb.connect() as plain:
        plain.register("t", current)
        expected = bag(plain.sql(sql).to_arrow_table())
    for engine in engines[:2]:
        del zipped[:]
        assert bag(engine.query(sql).read_all()) == expected
        assert len(set(zipped)) == 2, "one of each large file"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, count(*) FROM t WHERE lower(s) <> 'x' GROUP BY k",
        "SELECT max(x) FROM (SELECT k AS x FROM t) WHERE x + 1 > 5",
        "SELECT count(*), max(t.v) FROM t JOIN (VALUES (3), (77)) AS o(k) USING (k)",
        "SELECT count(*), max(a.v) FROM t AS a, t AS b WHERE a.id = b.id",
        "SELECT v FROM t UNION ALL SELECT v FROM t",
        "WITH own AS (SELECT * FROM t) SELECT count(o.v) FROM own JOIN own AS o USING (id)",
        "SELECT _version, count(*) FROM t GROUP BY ALL",
    ],
)
def test_a_query_that_may_need_few_rows_does_not(
    engines: list[Engine], zipped: list[str], sql: str
) -> None:
    engines[0].query(sql).read_all()
    assert not zipped


def test_nor_does_one_of_files_that_several_threads_read(
    engines: list[Engine], zipped: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("_ONE_GROUP_ROWS", "_ONE_GROUP_BYTES"):
        with monkeypatch.context() as patch:
            patch.setattr(shown, limit, 1_000)
            engines[0].query("SELECT k, count(*) FROM t GROUP BY k").read_all()
    assert not zipped


CONDITIONS = [
    "id = 5",
    "id BETWEEN 59990 AND 60045",
    "id IN (1, 60001, 119999, 120000, 239999)",
    "id BETWEEN 119000 AND 121000 AND k = 77",
    "v = -1.0 AND id < 4000",
    "id > 239900",
]


@pytest.mark.parametrize("where", CONDITIONS)
def test_a_few_rows_of_large_chunks(
    changed: Changed, engines: list[Engine], where: str, tmp_path: Path
) -> None:
    expected = bag(changed.local.scan(where=where).to_table())
    truth = Counter(
        repr(tuple(row.values())) for row in changed.current.values() if _meets(where, row)
    )
    assert expected == truth
    cold = ChunkCache(tmp_path, World.real())
    with Engine({"t": changed.remote()}, cache=cold) as fresh:
        for engine in (*engines, fresh, fresh):
            assert bag(engine.query(f"SELECT * FROM t WHERE {where}").read_all()) == truth


def _meets(where: str, row: dict[str, object]) -> bool:
    one, k, v = row["id"], row["k"], row["v"]
    assert isinstance(one, int)
    return {
        CONDITIONS[0]: one == 5,
        CONDITIONS[1]: 59990 <= one <= 60045,
        CONDITIONS[2]: one in (1, 60001, 119999, 120000, 239999),
        CONDITIONS[3]: 119000 <= one <= 121000 and k == 77,
        CONDITIONS[4]: v == -1.0 and one < 4000,
        CONDITIONS[5]: one > 239900,
    }[where]


def test_hidden_columns_of_a_few_rows(changed: Changed, engines: list[Engine]) -> None:
    columns = ["id", "_version", "_source"]
    if isinstance(changed.local.definition.identity, RowIds):
        columns.append("_row_id")
    where = "id BETWEEN 100 AND 900"
    expected = bag(changed.local.scan(columns=columns, where=where).to_table())
    for engine in engines:
        found = engine.query(f"SELECT {', '.join(columns)} FROM t WHERE {where}").read_all()
        assert bag(found) == expected


def test_a_second_query_of_a_remote_table_fetches_nothing(changed: Changed, tmp_path: Path) -> None:
    with Engine({"t": changed.remote()}, cache=ChunkCache(tmp_path, World.real())) as engine:
        for sql in ("SELECT k, count(*) FROM t GROUP BY k", "SELECT count(*) FROM t"):
            first = engine.query(sql).read_all()
            changed.bucket.reset()
            assert bag(engine.query(sql).read_all()) == bag(first)
            assert not +changed.bucket.counts


def test_a_group_by_fetches_its_columns_and_the_identities(
    changed: Changed, tmp_path: Path
) -> None:
    complete = sum(block.meta.bytes for block in changed.local.snapshot.blocks)
    remote = changed.remote()
    changed.bucket.reset()
    with Engine({"t": remote}, cache=ChunkCache(tmp_path, World.real())) as engine:
        engine.query("SELECT k, count(*) FROM t GROUP BY k").read_all()
        assert engine.counts.incomplete == 0
    assert 0 < changed.bucket.bytes["get_range"] + changed.bucket.bytes["get"] < complete / 2


def test_a_bare_count_opens_no_file(changed: Changed, tmp_path: Path) -> None:
    plain = created(tmp_path / "plain", Definition.create(SCHEMA))
    plain.append(rows(0, 10))
    for snapshot, count in ((changed.local, len(changed.current)), (plain.snapshot(), 10)):
        with Engine({"t": snapshot}) as engine, engine.run("SELECT count(*) FROM t") as answer:
            assert answer.reader.read_all()[0][0].as_py() == count
            assert not answer.plans


def test_the_rows_that_are_left_out_have_no_name_in_sql(engines: list[Engine]) -> None:
    for engine in engines[:2]:
        engine.query("SELECT k FROM t").read_all()
        for name in ("left out/0/t", "temp.left out/0/t", "_blockstore_left_out"):
            with pytest.raises(UnknownTable):
                engine.query(f'SELECT t.k FROM t, "{name}"')


def test_no_with_can_have_their_name(engines: list[Engine]) -> None:
    sql = 'WITH "left out/0/t" AS (SELECT 1 AS one) SELECT k FROM t, "left out/0/t" LIMIT 1'
    with pytest.raises(BadSql, match="a WITH is named"):
        engines[0].query(sql)


def test_a_damaged_block_of_changes_is_named(changed: Changed, tmp_path: Path) -> None:
    table = created(tmp_path / "t", Definition.create(SCHEMA, key="id", sort_by=["id"]))
    table.upsert(rows(0, 100))
    table.upsert(rows(50, 100, seed=1))
    last = max(block.meta.ulid for block in table.snapshot().blocks)
    for path in (tmp_path / "t" / last / "chunks").iterdir():
        path.write_bytes(path.read_bytes()[:-7] + b"damaged")
    snapshot = replace(table.snapshot(), reads=None)
    with Engine({"t": snapshot}) as engine:
        with pytest.raises(Corrupt, match=last):
            engine.query("SELECT k FROM t WHERE k >= 0 AND id < 60").read_all()
        # It may hide none of these rows, so it is not read.
        assert engine.query("SELECT k FROM t WHERE id < 10").read_all().num_rows == 10


@pytest.mark.parametrize("names", [("file_row_number",), ("file_index",), ("File_Row_Number", "x")])
def test_columns_that_duckdb_names_so_itself(names: tuple[str, ...], tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), *((name, pa.int64()) for name in names)])
    table = created(tmp_path / "t", Definition.create(schema, key="id"))

    def put(first: int, count: int, value: int) -> None:
        columns = {name: [value] * count for name in names}
        table.upsert(pa.table({"id": range(first, first + count), **columns}, schema))

    put(0, 100, 1)
    put(100, 100, 1)
    put(50, 100, 2)
    put(60, 2, 3)
    far = copied(table).snapshot()
    cache = ChunkCache(tmp_path / "cache", World.real())
    with Engine({"t": table.snapshot()}) as local, Engine({"t": far}, cache=cache) as remote:
        for engine in (local, remote):
            sql = f'SELECT "{names[0]}", count(*), min(id), max(id) FROM t GROUP BY ALL ORDER BY 1'
            found = engine.query(sql).read_all().to_pylist()
            assert [tuple(row.values()) for row in found] == [
                (1, 100, 0, 199),
                (2, 98, 50, 149),
                (3, 2, 60, 61),
            ]


def test_few_rows_are_in_the_sql_and_many_in_a_table() -> None:
    few = [np.array([1, 5]), np.array([], dtype=np.int64), np.array([2])]
    join, given = joined_away(few, "name", "files", "number")
    assert given is None
    assert "(CAST(2 AS UBIGINT), CAST(2 AS BIGINT))" in join
    many = [np.arange(20), np.array([], dtype=np.int64), np.array([7])]
    join, given = joined_away(many, "name", "files", "number")
    assert '"name"' in join
    assert given is not None
    assert given.rows["row"].to_pylist() == [*range(20), 7]
    assert given.rows["file"].to_pylist() == [0] * 20 + [2]
    assert joined_away([np.arange(20)], "name", "files", "number")[1].rows.column_names == ["row"]  # type: ignore[union-attr]
