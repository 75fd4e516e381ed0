"""Upserts and inserts of many batches: what they hold, and how often they look at the table."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import blockstore as bs
from blockstore.rows import insert, reading
from blockstore.rows.parts import PartRows
from tests.blockstore.rows.lake import BY_KEY, by_key, rows_of, seen
from tests.support.garbage import older_is_left


def row(key: int | None, n: int | None) -> dict[str, Any]:
    return {"id": key, "name": "a", "n": n}


def batch(*rows: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), BY_KEY)


def test_the_last_row_of_a_key_counts_over_batches() -> None:
    table = by_key()
    table.upsert(iter([batch(row(1, 1), row(2, 2)), batch(row(1, 3))]), duplicates="last")
    assert seen(table, "id", "n") == [{"id": 1, "n": 3}, {"id": 2, "n": 2}]


def test_the_highest_value_counts_over_batches_and_the_last_of_equal_ones() -> None:
    table = by_key()
    given = [
        batch(row(1, 5), row(2, None), row(3, 1)),
        batch({**row(1, 5), "name": "last"}, row(2, -1), row(3, None)),
    ]
    table.upsert(lambda: iter(given), sequence_by="n")
    assert seen(table) == [{**row(1, 5), "name": "last"}, row(2, -1), row(3, 1)]
    with pytest.raises(bs.Invalid, match="sequence_by names 'x', which the table does not have"):
        table.upsert(given, sequence_by="x")
    with pytest.raises(bs.Invalid, match="sequence_by names 'n', which the rows do not have"):
        table.upsert(pa.table({"id": [1], "name": ["a"]}), sequence_by="n")
    with pytest.raises(bs.Invalid, match="column 'id' is null"):
        table.upsert([batch(row(None, 1), row(None, 2))], duplicates="last")
    assert table.upsert([], duplicates="last").version is None


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int64()), pa.struct([("x", pa.int64())])], ids=["list", "struct"]
)
def test_values_without_an_order_say_nothing_of_which_row_counts(kind: pa.DataType) -> None:
    schema = pa.schema([("id", pa.int64()), ("s", kind)])
    table = by_key(schema=schema)
    rows = pa.table([[1, 1], pa.nulls(2, kind)], schema=schema)
    with pytest.raises(bs.Invalid, match=r"sequence_by names 's' of type .*no order"):
        table.upsert(rows, sequence_by="s")
    with pytest.raises(bs.Invalid, match=r"sequence_by names 's' of type .*no order"):
        PartRows(table.definition, {}, sequence_by="s")


def test_keys_of_another_width_are_the_same_keys() -> None:
    table = by_key()
    narrow = pa.table({"id": pa.array([1, 1], pa.int8()), "name": ["a", "b"], "n": [1, 2]})
    table.upsert(narrow, duplicates="last")
    assert seen(table, "id", "name") == [{"id": 1, "name": "b"}]
    did = table.insert(narrow.slice(1), on_conflict="ignore")
    assert (did.inserted, did.unchanged) == (0, 1)


def test_the_rows_that_count_are_passed_on_and_not_kept() -> None:
    table = by_key()
    alive: list[int] = []

    def rows() -> Iterator[pa.RecordBatch]:
        held: list[weakref.ref[pa.RecordBatch]] = []
        for place in range(8):
            one = batch({"id": place % 5, "name": "x" * 1_000, "n": place})
            held.append(weakref.ref(one))
            yield one
            del one
            gc.collect()
            alive.append(sum(ref() is not None for ref in held))

    older_is_left()
    table.upsert(rows, duplicates="last")
    assert [one["n"] for one in seen(table, "n")] == [3, 4, 5, 6, 7]
    assert max(alive) <= 2


@pytest.mark.parametrize("by_source", [False, True])
@pytest.mark.parametrize("at_once", [1, 1_000])
def test_a_merge_prepares_its_keys_once_for_the_rows_of_many_blocks(
    by_source: bool, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = by_key()
    for n in range(12):
        table.upsert(batch(row(n, n)))
    prepared: list[int] = []
    found = pc.index_in

    def counted(values: pa.Array, **options: Any) -> pa.Array:
        prepared.append(len(values))
        return found(values, **options)

    monkeypatch.setattr(pc, "index_in", counted)
    monkeypatch.setattr(reading, "_GATHERED", at_once)
    source = pa.Table.from_batches([batch(*(row(n, -n) for n in range(6, 14)))])
    merge = table.merge(source, on="id").when_matched_update().when_not_matched_insert()
    if by_source:
        merge = merge.when_not_matched_by_source_delete()
    did = merge.execute()
    assert (did.updated, did.inserted, did.deleted) == (6, 2, 6 if by_source else 0)
    kept = [] if by_source else [{"id": n, "n": n} for n in range(6)]
    ordered = sorted(seen(table, "id", "n"), key=lambda one: int(one["id"]))
    assert ordered == [*kept, *({"id": n, "n": -n} for n in range(6, 14))]
    assert len(prepared) <= 3  # not once for each of the 12 blocks


def test_a_function_that_returns_other_rows_the_second_time_is_refused() -> None:
    table, calls = by_key(), [3, 2, 4, 4]

    def rows() -> pa.Table:
        return rows_of(*(row(key, 1) for key in range(calls.pop(0))))

    with pytest.raises(bs.Invalid, match="3 when they were read first, and 2"):
        table.upsert(rows, duplicates="last")
    assert table.upsert(rows, duplicates="last").version == 2


@pytest.mark.parametrize(("at_once", "looks"), [(4, 3), (500_000, 1)])
def test_an_insert_of_many_batches_looks_at_the_table_few_times(
    at_once: int, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = by_key()
    table.upsert(rows_of(row(3, 0)))
    monkeypatch.setattr(insert, "_AT_ONCE", at_once)
    found: list[int] = []

    def counted(*args: Any, **more: Any) -> reading.Found:
        found.append(1)
        return reading.rows_with(*args, **more)

    monkeypatch.setattr(insert, "rows_with", counted)
    did = table.insert([batch(row(key, key)) for key in range(12)], on_conflict="ignore")
    assert (did.inserted, did.unchanged, len(found)) == (11, 1, looks)
    assert sorted(one["n"] for one in seen(table, "n")) == [0, 0, 1, 2, *range(4, 12)]
    with pytest.raises(bs.RowConflict, match="of the keys exist already") as caught:
        table.insert([batch(row(key, 1)) for key in (99, 3, 4, 98)])
    assert sorted(caught.value.rows) == [(3, None, None), (4, None, None)]
