"""Rows that change meet the rules of their columns, and a key that is renamed still finds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.bucket.memory import MemoryBucket
from blockstore.format.definition import Definition
from blockstore.index import log as index_log
from blockstore.table import Table
from blockstore.world import World

AGE = bs.column("age", "integer", check="age < 150")
SCHEMA = pa.schema([("a", pa.string()), ("b", pa.string()), AGE])


def made(**identity: Any) -> Table:
    world = World.manual(seed=11)
    bucket = MemoryBucket(world.clock)
    index_log.create(bucket, world, Definition.create(SCHEMA, **identity))
    return Table.open_bucket(bucket, world)


def rows(*ages: int, **columns: list[object]) -> pa.Table:
    texts = [f"r{place}" for place in range(len(ages))]
    return pa.table({"a": texts, "b": [f"b{one}" for one in texts], "age": list(ages), **columns})


def shown(table: Table) -> list[tuple[object, ...]]:
    table.poll()
    found = table.snapshot().scan(columns=table.definition.schema.names).to_table()
    return sorted(zip(*(one.to_pylist() for one in found.columns), strict=True))


CHANGES: dict[str, Callable[[Table], object]] = {
    "upsert": lambda table: table.upsert(rows(1, 200)),
    "insert": lambda table: table.insert(rows(1, 200, a=["x", "y"])),
    "update": lambda table: table.update({"age": 200}, where="a = 'r0'"),
    "cells": lambda table: table.set_cells([{"a": "r0", "age": 200}]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_breaks_a_rule_changes_nothing(change: str) -> None:
    table = made(key=["a"])
    table.upsert(rows(1, 2))
    before = shown(table)
    with pytest.raises(bs.Invalid, match="column 'age' is 200 in row"):
        CHANGES[change](table)
    assert shown(table) == before


def test_a_new_rule_judges_the_current_rows_alone() -> None:
    table = made(key=["a"])
    table.upsert(rows(1, 149))
    table.upsert(rows(1, 2))
    table.alter(columns={"age": {"check": "age < 10"}})
    with pytest.raises(bs.Invalid, match="'age' is 2 in a row of the table"):
        table.alter(columns={"age": {"check": "age < 2"}})


def test_a_key_under_another_name_is_the_same_key() -> None:
    table = made(key=["a"])
    table.upsert(rows(1, 2))
    table.alter(rename={"a": "b", "b": "a"})
    fresh = pa.table({"b": ["r1"], "a": ["new"], "age": [5]})
    table.upsert(fresh)
    assert shown(table) == [("r0", "br0", 1), ("r1", "new", 5)]
    table.delete("b = 'r0'")
    assert shown(table) == [("r1", "new", 5)]


def test_rows_with_ids_keep_them_under_other_columns() -> None:
    table = made(row_ids=True)
    table.append(rows(1, 2))
    table.alter(rename={"age": "years"}, drop=["b"])
    table.update({"years": 3}, where="a = 'r0'")
    assert shown(table) == [("r0", 3), ("r1", 2)]
