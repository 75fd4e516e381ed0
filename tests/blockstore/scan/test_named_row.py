"""A row that a condition names by its identity is the one that any other scan returns: after
changes, tombstones and merges, whatever labels rows have. It is read by its pages."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import blockstore as bs
from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.metered import Metered
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.format.definition import Definition
from blockstore.index import log as index_log
from blockstore.predicate import parse
from blockstore.scan import named_row
from blockstore.scan.view import TableSnapshot
from blockstore.table import Table
from blockstore.world import World
from tests.blockstore.rows.lake import again, by_id, by_key, rows_of
from tests.blockstore.rows.sites import X, Y, row
from tests.support.examples import few

IDS = range(4)
LABELS = st.sampled_from([None, X, Y])
SOME = st.sets(st.sampled_from(IDS), min_size=1, max_size=3).map(sorted)
CHANGES = st.one_of(
    st.tuples(st.just("put"), SOME, LABELS, st.integers(-2, 2)),
    st.tuples(st.just("delete"), SOME, LABELS, st.just(0)),
    st.tuples(st.just("update"), SOME, st.none(), st.integers(-2, 2)),
    st.tuples(st.just("merge"), st.none(), st.none(), st.integers(2, 4)),
)
ALSO = ["", " and n > 0", " and site = 'x'", " and site is null"]


def ordered(rows: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows.to_pylist(), key=repr)


def check(view: TableSnapshot, identity: str) -> None:
    """Compare each row, named by its identity, with a scan that names none."""
    labels = [one for one in ("site",) if one in view.snapshot.label_names]
    columns = ["name", "n", *labels, identity, "_version"]
    every = view.scan(columns=columns).to_table()
    for one in IDS:
        for also in ALSO if labels else ALSO[:2]:
            condition = f"{identity} = {one}{also}"
            scan = view.scan(columns=columns, where=condition)
            assert named_row.named_row(scan.plan) is not None
            expected = every.filter(parse(condition, every.schema).expression)
            assert ordered(scan.to_table()) == ordered(expected), condition


@settings(max_examples=few(30), deadline=None)
@given(st.lists(CHANGES, min_size=1, max_size=7), st.booleans())
def test_a_row_by_its_identity_is_the_one_of_a_scan(steps: list[Any], with_ids: bool) -> None:
    table = by_id() if with_ids else by_key()
    identity = "_row_id" if with_ids else "id"
    views = []
    with tempfile.TemporaryDirectory() as work:
        for what, ids, labels, n in steps:
            if what == "merge":
                compact_once(table, Settings(tier_blocks=n, work_dir=Path(work)))
            elif what == "update":
                changed = f"{identity} in ({', '.join(map(str, ids))})"
                table.update({"n": n, "name": "up"}, where=changed)
            elif what == "delete" and with_ids:
                highest = table.log.poll().next_row_id
                table.delete_rows([one for one in ids if one < highest] or [])
            elif what == "delete":
                table.delete_rows(ids, labels=labels)
            elif with_ids:
                rows = pa.table({"name": ["a"] * len(ids), "n": [n] * len(ids)})
                table.append(rows, labels=labels)
            else:
                table.upsert(rows_of(*(row(one, n) for one in ids)), labels=labels)
            views.append(again(table).snapshot())
        for view in views:
            check(view, identity)


@pytest.mark.parametrize(
    ("condition", "named"),
    [
        ("id = 5", True),
        ("id in (5)", True),
        ("id >= 5 and id <= 5 and n = 3", True),
        ("id = 5 or id = 6", False),
        ("id >= 5", False),
        ("n = 5", False),
        ("id = 5 and id = 6", False),
        (pc.field("id") == 5, False),
    ],
)
def test_what_names_a_row(condition: Any, named: bool) -> None:
    table = by_key()
    table.upsert(rows_of(*(row(one, one) for one in range(9))))
    found = named_row.named_row(table.snapshot().scan(where=condition).plan)
    assert (found is not None) == named


def test_a_key_of_several_columns_is_named_by_all_of_them(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("n", pa.int64())])
    table = bs.create(f"{tmp_path / 't'}?durable=false", schema=schema, key=["day", "id"])
    days = pa.array([one % 3 for one in range(300)], pa.int32()).cast(pa.date32())
    table.upsert(pa.table([range(300), days, [0] * 300], schema=schema))
    table.update({"n": 7}, where="id = 5 or id = 6")
    table.delete(where="id = 6")
    for one, expected in ((4, [0]), (5, [7]), (6, []), (300, [])):
        condition = f"id = {one} and day = date '1970-01-0{1 + one % 3}'"
        scan = table.snapshot().scan(columns=["n"], where=condition)
        assert named_row.named_row(scan.plan) is not None
        assert scan.to_table()["n"].to_pylist() == expected
        other = table.snapshot().scan(where=f"id = {one}")
        assert named_row.named_row(other.plan) is None


ROWS = 200_000


@pytest.fixture(scope="module", params=["key", "row ids", "merged row ids"])
def large(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Many rows in one block, some of which a few later blocks change."""
    world = World.manual()
    schema = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("text", pa.string())])
    with_ids = request.param != "key"
    definition = Definition.create(schema, row_ids=with_ids, key=() if with_ids else ("id",))
    bucket = Metered(MemoryBucket(world.clock))
    table = Table(bucket, world, index_log.create(bucket, world, definition))
    texts = [hashlib.sha256(b"%d" % one).hexdigest() for one in range(ROWS)]
    rows = pa.table([range(ROWS), [0] * ROWS, texts], schema=schema)
    parts = [rows] if request.param != "merged row ids" else [rows.slice(0, 9), rows.slice(9)]
    for part in parts:
        (table.append if with_ids else table.upsert)(part)
    if len(parts) > 1:
        work = tmp_path_factory.mktemp("work")
        compact_once(table, Settings(tier_blocks=2, work_dir=work))
        assert len(table.log.poll().blocks) == 1
    table.update({"n": 1}, where="id in (7, 8, 150000)")
    table.delete(where="id = 8")
    return again(table)


def test_few_bytes_are_read_for_a_row_and_none_twice(large: Table) -> None:
    bucket = large.bucket
    assert isinstance(bucket, Metered)
    assert large.definition.identity is not None
    (identity,) = large.definition.identity.columns
    view = large.snapshot()
    (chunk,) = (one for one in view.scan().plan.chunks if one.file.rows > ROWS / 2)
    for one, expected in ((7, [1]), (8, []), (9, [0]), (150_000, [1]), (ROWS, [])):
        before = sum(bucket.bytes.values())
        scan = view.scan(columns=["id", "n", "text"], where=f"{identity} = {one}")
        found = scan.to_table()
        assert found["n"].to_pylist() == expected
        assert found["id"].to_pylist() == [one][: len(expected)]
        assert sum(bucket.bytes.values()) - before < chunk.file.bytes / 2
        before = sum(bucket.counts.values())
        assert scan.to_table().equals(found)
        assert sum(bucket.counts.values()) == before, "its pages are kept"


def test_few_bytes_are_read_for_the_history_of_a_row(large: Table) -> None:
    """Whether a row is named by its id or by a key."""
    bucket = large.bucket
    assert isinstance(bucket, Metered)
    (chunk,) = (one for one in large.snapshot().scan().plan.chunks if one.file.rows > ROWS / 2)
    table = again(large)
    before = sum(bucket.bytes.values())
    assert [row["_deleted"] for row in table.row_history(8).to_pylist()] == [True, False, False]
    assert table.row_history(ROWS - 1)["n"].to_pylist() == [0]
    first = sum(bucket.bytes.values()) - before
    assert first < chunk.file.bytes / 2
    version = table.row_history(7)["_version"][0].as_py()
    before = bucket.counts["get_range"]
    assert table.fetch([(7, version)])["n"].to_pylist() == [1]
    assert bucket.counts["get_range"] == before, "its pages are kept"
