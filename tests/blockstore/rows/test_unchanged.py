"""A row that an operation finds as it should become gets no version, and is compared anyway."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import blockstore as bs
from blockstore.format.properties import Isolation, Properties
from blockstore.index.touches import packed
from blockstore.rows.results import RowsChanged
from blockstore.table import Table
from tests.blockstore.rows.lake import again, at_commit, by_id, by_key, rows_of, seen


def people(**more: Any) -> Table:
    """ann, bob and cat, with row ids and n from 0."""
    table = by_id(**more)
    table.append(pa.table({"name": ["ann", "bob", "cat"], "n": [0, 1, None]}))
    return table


def _put(row: int, name: str, n: int | None, version: int | None = None) -> pa.Table:
    columns: dict[str, Any] = {"_row_id": [row], "name": [name], "n": pa.array([n], pa.int64())}
    return pa.table({**columns, "_version": pa.array([version], pa.int64())})


SAME: dict[str, Callable[[Any], RowsChanged]] = {
    "cells": lambda table: table.set_cells([{"_row_id": 1, "n": 1}]),
    "a null": lambda table: table.set_cells([{"_row_id": 2, "n": None}]),
    "no cell": lambda table: table.set_cells([{"_row_id": 1}]),
    "cells at a version": lambda table: table.set_cells([{"_row_id": 1, "_version": 2, "n": 1}]),
    "a row": lambda table: table.put_rows(_put(1, "bob", 1)),
    "a row at a version": lambda table: table.put_rows(_put(1, "bob", 1, 2)),
    "a condition": lambda table: table.update({"n": 1}, where="name = 'bob'"),
}


@pytest.mark.parametrize("how", SAME)
def test_a_row_that_is_as_it_was_gets_no_version(how: str) -> None:
    table = people()
    did = SAME[how](table)
    assert (did.version, did.updated, did.unchanged) == (None, 0, 1)
    assert table.poll() == 2


@pytest.mark.parametrize("how", ["cells", "rows", "a condition"])
def test_only_rows_that_change_get_a_version(how: str) -> None:
    table = people()
    match how:
        case "cells":
            did = table.set_cells([{"_row_id": 0, "n": 1}, {"_row_id": 1, "n": 1}])
        case "rows":
            did = table.put_rows(pa.concat_tables([_put(0, "ann", 1), _put(1, "bob", 1)]))
        case _:
            did = table.update({"n": 1}, where="n >= 0")
    assert (did.version, did.updated, did.unchanged) == (3, 1, 1)
    assert seen(table, "_row_id", "_version", "n") == [
        {"_row_id": 0, "_version": 3, "n": 1},
        {"_row_id": 1, "_version": 2, "n": 1},
        {"_row_id": 2, "_version": 2, "n": None},
    ]


def test_zero_has_a_sign_and_a_nan_is_one() -> None:
    table = by_id(schema=pa.schema([("f", pa.float64())]))
    table.append(pa.table({"f": [0.0, float("nan")]}))
    assert table.set_cells([{"_row_id": 1, "f": float("nan")}]).unchanged == 1
    assert table.set_cells([{"_row_id": 0, "f": -0.0}]).updated == 1


@pytest.mark.parametrize("how", ["cells", "rows"])
def test_a_stale_version_is_refused_although_nothing_would_change(how: str) -> None:
    table = people()
    table.set_cells([{"_row_id": 1, "n": 5}])
    with pytest.raises(bs.RowConflict) as refused:
        _two(table, how, 5)
    assert refused.value.rows == ((1, 2, 3),)
    assert table.poll() == 3


@pytest.mark.parametrize("how", ["cells", "rows"])
def test_a_version_that_becomes_stale_before_the_commit_is_refused(how: str) -> None:
    table = people()
    at_commit(table, lambda: again(table).set_cells([{"_row_id": 1, "n": 5}]))
    with pytest.raises(bs.RowConflict) as refused:
        _two(table, how, 1)
    assert refused.value.rows == ((1, 2, 3),)
    assert again(table).poll() == 3, "nothing of it was applied"


def test_an_update_also_changes_a_row_that_was_as_it_should_become() -> None:
    table = people()
    at_commit(table, lambda: again(table).set_cells([{"_row_id": 1, "n": 5}]))
    did = table.update({"n": 1}, where="n >= 0")
    assert (did.updated, did.unchanged) == (2, 0)
    assert [row["n"] for row in seen(table, "_row_id", "n")] == [1, 1, None]


def test_rows_that_are_left_never_conflict_with_other_rows() -> None:
    table = people()
    at_commit(table, lambda: again(table).set_cells([{"_row_id": 2, "n": 5}]))
    did = table.set_cells([{"_row_id": 1, "n": 1}, {"_row_id": 0, "n": 9}])
    assert (did.version, did.updated, did.unchanged) == (4, 1, 1)


@pytest.mark.parametrize(
    "do",
    [
        lambda table: table.set_cells([{"_row_id": 1, "n": 1}, {"_row_id": 1, "n": 2}]),
        lambda table: table.set_cells([{"_row_id": 1, "n": 1}], delete=[{"_row_id": 1}]),
        lambda table: table.put_rows(pa.concat_tables([_put(1, "bob", 1), _put(1, "bob", 2)])),
        lambda table: table.put_rows(pa.concat_tables([_put(1, "bob", 1, 2)] * 2)),
    ],
)
def test_a_row_twice_is_refused_although_one_changes_nothing(do: Callable[[Table], Any]) -> None:
    table = people()
    with pytest.raises(bs.Invalid, match="the row id 1 occurs 2 times"):
        do(table)
    assert table.poll() == 2


@pytest.mark.parametrize(
    ("do", "rows"),
    [
        (lambda table: table.upsert(rows_of(*_items(1, 2, 3, 2))), (1, 3)),
        (lambda table: table.insert(rows_of(*_items(5, 6, 5))), (0, 2)),
        (lambda table: table.put_rows(rows_of(*_items(5, 6, 6))), (1, 2)),
        (lambda table: table.set_cells([{"id": 1, "n": 5}, {"id": 1, "n": 6}]), (0, 1)),
        (lambda table: table.set_cells([], delete=[{"id": 1}, {"id": 1}]), (0, 1)),
        (lambda table: table.set_cells([], new=rows_of(*_items(7, 7))), (0, 1)),
        (lambda table: table.delete_rows([1, 2, 1]), (0, 2)),
    ],
)
def test_an_error_has_the_numbers_of_a_row_that_occurs_twice(
    do: Callable[[Table], Any], rows: tuple[int, int]
) -> None:
    table = by_key()
    table.upsert(rows_of(*_items(1, 2)))
    text = f"occurs 2 times in these rows, first in rows {rows[0]} and {rows[1]} "
    with pytest.raises(bs.Invalid, match=text) as refused:
        do(table)
    assert refused.value.row == rows[1]


def test_a_key_twice_with_one_label_is_found_among_rows_of_others() -> None:
    table = by_key()
    table.upsert(rows_of(*_items(1)), labels={"site": "x"})
    table.upsert(rows_of(*_items(1)), labels={"site": "y"})
    rows = rows_of(*_items(1, 1, 1)).append_column("site", pa.array(["x", "y", "y"]))
    with pytest.raises(bs.Invalid, match="first in rows 1 and 2 "):
        table.upsert(rows)


# An unchanged row was read: if others touch it, the operation is planned again.

CHANGES: dict[str, Callable[[Table], RowsChanged]] = {
    "cells": lambda table: table.set_cells([{"_row_id": 0, "n": 9}, {"_row_id": 1, "n": 1}]),
    "rows": lambda table: table.put_rows(pa.concat_tables([_put(0, "ann", 9), _put(1, "bob", 1)])),
    "a condition": lambda table: table.update(
        {"n": pc.if_else(pc.equal(pc.field("name"), "ann"), 9, 1)}, where="n >= 0"
    ),
}


@pytest.mark.parametrize("isolation", list(Isolation))
@pytest.mark.parametrize("how", CHANGES)
def test_a_row_that_others_change_before_the_commit_is_changed_after_all(
    how: str, isolation: Isolation
) -> None:
    table = people(properties=Properties(isolation=isolation))
    at_commit(table, lambda: again(table).set_cells([{"_row_id": 1, "n": 5}]))
    did = CHANGES[how](table)
    assert (did.version, did.updated, did.unchanged) == (4, 2, 0)
    assert [row["n"] for row in seen(table, "_row_id", "n")] == [9, 1, None]


@pytest.mark.parametrize("how", CHANGES)
def test_an_entry_touches_only_rows_that_get_a_version(how: str) -> None:
    table = people()
    at_commit(table, lambda: CHANGES[how](again(table)))
    did = table.set_cells([{"_row_id": 1, "n": 5}])
    assert (did.version, table.poll()) == (4, 4)
    state = table.log.state
    assert state.touches is not None
    assert state.touches.entries[-2:] == ((3, _packed(0)), (4, _packed(1)))


def test_an_entry_says_what_it_touched_however_many_rows_it_leaves() -> None:
    table = by_id()
    table.append(pa.table({"name": ["x"] * 5_000, "n": range(5_000)}))
    cells = [{"_row_id": one, "n": one} for one in range(1, 5_000)]
    did = table.set_cells([{"_row_id": 0, "n": -1}, *cells])
    assert (did.updated, did.unchanged) == (1, 4_999)
    state = table.log.state
    assert state.touches is not None
    assert state.touches.entries[-1] == (3, _packed(0))


def test_an_unchanged_row_is_not_in_the_change_feed() -> None:
    table = people()
    for change in CHANGES.values():
        change(table)
    change = pa.Table.from_batches(list(table.changes(after=2)))
    assert change.select(["_change", "_version", "_row_id"]).to_pylist() == [
        {"_change": "update", "_version": 3, "_row_id": 0}
    ]
    assert table.row_history(1)["_version"].to_pylist() == [2]


@pytest.mark.parametrize("how", SAME)
def test_a_job_that_had_nothing_to_do_does_nothing_when_it_is_sent_again(how: str) -> None:
    table = people()
    job = bs.Job("nightly", 7)
    first = SAME[how](OfJob(table, job))
    assert (first.version, first.unchanged, first.already) == (None, 1, False)
    table.set_cells([{"_row_id": 1, "n": 5}, {"_row_id": 2, "n": 5}])
    before = (seen(table), table.poll())
    assert SAME[how](OfJob(again(table), job)).already
    assert (seen(table), table.poll()) == before


def test_ids_to_delete_that_are_not_there_are_recorded_for_a_job_too() -> None:
    table = people()
    table.delete_rows([1])
    job = bs.Job("nightly", 7)
    assert table.delete_rows([1], job=job).version is None
    table.restore(version=2)
    assert table.delete_rows([1], job=job).already
    assert len(seen(table)) == 3


# Deletes by id.


def test_a_row_that_comes_back_before_the_commit_is_deleted_with_the_others() -> None:
    table = people()
    table.delete_rows([1])
    at_commit(table, lambda: again(table).restore(version=2))
    did = table.delete_rows([0, 1])
    assert (did.version, did.deleted) == (5, 2)
    assert [row["name"] for row in seen(table)] == ["cat"]


def test_rows_that_come_back_all_the_while_are_deleted_without_a_look() -> None:
    table = people()
    table.delete_rows([1])
    looks = []

    def meanwhile() -> None:
        looks.append(1)
        other = again(table)
        if any(row["name"] == "bob" for row in seen(other)):
            other.delete_rows([1])
        other.restore(version=2)
        other.delete_rows([1])
        at_commit(table, meanwhile)

    at_commit(table, meanwhile)
    did = table.delete_rows([0, 1])
    assert (did.deleted, len(looks)) == (None, 3)
    assert [row["name"] for row in seen(again(table))] == ["cat"]


def test_a_delete_does_not_conflict_with_changes_of_the_rows_that_it_deletes() -> None:
    table = people()
    table.delete_rows([2])
    at_commit(table, lambda: again(table).set_cells([{"_row_id": 1, "n": 5}]))
    did = table.delete_rows([1, 2])
    assert (did.version, did.deleted) == (5, 1)
    assert [row["name"] for row in seen(table)] == ["ann"]


def _two(table: Table, how: str, n: int) -> RowsChanged:
    """Give bob this number, as read at version 2, and ann 9."""
    if how == "cells":
        return table.set_cells([{"_row_id": 1, "_version": 2, "n": n}, {"_row_id": 0, "n": 9}])
    return table.put_rows(pa.concat_tables([_put(1, "bob", n, 2), _put(0, "ann", 9, 2)]))


def _items(*keys: int) -> list[dict[str, Any]]:
    return [{"id": key, "name": "x", "n": key} for key in keys]


class OfJob:
    """A table whose operations are of one job."""

    def __init__(self, table: Table, job: bs.Job) -> None:
        self._table, self._job = table, job

    def __getattr__(self, name: str) -> Callable[..., RowsChanged]:
        return partial(getattr(self._table, name), job=self._job)


def _packed(*ids: int) -> bytes | None:
    return packed(np.array(ids, np.uint64))


@pytest.mark.parametrize(
    ("kind", "there", "now"),
    [
        (pa.list_(pa.float64()), [0.0], [-0.0]),
        (pa.struct([("x", pa.float64())]), {"x": 0.0}, {"x": -0.0}),
        (pa.map_(pa.string(), pa.float64()), [("a", 0.0)], [("a", -0.0)]),
        (pa.list_(pa.float64()), [float("nan")], [float("inf")]),
    ],
    ids=["list", "struct", "map", "nan"],
)
def test_nested_values_are_compared_bit_by_bit(kind: pa.DataType, there: Any, now: Any) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", kind)])
    table = by_key(schema=schema)
    table.upsert(pa.table({"id": [1], "v": pa.array([there], kind)}, schema=schema))
    for value, expected in ((there, (0, 1)), (now, (1, 0)), (now, (0, 1))):
        version = table.snapshot().scan(columns=["_version"]).to_table()["_version"]
        rows = {"id": [1], "v": pa.array([value], kind), "_version": version}
        did = table.put_rows(pa.table(rows))
        assert (did.updated, did.unchanged) == expected
    assert repr(seen(table, "v")) == repr([{"v": now}])
