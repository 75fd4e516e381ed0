"""Changes through a handle that has not seen yet how another one renamed columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.rows import revert
from blockstore.table import Table
from tests.blockstore.rows.lake import again, by_id, by_key, rows_of, seen

Do = Callable[[Table], object]


def keyed() -> Table:
    table = by_key()
    table.upsert(rows_of({"id": 1, "name": "a", "n": 1}, {"id": 2, "name": "b", "n": 2}))
    again(table).alter(rename={"id": "key", "n": "m"})
    return table


def new(key: int, m: int) -> pa.Table:
    return pa.table({"key": [key], "name": ["c"], "m": [m]})


BY_THE_NEW_NAMES: dict[str, tuple[Do, dict[int, int]]] = {
    "update": (lambda one: one.update({"m": 7}, where="key = 1"), {1: 7, 2: 2}),
    "delete": (lambda one: one.delete("m = 1"), {2: 2}),
    "dry run": (lambda one: one.delete("m = 1", dry_run=True), {1: 1, 2: 2}),
    "delete rows": (lambda one: one.delete_rows([1]), {2: 2}),
    "delete read rows": (
        lambda one: one.delete_rows(pa.table({"key": [1], "_version": [2]})),
        {2: 2},
    ),
    "cells": (
        lambda one: one.set_cells([{"key": 1, "m": 7}], new=new(3, 3), delete=[{"key": 2}]),
        {1: 7, 3: 3},
    ),
    "put": (lambda one: one.put_rows(new(1, 7)), {1: 7, 2: 2}),
    "upsert": (lambda one: one.upsert(new(1, 7)), {1: 7, 2: 2}),
    "upsert last": (
        lambda one: one.upsert(pa.concat_tables([new(1, 6), new(1, 7)]), duplicates="last"),
        {1: 7, 2: 2},
    ),
    "insert": (lambda one: one.insert(new(3, 3)), {1: 1, 2: 2, 3: 3}),
    "merge": (
        lambda one: one.merge(new(1, 7), on="key").when_matched_update({"m": "source.m"}).execute(),
        {1: 7, 2: 2},
    ),
    "merge delete": (
        lambda one: one.merge(new(1, 7), on="key").when_matched_delete().execute(),
        {2: 2},
    ),
    "overwrite": (lambda one: one.overwrite(new(1, 7)), {1: 7}),
    "revert": (lambda one: one.revert(2), {}),
    "restore": (lambda one: one.restore(version=1), {}),
}


@pytest.mark.parametrize("what", BY_THE_NEW_NAMES)
def test_the_names_of_now_are_taken(what: str) -> None:
    table = keyed()
    do, expected = BY_THE_NEW_NAMES[what]
    do(table)
    assert {row["key"]: row["m"] for row in seen(again(table))} == expected


BY_THE_OLD_NAMES: dict[str, Do] = {
    "update": lambda one: one.update({"n": 7}),
    "delete": lambda one: one.delete("n = 1"),
    "delete read rows": lambda one: one.delete_rows(pa.table({"id": [1], "_version": [2]})),
    "cells": lambda one: one.set_cells([{"id": 1, "name": "c"}]),
    "deleted cells": lambda one: one.set_cells([], delete=[{"id": 1}]),
    "put": lambda one: one.put_rows(rows_of({"id": 1, "name": "c", "n": 7})),
    "upsert": lambda one: one.upsert(rows_of({"id": 1, "name": "c", "n": 7})),
    "insert": lambda one: one.insert(rows_of({"id": 3, "name": "c", "n": 7})),
    "merge": lambda one: (
        one.merge(rows_of({"id": 1, "name": "c", "n": 7}), on="id").when_matched_delete().execute()
    ),
}


@pytest.mark.parametrize("what", BY_THE_OLD_NAMES)
def test_the_names_of_before_are_refused_and_nothing_changes(what: str) -> None:
    table = keyed()
    before = seen(again(table))
    with pytest.raises(bs.Invalid, match=r"'(id|key|n)'"):
        BY_THE_OLD_NAMES[what](table)
    assert seen(again(table)) == before


def test_a_row_that_is_named_twice_is_found_by_the_name_of_now() -> None:
    twice: list[dict[str, Any]] = [{"key": 1, "m": 5}, {"key": 1, "name": "z"}]
    for do in (
        lambda one: one.upsert(pa.concat_tables([new(1, 6), new(1, 7)])),
        lambda one: one.set_cells(twice),
        lambda one: one.delete_rows([1, 1]),
    ):
        with pytest.raises(bs.Invalid, match=r"key \(key\) 1 occurs 2 times.*rows 0 and 1"):
            do(keyed())


def test_a_column_that_another_handle_dropped_is_named() -> None:
    table = by_id()
    table.append(pa.table({"name": ["a"], "n": [1]}))
    again(table).alter(drop=["n"])
    with pytest.raises(bs.Invalid, match="the update sets 'n', which the table does not have"):
        table.update({"n": 7})


def test_a_revert_follows_a_rename_of_the_key_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    table = by_key()
    table.upsert(rows_of({"id": 1, "name": "a", "n": 1}, {"id": 2, "name": "b", "n": 2}))
    done = table.upsert(rows_of({"id": 1, "name": "a", "n": 7}, {"id": 3, "name": "c", "n": 3}))
    assert done.version is not None
    read = revert._read

    def and_renamed(*given: Any) -> Any:
        found = read(*given)
        again(table).alter(rename={"id": "key", "n": "m"})
        return found

    monkeypatch.setattr(revert, "_read", and_renamed)
    did = table.revert(done.version)
    assert sum(did.undone.values()) == 2
    assert {row["key"]: row["m"] for row in seen(again(table))} == {1: 1, 2: 2}
