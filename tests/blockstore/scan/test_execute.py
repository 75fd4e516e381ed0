"""The rows of a scan: against plain Python, and against DuckDB reading the plan's neutral
description."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blockstore.bucket.local import LocalBucket
from blockstore.errors import Corrupt, Invalid, ObjectMissing
from blockstore.format.evolution import evolve
from blockstore.scan import ScanPlan, count_rows, plan_scan, read_plan
from tests.blockstore.scan.duck import read_with_duckdb
from tests.blockstore.scan.tables import NOON, ODD, Lake, row
from tests.support.examples import few
from tests.support.rows import multiset


def rows_of(lake: Lake, **options: Any) -> list[dict[str, Any]]:
    plan = plan_scan(lake.snapshot(), **options)
    table = read_plan(lake.bucket, plan, lake.world).read_all()
    assert table.schema == plan.output_schema
    assert count_rows(lake.bucket, plan, lake.world) == table.num_rows
    return table.to_pylist()


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as opened:
        yield opened


@pytest.fixture
def lake() -> Lake:
    return Lake()


def test_older_chunks_read_as_null_and_widened(lake: Lake) -> None:
    lake.append([row(0, 1)])
    lake.definition = evolve(
        lake.definition, add=[pa.field("late", pa.int8())], widen={"n": pa.int64()}
    )
    lake.append([{**row(0, 5_000_000_000), "late": 1}])
    assert rows_of(lake, columns=["late", "n"]) == [
        {"late": None, "n": 1},
        {"late": 1, "n": 5_000_000_000},
    ]
    assert rows_of(lake, columns=["n"], where="late IS NULL") == [{"n": 1}]
    assert rows_of(lake, columns=["late"]) == [{"late": None}, {"late": 1}]


def test_labels_read_as_constants_and_null_where_the_stream_lacks_them(lake: Lake) -> None:
    lake.append([row(0, 1)], labels={"cluster": "eu1"})
    lake.append([row(0, 2)])
    assert rows_of(lake, columns=["n", "cluster"]) == [
        {"n": 1, "cluster": "eu1"},
        {"n": 2, "cluster": None},
    ]
    assert rows_of(lake, columns=["cluster"], where="cluster IS NULL") == [{"cluster": None}]
    assert rows_of(lake, where="cluster = 'eu1'")[0]["cluster"] == "eu1"


def test_hidden_columns_are_read_when_asked_for(lake: Lake) -> None:
    ulid = lake.append([row(0, n) for n in range(4)], chunks=2)
    a, b = lake.world.ids.ulid(), lake.world.ids.ulid()
    lake.append([{**row(0, 8), "_source": a}, {**row(0, 9), "_source": b}], sources=[a, b])
    lake.list_only(lake.write([row(0, 10)]))
    found = rows_of(lake, columns=["n", "_source", "_row_id", "_version"], where="n < 8")
    assert [tuple(one.values()) for one in found] == [
        (0, ulid, 1000, 1),
        (1, ulid, 1001, 1),
        (2, ulid, 1002, 1),
        (3, ulid, 1003, 1),
    ]
    sources = [one["_source"] for one in rows_of(lake, columns=["_source"])]
    assert sources == [ulid] * 4 + [a, b, lake.listed[0].meta.ulid]
    assert "_source" not in rows_of(lake)[0]
    assert rows_of(lake, columns=["_row_id"], where="n IN (1, 3)") == [
        {"_row_id": 1001},
        {"_row_id": 1003},
    ]
    assert rows_of(lake, columns=["n"], where=f"_source = '{b}'") == [{"n": 9}]


@pytest.mark.parametrize("name", ["_row_id", "_version"])
def test_a_hidden_column_that_a_block_cannot_give_is_an_error_and_never_null(
    lake: Lake, name: str
) -> None:
    lake.append([row(0, n) for n in range(4)])
    source = lake.world.ids.ulid()
    merged = lake.append(
        [{**row(0, 8), "_source": source}], sources=[source, lake.world.ids.ulid()]
    )
    listed = lake.write([row(0, 10)])
    lake.list_only(listed)
    for asked in (
        {"columns": ["n", name]},
        {"where": f"{name} IS NULL"},
        {"where": f"{name} >= 0 OR n > 9"},
    ):
        with pytest.raises(
            Invalid, match=f"block {merged} does not have {name}, since it is a merge"
        ):
            rows_of(lake, **asked)
    with pytest.raises(
        Invalid, match=f"block {listed.ulid} does not have {name}, since only a listing"
    ):
        rows_of(lake, columns=[name], where="n > 9")


def test_only_blocks_that_a_scan_needs_must_give_hidden_columns(lake: Lake) -> None:
    lake.append([row(0, n) for n in range(4)])
    source = lake.world.ids.ulid()
    lake.append([{**row(0, 8), "_source": source}], sources=[source, lake.world.ids.ulid()])
    assert len(rows_of(lake, columns=["_row_id"], where="n < 8")) == 4
    assert rows_of(lake, columns=["_version"], where="n = 2 AND _row_id = 1002") == [
        {"_version": 1}
    ]
    # Of the merge the first condition is certain, so the other one is not looked at.
    assert [one["n"] for one in rows_of(lake, columns=["n"], where="n >= 8 OR _row_id = 1001")] == [
        1,
        8,
    ]


def test_rows_are_filtered_by_their_source(lake: Lake) -> None:
    a, b, c = (lake.world.ids.ulid() for _ in range(3))
    rows = [{**row(0, n), "_source": source} for n, source in enumerate((a, b, c))]
    lake.commit(lake.write(rows, sources=[a, b, c]), excepted=[b])
    lake.list_only(lake.write(rows, sources=[a, b, c]), frozenset({b}))
    assert [one["n"] for one in rows_of(lake, columns=["n"])] == [0, 2, 1]
    assert [one["_source"] for one in rows_of(lake, columns=["_source"])] == [a, c, b]
    assert [one["n"] for one in rows_of(lake, columns=["n"], where="n >= 1")] == [2, 1]


def test_columns_with_dots_and_quotes_are_plain_names(lake: Lake) -> None:
    lake.append([row(0, 1, odd=1.5), row(0, 2, odd=2.5)])
    quoted = '"' + ODD.replace('"', '""') + '"'
    assert rows_of(lake, columns=[ODD], where=f"{quoted} > 2") == [{ODD: 2.5}]
    assert rows_of(lake, columns=["n"], where=pc.field(ODD) > 2) == [{"n": 2}]


def test_a_scan_of_labels_alone_reads_no_file(lake: Lake) -> None:
    lake.append([row(0, 1), row(0, 2)], labels={"cluster": "eu1"})
    lake.bucket.delete([found.key for found in lake.bucket.list()])
    assert rows_of(lake, columns=["cluster"]) == [{"cluster": "eu1"}] * 2


def test_an_empty_scan_has_the_schema(lake: Lake) -> None:
    assert rows_of(lake) == []
    lake.append([row(0, 1)])
    assert rows_of(lake, where="n = 2") == []
    assert rows_of(lake, where="n = 1 AND s = 'nothing'") == []


def test_a_count_reads_only_what_metadata_cannot_answer(lake: Lake) -> None:
    kept = lake.write([row(0, 1), row(0, 2)])
    lake.commit(kept)
    lake.append([row(0, 5), row(0, 9)])
    lake.bucket.delete([found.key for found in lake.bucket.list(kept.ulid)])
    assert count_rows(lake.bucket, plan_scan(lake.snapshot()), lake.world) == 4
    assert count_rows(lake.bucket, plan_scan(lake.snapshot(), where="n < 6"), lake.world) == 3


def test_r11_a_missing_chunk_fails_the_scan_with_the_name_of_the_block(lake: Lake) -> None:
    meta = lake.write([row(0, 1)])
    lake.commit(meta)
    lake.append([row(0, 2)])
    lake.bucket.delete([f"{meta.ulid}/{meta.chunks[0].path}"])
    with pytest.raises(ObjectMissing, match=f"{meta.ulid}.*open the table again"):
        read_plan(lake.bucket, plan_scan(lake.snapshot()), lake.world).read_all()


def test_r11_a_damaged_chunk_fails_the_scan_with_the_name_of_the_block(lake: Lake) -> None:
    meta = lake.write([row(0, 1)])
    lake.commit(meta)
    lake.bucket.put(f"{meta.ulid}/{meta.chunks[0].path}", b"garbage")
    with pytest.raises(Corrupt, match=meta.ulid):
        read_plan(lake.bucket, plan_scan(lake.snapshot()), lake.world).read_all()


def test_a_merged_chunk_without_sources_is_corrupt(lake: Lake) -> None:
    a, b = lake.world.ids.ulid(), lake.world.ids.ulid()
    lake.append([{**row(0, 1), "_source": None}], sources=[a, b])
    lake.live[0] = type(lake.live[0])(
        meta=lake.live[0].meta, version=1, first_row_id=0, excepted=frozenset({a})
    )
    with pytest.raises(Corrupt, match="without a _source"):
        read_plan(lake.bucket, plan_scan(lake.snapshot()), lake.world).read_all()


CONDITIONS = [
    None,
    "n > 2",
    "n IS NULL OR s = 'a'",
    "NOT (n BETWEEN 1 AND 3) AND s <> 'b'",
    "cluster = 'eu1' AND n >= 0",
    "late > 0 OR cluster IS NULL",
    "late IS NULL AND time < '2013-01-01 14:00:00'",
    "time >= '2013-01-01 13:00:00'",
    "n IN (1, 5, NULL)",
    "s LIKE 'a%'",
]
ROWS = st.lists(
    st.builds(
        row,
        st.integers(0, 4),
        st.one_of(st.none(), st.integers(-1, 6)),
        st.sampled_from(["a", "ab", "b", None]),
        st.sampled_from([0.5, None, float("nan")]),
    ),
    min_size=1,
    max_size=4,
)
BLOCK = st.tuples(
    ROWS, st.sampled_from(["level 1", "merge", "excepted", "listed in part"]), st.booleans()
)


def build(
    lake: Lake, shapes: list[tuple[list[dict[str, Any]], str, bool]], alter_at: int
) -> list[dict[str, Any]]:
    """Write blocks of every kind; return the rows that a reader must see, with all columns."""
    expected = []
    for number, (rows, kind, labeled) in enumerate(shapes):
        if number == alter_at:
            lake.definition = evolve(
                lake.definition, add=[pa.field("late", pa.int16())], widen={"n": pa.int64()}
            )
        altered = number >= alter_at
        labels = {"cluster": "eu1"} if labeled else {}
        rows = [{**one, "late": n % 3} if altered else one for n, one in enumerate(rows)]
        seen = rows
        if kind == "level 1":
            lake.append(rows, labels=labels)
        else:
            sources = [lake.world.ids.ulid() for _ in range(2)]
            rows = [{**one, "_source": sources[n % 2]} for n, one in enumerate(rows)]
            meta = lake.write(rows, sources=sources, labels=labels)
            if kind == "merge":
                lake.commit(meta)
            elif kind == "excepted":
                lake.commit(meta, excepted=sources[:1])
                seen = rows[1::2]
            else:
                lake.list_only(meta, frozenset(sources[:1]))
                seen = rows[0::2]
        expected += [{"late": None, **one, "cluster": labels.get("cluster")} for one in seen]
    return expected


@settings(
    max_examples=few(15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    shapes=st.lists(BLOCK, min_size=1, max_size=5),
    alter_at=st.integers(0, 2),
    group_rows=st.sampled_from([1, 2, 1_000_000]),
)
def test_our_rows_are_duckdbs_rows_and_those_that_were_written(
    connection: duckdb.DuckDBPyConnection,
    tmp_path_factory: pytest.TempPathFactory,
    shapes: list[Any],
    alter_at: int,
    group_rows: int,
) -> None:
    folder = Path(tmp_path_factory.mktemp("lake"))
    lake = Lake()
    lake.bucket = LocalBucket(str(folder), lake.world.clock, durable=False)
    lake.group_rows = group_rows
    # A block of each stream and schema, so that every condition finds its columns.
    shapes = [([row(0, 0)], "level 1", True), *shapes]
    expected = build(lake, shapes, alter_at)
    if alter_at >= len(shapes):
        lake.definition = evolve(
            lake.definition, add=[pa.field("late", pa.int16())], widen={"n": pa.int64()}
        )
    whole = plan_scan(lake.snapshot())
    names = whole.output_schema.names
    assert multiset(read(lake, whole)) == Counter(
        repr([one[name] for name in sorted(names)]) for one in expected
    )
    for condition in CONDITIONS:
        plan = plan_scan(lake.snapshot(), where=condition)
        ours = multiset(read(lake, plan))
        assert ours == multiset(read_with_duckdb(connection, lake.bucket, plan, condition))
        unpruned = multiset(read_with_duckdb(connection, lake.bucket, whole, condition))
        assert ours == unpruned


def read(lake: Lake, plan: ScanPlan) -> pa.Table:
    return read_plan(lake.bucket, plan, lake.world).read_all()


def test_the_fixture_time_is_the_one_the_conditions_mean() -> None:
    assert NOON + datetime.timedelta(hours=1) == datetime.datetime(2013, 1, 1, 13)
