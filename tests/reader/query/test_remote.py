"""SQL over remote tables: the rows of the local files, out of few bytes; what was not expected is
noticed, and never a wrong row."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blockstore.errors import Corrupt
from blockstore.format.segments import SEGMENT_BYTES
from blockstore.reader.cache import ChunkCache, columns
from blockstore.reader.query import Engine
from blockstore.reader.query import engine as engines
from blockstore.reader.query.remote import Reading
from blockstore.reader.query.sql.reading import Named
from blockstore.scan.fetch.pieces import Range
from blockstore.scan.fetch.remote import Remote, Way
from blockstore.scan.plan import plan_scan
from blockstore.world import World
from tests.reader.query.remotes import BLOCKS, GROUP_ROWS, ROWS, Twins, make
from tests.support.examples import few

QUERIES = [
    "SELECT * FROM t WHERE id = 5",
    "SELECT s, v FROM t WHERE id BETWEEN 120000 AND 120010",
    "SELECT * FROM t WHERE id IN (3, 40000, 219999)",
    "SELECT * FROM t WHERE id = -1",
    "SELECT count(*) FROM t WHERE id > 200000",
    "SELECT few, count(*), sum((v * 1e6)::BIGINT) FROM t WHERE NOT isnan(v) GROUP BY few",
    "SELECT few, count(*) FROM t GROUP BY ALL ORDER BY ALL",
    "SELECT min(v), max(v), count(v), min(few) FROM t WHERE w > 0.5",
    "SELECT count(*) FROM t WHERE v > 0.99",
    "SELECT v, id FROM t WHERE v >= 0.999999 OR id = 17",
    "SELECT sum(t.id), max(u.w) FROM t JOIN t AS u ON t.id = u.id AND u.k = 7",
    "SELECT count(*) FROM t JOIN t AS u USING (id) WHERE t.id < 1000",
    "SELECT count(*) FROM t NATURAL JOIN (SELECT id, k FROM t WHERE id < 10) AS u",
    "SELECT r.a, t.r.b, s.upper() FROM t WHERE id < 4",
    "SELECT t FROM t WHERE id = 40001",
    "SELECT u.s.length() FROM t AS u WHERE u.id = 9",
    "SELECT COLUMNS('^[kv]$') FROM t WHERE id < 3",
    "SELECT t.* EXCLUDE (l, r) FROM t WHERE k = 3 AND id < 5000",
    "SELECT x.id FROM (SELECT * FROM t) AS x WHERE x.k = 5 AND x.id < 9000",
    "SELECT a, c FROM t AS u(a, b, c) WHERE a < 3",
    "SELECT #2 FROM t WHERE id < 2",
    "SELECT unnest(l) AS one, count(*) FROM t WHERE k < 10 GROUP BY one",
    "WITH x AS (SELECT few, w FROM t) SELECT few, max(w) FROM x GROUP BY few",
    "SELECT id FROM t WHERE k = (SELECT max(k) FROM t AS u WHERE u.id < 500) AND id < 3000",
    "SELECT id, (SELECT count(*) FROM t AS u WHERE u.id < t.id AND u.id < 50) FROM t WHERE id < 4",
    "SELECT id FROM t QUALIFY row_number() OVER (PARTITION BY few ORDER BY w) = 1",
    "SELECT count(*) FROM t",
    "SELECT 1 FROM t WHERE true LIMIT 3",
    "SELECT count(*) FROM (SELECT DISTINCT few FROM t)",
    "DESCRIBE t",
    "SELECT column_name, min, max FROM (SUMMARIZE SELECT id, few FROM t)",
    'SELECT "id.k" FROM t WHERE id = 12',
    'SELECT sum("id.k") FROM t',
    "SELECT id, _row_id, _version FROM t WHERE id = 110001",
    "SELECT count(DISTINCT _source), max(_row_id) FROM t WHERE few = 'kind 3'",
    "SELECT sum(d), min(t), max(t) FROM t WHERE id > 50000",
    "SELECT few FROM t UNION SELECT s FROM t WHERE id < 2",
    "SELECT CASE WHEN id < 0 THEN s END FROM t WHERE id < 2",
    "SELECT id FROM t ORDER BY w DESC LIMIT 3",
    "SELECT TRY_CAST(s AS INT) FROM t WHERE id < 2",
    "SELECT l FROM t WHERE s LIKE 'text 1%' AND id < 100",
    "SELECT * FROM t WHERE t < '2024-01-01 00:00:03'",
    "SELECT * FROM t PIVOT (count(k) FOR few IN ('kind 1', 'kind 2') GROUP BY id) WHERE id < 9",
    "SELECT name, value FROM (SELECT id, k FROM t WHERE id < 5) UNPIVOT (value FOR name IN (k))",
]


GROUPS = -(-ROWS // GROUP_ROWS)


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Twins:
    return make(tmp_path_factory.mktemp("remote") / "t")


@pytest.fixture(scope="module")
def local(twins: Twins) -> Iterator[Engine]:
    with Engine({"t": twins.local}) as engine:
        yield engine


@pytest.fixture
def fresh(twins: Twins, tmp_path: Path) -> Iterator[Engine]:
    with over(twins, tmp_path) as engine:
        yield engine


def over(twins: Twins, folder: Path) -> Engine:
    return Engine({"t": twins.remote()}, cache=ChunkCache(folder, World.real()))


def bag(table: pa.Table) -> tuple[pa.Schema, Counter[str]]:
    return table.schema, Counter(map(repr, table.to_pylist()))


def rows(engine: Engine, sql: str) -> tuple[pa.Schema, Counter[str]]:
    return bag(engine.query(sql).read_all())


@pytest.mark.parametrize("sql", QUERIES)
def test_rows_are_those_of_local_files(
    twins: Twins, local: Engine, fresh: Engine, sql: str
) -> None:
    expected = rows(local, sql)
    assert rows(fresh, sql) == expected
    assert rows(fresh, sql) == expected
    assert fresh.counts.incomplete == 0


def test_queries_share_a_cache(local: Engine, fresh: Engine) -> None:
    for sql in [*QUERIES, *reversed(QUERIES)]:
        assert rows(fresh, sql) == rows(local, sql), sql
    assert fresh.counts.incomplete == 0


OUTPUTS = [
    "*",
    "count(*)",
    "few, count(*), max(w)",
    "min(v), max(v), count(k)",
    "id, l, r",
    "s, t, d",
    "_row_id, k",
    "min(id), count(DISTINCT _source)",
]
CONDITIONS = st.recursive(
    st.one_of(
        st.builds(
            "{} {} {}".format,
            st.sampled_from(["id", "t.id", "k"]),
            st.sampled_from(["=", "<", ">=", "<>"]),
            st.sampled_from([0, 5, 999, 29_999, 30_000, 109_999, 110_000, 200_001, 330_000]),
        ),
        st.builds(
            lambda low, more: f"id BETWEEN {low} AND {low + more}",
            st.integers(-10, 330_000),
            st.sampled_from([0, 1, 3_000, 40_000]),
        ),
        st.sampled_from(
            [
                "v > 0.9999",
                "v < 0.0001",
                "v = 'nan'",
                "k IS NULL",
                "few IN ('kind 1', 'kind 9')",
                "s LIKE 'text 12%'",
                "t < '2024-01-01 05:00:00'",
                "r.a % 1000 = 7",
                "d > 999990",
                "len(l) = 2 AND w < 0.001",
            ]
        ),
    ),
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("(NOT {})".format, inner),
    ),
    max_leaves=4,
)


@settings(
    max_examples=few(40),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(outputs=st.sampled_from(OUTPUTS), where=CONDITIONS, anew=st.booleans())
def test_random_queries_return_the_rows_of_local_files(
    twins: Twins, local: Engine, tmp_path: Path, outputs: str, where: str, anew: bool
) -> None:
    grouped = " GROUP BY few" if outputs.startswith("few") else ""
    inner = f"SELECT {outputs} FROM t WHERE {where}{grouped}"
    # All rows as two numbers: a result may have 330,000 rows.
    sql = f"SELECT count(*), bit_xor(hash(x)) FROM ({inner}) AS x"
    folder = Path(tempfile.mkdtemp(dir=tmp_path)) if anew else tmp_path
    with over(twins, folder) as engine:
        assert rows(engine, sql) == rows(local, sql)
        assert engine.counts.incomplete == 0


def test_a_gateways_process_reads_the_same(twins: Twins, local: Engine, tmp_path: Path) -> None:
    cache = ChunkCache(tmp_path, World.real())
    with Engine({"t": twins.remote()}, cache=cache, isolated=True) as engine:
        for sql in QUERIES[:12]:
            assert rows(engine, sql) == rows(local, sql), sql
        assert engine.counts.incomplete == 0


@pytest.fixture(scope="module")
def altered(tmp_path_factory: pytest.TempPathFactory) -> Twins:
    return make(tmp_path_factory.mktemp("altered") / "t", blocks=2, altered=True)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM t WHERE w > 0.9",
        "SELECT count(*) FROM t, (VALUES (1)) AS one",
        "SELECT 1 FROM t WHERE w < 0.0001",
        "SELECT count(*) FROM (SELECT few FROM t LIMIT 70000 OFFSET 100000)",
        "SELECT count(*) > 0 FROM t TABLESAMPLE 10%",
        "SELECT count(*), count(more) FROM t",
        "SELECT count(*) FROM t WHERE _version = 1",
        "SELECT max(k) + 3000000000 FROM t",
        "SELECT * FROM t WHERE id IN (7, 110007)",
        "SELECT *, _source IS NULL FROM t WHERE id BETWEEN 109999 AND 110001",
    ],
)
def test_chunks_of_two_schemas_are_read_by_the_named_columns_alone(
    altered: Twins, tmp_path: Path, sql: str
) -> None:
    """DuckDB reads the first column of a UNION where a query needs none."""
    with Engine({"t": altered.local}) as local, over(altered, tmp_path) as engine:
        assert rows(engine, sql) == rows(local, sql)
        assert engine.counts.incomplete == 0


def columns_bytes(twins: Twins, *names: str) -> int:
    import pyarrow.parquet as pq

    total = 0
    for key in (info.key for info in twins.bucket.list() if info.key.endswith(".parquet")):
        if "/chunks/" in key:
            metadata = pq.read_metadata(pa.BufferReader(twins.bucket.get(key).data))
            for group in map(metadata.row_group, range(metadata.num_row_groups)):
                total += sum(
                    group.column(place).total_compressed_size
                    for place in range(group.num_columns)
                    if group.column(place).path_in_schema in names
                )
    return total


def test_only_the_named_columns_are_fetched(twins: Twins, fresh: Engine) -> None:
    needed = columns_bytes(twins, "w", "few")
    before = twins.fetched()
    rows(fresh, "SELECT few, max(w) FROM t GROUP BY few")
    cold = twins.fetched() - before
    # Each chunk's tail, and the borders of the segments: the column chunks are small here.
    assert needed < cold < needed + BLOCKS * (2 * 2 * GROUPS + 2) * SEGMENT_BYTES
    rows(fresh, "SELECT max(w) FROM t WHERE few = 'kind 1'")
    assert twins.fetched() - before == cold, "nothing is fetched twice"


def test_a_point_reads_pages_and_the_same_page_is_read_once(twins: Twins, fresh: Engine) -> None:
    before = twins.fetched()
    rows(fresh, "SELECT id, w, v FROM t WHERE id = 130005")
    cold = twins.fetched() - before
    assert cold < 1 << 20
    rows(fresh, "SELECT id, w, v FROM t WHERE id = 130006")
    assert twins.fetched() - before == cold


def test_a_window_leaves_row_groups_out(twins: Twins, local: Engine, fresh: Engine) -> None:
    sql = "SELECT max(w), count(*) FROM t WHERE id BETWEEN 31000 AND 55000"
    before = twins.fetched()
    assert rows(fresh, sql) == rows(local, sql)
    assert twins.fetched() - before < columns_bytes(twins, "id", "w")
    assert fresh.counts.incomplete == 0


@pytest.mark.parametrize("what", ["view", "file"])
def test_a_column_that_was_not_expected_is_noticed(
    local: Engine, fresh: Engine, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both lines hold without the other: the view does not have the column, or its bytes are not in
    the file."""
    if what == "view":
        few = Named(frozenset({"w"}))
        monkeypatch.setattr(engines, "columns_read", lambda _: {"t": few})
    else:
        monkeypatch.setattr(Reading, "_stored", lambda *_: ["w"])
    for number, sql in enumerate(
        [
            "SELECT min(v), max(w) FROM t WHERE NOT isnan(v)",
            "SELECT few, count(*) FROM t GROUP BY few",
            "SELECT s FROM t WHERE w > 2",
            "SELECT max(d) FROM t",
            "SELECT l, r FROM t WHERE w < 0.001",
        ]
    ):
        assert rows(fresh, sql) == rows(local, sql)
        assert fresh.counts.incomplete <= number + 1
    assert fresh.counts.incomplete > 0


def test_a_row_group_that_was_not_expected_is_noticed(
    local: Engine, fresh: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = columns.column_chunks

    def first(metadata: pq.FileMetaData, *parts: Sequence[Any]) -> list[Range]:
        found = chosen(metadata, *parts)
        return found[:1] if parts else found

    monkeypatch.setattr(columns, "column_chunks", first)
    sql = "SELECT max(w), max(s) FROM t"
    assert rows(fresh, sql) == rows(local, sql)
    assert fresh.counts.incomplete == 1


def test_damage_in_the_bucket_names_the_block(twins: Twins, tmp_path: Path) -> None:
    snapshot = twins.remote()
    chunk = plan_scan(snapshot.snapshot).chunks[0]
    key = chunk.key
    data = twins.bucket.get(key).data
    damaged = bytearray(data)
    damaged[len(damaged) // 2 :: 70_000] = bytes(
        byte ^ 1 for byte in damaged[len(damaged) // 2 :: 70_000]
    )
    twins.bucket.put(key, bytes(damaged))
    try:
        with over(twins, tmp_path) as engine, pytest.raises(Corrupt, match=chunk.block):
            engine.query("SELECT sum(w), max(s), max(v), max(d) FROM t").read_all()
    finally:
        twins.bucket.put(key, data)


def test_a_table_without_segments_is_read_as_whole_chunks(
    twins: Twins, local: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Remote, "way", Way.PLAIN)
    sql = "SELECT few, max(w) FROM t GROUP BY few"
    with over(twins, tmp_path) as engine:
        before = twins.fetched()
        assert rows(engine, sql) == rows(local, sql)
        assert twins.fetched() - before > ROWS * BLOCKS * 8
