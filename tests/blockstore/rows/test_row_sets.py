"""Row sets: one version whatever their number, refused as a whole, and not kept in memory."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from decimal import Decimal

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.rows import reading, row_set
from blockstore.table import Table
from tests.blockstore.rows.lake import again, by_id, by_key, rows_of, seen
from tests.support.garbage import older_is_left

SET = pa.schema(
    [("_row_id", pa.int64()), ("_version", pa.int64()), ("name", pa.string()), ("n", pa.int64())]
)
KEYED = pa.schema(
    [("_version", pa.int64()), ("id", pa.int64()), ("name", pa.string()), ("n", pa.int64())]
)


def numbered(rows: int) -> Table:
    table = by_id()
    table.append(pa.table({"name": ["a"] * rows, "n": list(range(rows))}))
    return table


def row(number: int) -> dict[str, object]:
    return {"id": number, "name": "a", "n": number}


def batches(*rows: tuple[object, ...], schema: pa.Schema = SET) -> list[pa.RecordBatch]:
    """A batch for each row."""
    names = schema.names
    return [
        pa.RecordBatch.from_pylist([dict(zip(names, row, strict=True))], schema) for row in rows
    ]


def test_changed_and_new_rows_are_one_version() -> None:
    table = numbered(3)
    did = table.put_rows(lambda: batches((1, 2, "b", 10), (None, None, "new", 11)))
    assert (did.version, did.updated, did.inserted) == (3, 1, 1)
    assert [row["n"] for row in seen(table, "n")] == [0, 10, 11, 2]
    assert table.row_history(1)["_version"].to_pylist() == [3, 2]
    assert table.row_history(0)["_version"].to_pylist() == [2]


@pytest.mark.parametrize("at_once", [1, 2, 1_000])
def test_every_stale_row_is_named_with_its_place(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_set, "_AT_ONCE", at_once)
    monkeypatch.setattr(reading, "_GATHERED", at_once)
    table = numbered(4)
    table.set_cells([{"_row_id": 3, "n": 30}])
    table.delete_rows([1])
    before = (seen(table), table.poll())
    given = [
        (None, None, "new", 0),
        (0, 2, "a", 7),
        (1, 2, "a", 7),
        (3, 2, "a", 7),
        (9, 1, "a", 7),
    ]
    with pytest.raises(bs.RowConflict, match="3 of the rows") as caught:
        table.put_rows(lambda: batches(*given))
    assert caught.value.rows == ((1, 2, None), (3, 2, 3), (9, 1, None))
    assert caught.value.places == (2, 3, 4)
    assert (seen(table), table.poll()) == before


def test_a_row_that_is_as_it_was_has_no_new_version() -> None:
    table = numbered(3)
    did = table.put_rows(batches((0, 2, "a", 0), (1, 2, "a", 10), (2, 2, "a", 2)))
    assert (did.version, did.updated, did.inserted, did.unchanged) == (3, 1, 0, 2)
    assert [table.row_history(row)["_version"].to_pylist() for row in range(3)] == [
        [2],
        [3, 2],
        [2],
    ]
    did = table.put_rows(batches((0, 2, "a", 0), (1, 3, "a", 10)))
    assert (did.version, did.unchanged, table.poll()) == (None, 2, 3)


@pytest.mark.parametrize(
    ("kind", "was", "same", "other"),
    [
        (pa.float64(), -0.0, -0.0, 0.0),
        (pa.float32(), float("nan"), float("nan"), None),
        (pa.float64(), None, None, 1.0),
        (pa.string(), "", "", None),
        (pa.list_(pa.int64()), [1, None], [1, None], [1]),
        (pa.decimal128(5, 2), Decimal("1.50"), Decimal("1.50"), Decimal("1.51")),
        (pa.timestamp("ns", "UTC"), 5, 5, 6),
        (pa.binary(), b"", b"", None),
    ],
    ids=str,
)
def test_values_are_compared_exactly(
    kind: pa.DataType, was: object, same: object, other: object
) -> None:
    table = by_id(schema=pa.schema([("x", kind)]))
    table.append(pa.table({"x": pa.array([was], kind)}))

    def put(value: object, version: int) -> int | None:
        rows = {"_row_id": [0], "_version": [version], "x": pa.array([value], kind)}
        return table.put_rows(pa.table(rows)).version

    assert put(same, 2) is None
    assert put(other, 2) == 3


def test_at_most_a_thousand_refused_rows_are_listed() -> None:
    table = numbered(1)
    rows = [(place, 5, "a", 1) for place in range(1_500)]
    with pytest.raises(bs.RowConflict, match="1,500 of the rows") as caught:
        table.put_rows(batches(*rows))
    assert len(caught.value.rows) == len(caught.value.places) == 1_000


def test_a_row_that_is_named_without_a_version_must_be_there() -> None:
    table = numbered(1)
    with pytest.raises(bs.NotFound, match="1 of the rows are not in the table at version 2: 7"):
        table.put_rows(batches((7, None, "a", 1)))


def test_with_a_key_a_row_without_a_version_is_new_or_replaces_as_the_caller_says() -> None:
    table = by_key()
    table.upsert(rows_of({"id": 1, "name": "a", "n": 1}, {"id": 2, "name": "a", "n": 2}))
    given = batches((2, 1, "b", 10), (None, 2, "b", 20), (None, 3, "b", 30), schema=KEYED)
    with pytest.raises(bs.RowConflict, match="row 2 is new and exists at version 2") as caught:
        table.put_rows(given, on_conflict="fail")
    assert (caught.value.rows, caught.value.places) == (((2, None, 2),), (1,))
    did = table.put_rows(given)
    assert (did.updated, did.inserted) == (None, None), "it did not look"
    assert [row["n"] for row in seen(table, "n")] == [10, 20, 30]
    did = table.put_rows(batches((None, 4, "b", 40), schema=KEYED), on_conflict="fail")
    assert (did.updated, did.inserted) == (0, 1)
    with pytest.raises(bs.Invalid, match='expected "replace" or "fail"'):
        table.put_rows(given, on_conflict="ignore")


def test_rows_of_a_function_are_not_kept_and_are_read_again_for_a_new_plan() -> None:
    table = numbered(3)
    other = again(table)
    alive: list[int] = []
    calls = 0

    def rows() -> Iterator[pa.RecordBatch]:
        nonlocal calls
        calls += 1
        held: list[weakref.ref[pa.RecordBatch]] = []
        for place in range(20):
            (batch,) = batches((None, None, "x" * 1_000, place))
            held.append(weakref.ref(batch))
            yield batch
            del batch
            gc.collect()
            alive.append(sum(one() is not None for one in held))
        (changed,) = batches((0, None, "mine", 99))
        yield changed
        if calls == 1:
            other.set_cells([{"_row_id": 0, "name": "theirs"}])

    older_is_left()
    did = table.put_rows(rows)
    assert (calls, did.version, did.inserted, did.updated) == (2, 4, 20, 1)
    assert max(alive) <= 2
    assert table.row_history(0)["name"].to_pylist() == ["mine", "theirs", "a"]


def test_a_version_that_becomes_stale_before_the_commit_refuses_the_set() -> None:
    table = numbered(1)
    other = again(table)
    calls = 0

    def rows() -> Iterator[pa.RecordBatch]:
        nonlocal calls
        calls += 1
        yield from batches((0, 2, "mine", 99))
        if calls == 1:
            other.set_cells([{"_row_id": 0, "name": "theirs"}])

    with pytest.raises(bs.RowConflict, match="read at version 2 and has version 3"):
        table.put_rows(rows)
    assert seen(again(table), "name") == [{"name": "theirs"}]


def test_an_upsert_takes_a_function_too() -> None:
    table = by_key()
    did = table.upsert(lambda: rows_of({"id": 1, "name": "a", "n": 1}))
    assert did.version == 2
    assert seen(table, "id") == [{"id": 1}]


def test_cells_new_rows_and_deletions_are_one_version() -> None:
    table = numbered(3)
    did = table.set_cells(
        [{"_row_id": 0, "_version": 2, "n": 10}],
        new=pa.table({"name": ["new"], "n": [11]}),
        delete=[{"_row_id": 2, "_version": 2}],
    )
    assert (did.version, did.updated, did.inserted, did.deleted) == (3, 1, 1, 1)
    assert sorted(one["n"] for one in seen(table, "n")) == [1, 10, 11]
    keyed = by_key()
    keyed.upsert(rows_of(row(0), row(1)))
    fresh = rows_of(row(2))
    keyed.set_cells([{"id": 0, "n": 5}], new=fresh, delete=[{"id": 1}])
    assert [(one["id"], one["n"]) for one in seen(keyed, "id", "n")] == [(0, 5), (2, 2)]
    with pytest.raises(bs.RowConflict, match="exist already") as caught:
        keyed.set_cells([{"id": 0, "n": 6}], new=fresh)
    assert [one[0] for one in caught.value.rows] == [2]
    assert (keyed.poll(), len(seen(keyed))) == (3, 2)


@pytest.mark.parametrize(
    ("delete", "error", "text"),
    [
        ([{"_row_id": 1, "_version": 1}], bs.RowConflict, "row 1 was read at version 1"),
        ([{"_row_id": 77}], bs.NotFound, "not in the table"),
        ([{"_row_id": 1, "n": 1}], bs.Invalid, "a row to delete names the cell 'n'"),
        ([{"_row_id": 0}], bs.Invalid, "occurs 2 times"),
        ([{"_version": 2}], bs.Invalid, "has no '_row_id'"),
    ],
)
def test_a_deletion_that_is_refused_refuses_the_set(
    delete: list[dict[str, int]], error: type[Exception], text: str
) -> None:
    table = numbered(2)
    before = (seen(table), table.poll())
    with pytest.raises(error, match=text):
        table.set_cells([{"_row_id": 0, "n": 7}], delete=delete)
    assert (seen(table), table.poll()) == before
