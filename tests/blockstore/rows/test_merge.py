"""What a merge reads, and what it counts."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.errors import Invalid
from blockstore.format.definition import Definition
from blockstore.index import log as index_log
from blockstore.table import Table
from tests.blockstore.rows.lake import by_key, seen
from tests.support.depth import DepthBucket, Time

TIME = Time()
ROWS = 20_000
NOTE = 200


def notes(seed: int, ids: range) -> pa.Table:
    draw = random.Random(seed)
    return pa.table(
        {"id": list(ids), "n": [0] * len(ids), "note": [draw.randbytes(NOTE).hex() for _ in ids]}
    )


@pytest.fixture
def bucket() -> DepthBucket:
    world = TIME.world()
    bucket = DepthBucket(MemoryBucket(world.clock), TIME)
    schema = notes(0, range(1)).schema
    index_log.create(bucket, world, Definition.create(schema, key=["id"]))
    Table.open_bucket(bucket, world).insert(notes(1, range(ROWS)))
    return bucket


def rows_of(table: Table) -> dict[int, tuple[int, str]]:
    found = table.snapshot().scan(columns=["id", "n", "note"]).to_table()
    return {one["id"]: (one["n"], one["note"]) for one in found.to_pylist()}


def test_a_merge_that_takes_all_columns_of_the_source_reads_the_keys_alone(
    bucket: DepthBucket,
) -> None:
    table = Table.open_bucket(bucket, TIME.world(seed=2))
    source = notes(2, range(0, ROWS * 2, 1_000))
    with bucket.watch() as seen:
        did = table.merge(source, on="id").when_matched_update().when_not_matched_insert().execute()
    assert (did.updated, did.inserted, did.unchanged) == (20, 20, 0)
    assert sum(one.bytes for one in seen.requests if one.what == "RANGE") < ROWS * NOTE // 10
    expected = rows_of(table)
    assert len(expected) == ROWS + 20
    assert all(expected[one["id"]] == (0, one["note"]) for one in source.to_pylist())


def test_a_merge_with_conditions_reads_what_they_look_at(bucket: DepthBucket) -> None:
    table = Table.open_bucket(bucket, TIME.world(seed=2))
    before = rows_of(table)
    source = notes(2, range(0, ROWS * 2, 1_000))
    merge = table.merge(source, on="id")
    merge.when_matched_delete(condition=pc.field("target.note") == before[1_000][1])
    merge.when_matched_update({"n": "source.id"}, condition=pc.field("source.id") < 4_000)
    did = merge.execute()
    assert (did.updated, did.deleted, did.inserted, did.unchanged) == (3, 1, 0, 16)
    changed = {one: (one, before[one][1]) for one in (0, 2_000, 3_000)}
    assert rows_of(table) == {one: row for one, row in (before | changed).items() if one != 1_000}


@pytest.mark.parametrize("kind", [pa.null(), pa.int64(), pa.string()])
def test_a_null_matches_nothing_whatever_its_type(kind: pa.DataType) -> None:
    world = TIME.world(seed=3)
    bucket = MemoryBucket(world.clock)
    column = pa.int64() if pa.types.is_null(kind) else kind
    schema = pa.schema([("a", column), ("n", pa.int64())])
    index_log.create(bucket, world, Definition.create(schema, row_ids=True))
    table = Table.open_bucket(bucket, world)
    table.append(pa.table({"a": pa.nulls(2, column), "n": [1, 2]}))
    source = pa.table({"a": pa.nulls(3, kind), "n": [7, 8, 9]})
    did = table.merge(source, on="a").when_matched_update().when_not_matched_insert().execute()
    assert (did.updated, did.inserted) == (0, 3)
    found = table.snapshot().scan(columns=["n"]).to_table()["n"].to_pylist()
    assert sorted(found) == [1, 2, 7, 8, 9]


@pytest.mark.parametrize("values", [[1], [None]])
def test_a_merge_on_what_the_table_does_not_have_is_refused(
    bucket: DepthBucket, values: list[int | None]
) -> None:
    table = Table.open_bucket(bucket, TIME.world(seed=2))
    source = pa.table({"nope": pa.array(values, pa.int64()), "id": [1], "n": [1], "note": ["x"]})
    for on in ("nope", ["id", "nope"]):
        with pytest.raises(Invalid, match="the merge is on 'nope', which the table does not have"):
            table.merge(source, on=on).when_not_matched_insert().execute()


def pairs_of(*given: tuple[int, str]) -> pa.Table:
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    return pa.Table.from_pylist([{"id": one, "name": name} for one, name in given], schema=schema)


def small() -> Table:
    table = by_key(schema=pa.schema([("id", pa.int64()), ("name", pa.string())]))
    table.insert(pairs_of((1, "a"), (2, "b"), (3, "c")))
    return table


SOURCE = pairs_of((1, "p"), (3, "z"), (1, "q"), (9, "n"))
NAME = pc.field("source.name")


def names_of(table: Table) -> dict[int, str]:
    return {row["id"]: row["name"] for row in seen(table, "id", "name")}


def test_doubled_source_rows_that_change_no_row_are_taken() -> None:
    table = small()
    did = table.merge(SOURCE, on="id").when_not_matched_insert().execute()
    assert (did.inserted, did.updated, did.unchanged) == (1, 0, 2)
    assert names_of(table) == {1: "a", 2: "b", 3: "c", 9: "n"}
    did = table.merge(SOURCE, on="id").when_not_matched_by_source_delete().execute()
    assert (did.deleted, did.unchanged) == (1, 3)
    merge = table.merge(SOURCE, on="id").when_matched_update(condition=NAME == "none")
    assert (merge.execute().unchanged, names_of(table)) == (3, {1: "a", 3: "c", 9: "n"})


@pytest.mark.parametrize("at_once", [1, 2, 500_000])
def test_one_of_doubled_source_rows_changes_the_row(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blockstore.rows.merge._PAIRS", at_once)
    table = small()
    merge = table.merge(SOURCE, on="id").when_matched_delete(condition=NAME == "z")
    did = merge.when_matched_update(condition=NAME == "q").execute()
    assert (did.updated, did.deleted, did.unchanged) == (1, 1, 0)
    assert names_of(table) == {1: "q", 2: "b"}


@pytest.mark.parametrize("at_once", [1, 2, 500_000])
@pytest.mark.parametrize("second", [None, NAME == "p", pc.field("target.name") == "a"])
def test_two_source_rows_that_change_one_row_are_refused_also_by_two_clauses(
    at_once: int, second: pc.Expression | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blockstore.rows.merge._PAIRS", at_once)
    table = small()
    before = table.poll()
    merge = table.merge(SOURCE, on="id").when_matched_update(condition=NAME == "q")
    with pytest.raises(Invalid, match="several source rows match the row with id = 1, and each"):
        merge.when_matched_delete(condition=second).execute()
    assert table.poll() == before


def test_a_merge_with_doubled_rows_does_what_each_pair_says() -> None:
    draw = random.Random(3)
    for _ in range(60):
        table = small()
        given = [(draw.randint(1, 5), draw.choice("pqr")) for _ in range(draw.randint(0, 6))]
        wanted = draw.sample("pqr", 1)
        expected, twice = names_of(table), False
        for one in tuple(expected):
            values = [name for of, name in given if of == one and name in wanted]
            twice = twice or len(values) > 1
            expected[one] = values[0] if values else expected[one]
        merge = table.merge(pairs_of(*given), on="id")
        merge.when_matched_update(condition=wanted[0] == NAME)
        if twice:
            with pytest.raises(Invalid, match="several source rows"):
                merge.execute()
        else:
            merge.execute()
            assert names_of(table) == expected
