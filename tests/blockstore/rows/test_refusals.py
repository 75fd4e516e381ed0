"""Bad input: one sentence, and nothing changes."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.format.definition import Definition
from blockstore.table import Table
from tests.blockstore.rows.lake import by_id, by_key, rows_of, seen

ROW = {"id": 1, "name": "a", "n": 1}


def keyed() -> Table:
    table = by_key()
    table.upsert(rows_of(ROW))
    return table


def numbered() -> Table:
    table = by_id()
    table.append(pa.table({"name": ["a"], "n": [1]}))
    return table


DOUBLED = pa.table([[1], [1], ["a"], [1]], names=["id", "id", "name", "n"])

REFUSED: dict[str, tuple[Callable[[], Table], Callable[[Table], Any], type[Exception], str]] = {
    "a key twice": (
        keyed,
        lambda table: table.upsert(rows_of(ROW, {**ROW, "name": "b"})),
        bs.Invalid,
        r"the key \(id\) 1 occurs 2 times",
    ),
    "a null key": (
        keyed,
        lambda table: table.upsert(rows_of({**ROW, "id": None})),
        bs.Invalid,
        "column 'id' is null in row 0",
    ),
    "an append": (
        keyed,
        lambda table: table.append(rows_of(ROW)),
        bs.Invalid,
        "use upsert or insert",
    ),
    "an upsert by id": (
        numbered,
        lambda table: table.upsert(rows_of(ROW)),
        bs.Invalid,
        "has row ids",
    ),
    "a key set": (keyed, lambda table: table.update({"id": 2}), bs.Invalid, "part of the key"),
    "a strange column set": (
        keyed,
        lambda table: table.update({"x": 2}),
        bs.Invalid,
        "sets 'x', which the table does not have",
    ),
    "a value of another type": (
        keyed,
        lambda table: table.update({"n": "many"}),
        bs.Invalid,
        "column 'n' cannot be set to 'many'",
    ),
    "nothing set": (keyed, lambda table: table.update({}), bs.Invalid, "sets no column"),
    "an unknown id": (
        numbered,
        lambda table: table.set_cells([{"_row_id": 9, "n": 1}]),
        bs.NotFound,
        "1 of the rows are not in the table at version 2: 9",
    ),
    "an id not yet given": (
        numbered,
        lambda table: table.delete_rows([1]),
        bs.Invalid,
        "row id 1 was never given",
    ),
    "a row without its id": (
        numbered,
        lambda table: table.set_cells([{"n": 1}]),
        bs.Invalid,
        "row 0 of the set has no '_row_id'",
    ),
    "a row twice": (
        numbered,
        lambda table: table.set_cells([{"_row_id": 0, "n": 1}, {"_row_id": 0, "name": "b"}]),
        bs.Invalid,
        "the row id 0 occurs 2 times",
    ),
    "a strange cell": (
        numbered,
        lambda table: table.set_cells([{"_row_id": 0, "x": 1}]),
        bs.Invalid,
        "row 0 of the set names 'x'",
    ),
    "a row set without ids": (
        numbered,
        lambda table: table.put_rows(pa.table({"name": ["a"], "n": [1]})),
        bs.Invalid,
        "the rows lack '_row_id'",
    ),
    "a strange version": (
        numbered,
        lambda table: table.fetch([(0, 1)]),
        bs.NotFound,
        "row 0 at version 1",
    ),
    "a strange history": (
        numbered,
        lambda table: table.row_history(5),
        bs.NotFound,
        "row 5 was never",
    ),
    "a merge that does nothing": (
        keyed,
        lambda table: table.merge(rows_of(ROW), on="id").execute(),
        bs.Invalid,
        "nothing to do",
    ),
    "a merge on a strange column": (
        keyed,
        lambda table: table.merge(rows_of(ROW), on="x"),
        bs.Invalid,
        "the merge is on 'x'",
    ),
    "two matches of a row": (
        keyed,
        lambda table: table.merge(rows_of(ROW, ROW), on="id").when_matched_update().execute(),
        bs.Invalid,
        "several source rows match the row with id = 1",
    ),
    "labels of a row that its id names": (
        numbered,
        lambda table: table.delete_rows([0], labels={"site": "x"}),
        bs.Invalid,
        "a delete names rows by their ids.*leave labels out",
    ),
    "labels of cells that an id names": (
        numbered,
        lambda table: table.set_cells([{"_row_id": 0, "n": 1}], labels={}),
        bs.Invalid,
        "a change of cells names rows by their ids",
    ),
    "a label that is a column": (
        keyed,
        lambda table: table.upsert(rows_of(ROW), labels={"Name": "x"}),
        bs.Invalid,
        "label 'Name' has the same name as column 'name'",
    ),
    "a doubled column of a merge": (
        keyed,
        lambda table: table.merge(DOUBLED, on="id"),
        bs.Invalid,
        "the data has column 'id' twice",
    ),
    "a doubled column of rows to delete": (
        keyed,
        lambda table: table.delete_rows(DOUBLED),
        bs.Invalid,
        "the data has column 'id' twice",
    ),
    "a doubled column of a row set": (
        keyed,
        lambda table: table.put_rows(DOUBLED),
        bs.Invalid,
        "the data has column 'id' twice",
    ),
    "a doubled column of the last rows": (
        keyed,
        lambda table: table.upsert(DOUBLED, duplicates="last"),
        bs.Invalid,
        "the data has column 'id' twice",
    ),
    "a merge of nothing": (
        keyed,
        lambda table: table.merge(None, on="id"),
        bs.Invalid,
        "cannot take a NoneType as rows",
    ),
    "a merge of dicts": (
        keyed,
        lambda table: table.merge([ROW], on="id"),
        bs.Invalid,
        "item 1 of the iterable of rows is a dict: .*from_pylist",
    ),
    "a merge of columns of other lengths": (
        keyed,
        lambda table: table.merge({"id": [1], "n": [1, 2]}, on="id"),
        bs.Invalid,
        "cannot read a dict as a table",
    ),
    "a merge of batches of several schemas": (
        keyed,
        lambda table: table.merge(
            [pa.record_batch({"id": [1]}), pa.record_batch({"id": ["a"]})], on="id"
        ),
        bs.Invalid,
        "the record batches have several schemas",
    ),
    "a merge of no batches": (
        keyed,
        lambda table: table.merge([], on="id"),
        bs.Invalid,
        "a list without a record batch has no columns",
    ),
    "a merge of a frame of objects": (
        keyed,
        lambda table: table.merge(pd.DataFrame({"id": [1, "a"]}), on="id"),
        bs.Invalid,
        "cannot read a pandas.*DataFrame as a table",
    ),
    "rows to delete of objects": (
        keyed,
        lambda table: table.delete_rows(pd.DataFrame({"id": [1, "a"]})),
        bs.Invalid,
        "cannot read a pandas.*DataFrame as a table",
    ),
    "one row to delete": (
        keyed,
        lambda table: table.delete_rows(1),
        bs.Invalid,
        "the rows to delete are 1, expected a list",
    ),
    "a text of rows to delete": (
        keyed,
        lambda table: table.delete_rows("12"),
        bs.Invalid,
        "the rows to delete are '12', expected a list",
    ),
    "a dict of rows to delete": (
        keyed,
        lambda table: table.delete_rows({"id": [1]}),
        bs.Invalid,
        "the rows to delete are {'id': .*, expected a list",
    ),
    "a fetch without a version": (
        keyed,
        lambda table: table.fetch([1]),
        bs.Invalid,
        "a fetch of versions names 1, expected pairs",
    ),
    "a fetch of one": (
        keyed,
        lambda table: table.fetch(1),
        bs.Invalid,
        "a fetch of versions names 1, expected pairs",
    ),
    "a revert of a list": (
        keyed,
        lambda table: table.revert(["0" * 26]),
        bs.Invalid,
        r"is not a write, expected the ULID of each .*revert\(\*ulids\)",
    ),
    "cells of a dict": (
        keyed,
        lambda table: table.set_cells(ROW),
        bs.Invalid,
        "the rows are a dict, expected a list of one dict for each row",
    ),
    "cells of a table": (
        keyed,
        lambda table: table.set_cells(rows_of(ROW)),
        bs.Invalid,
        "the rows are a pyarrow Table, expected a list",
    ),
    "cells of a frame": (
        keyed,
        lambda table: table.set_cells([], delete=pd.DataFrame({"id": [1]})),
        bs.Invalid,
        "the rows are a pandas DataFrame, expected a list",
    ),
    "cells of a number": (
        keyed,
        lambda table: table.set_cells([1]),
        bs.Invalid,
        "the rows are 1 in row 0 of the set, expected a list",
    ),
    "a scan of a number": (
        keyed,
        lambda table: table.snapshot().scan(columns=[1]).to_table(),
        bs.Invalid,
        "the scan names the column 1, expected its name",
    ),
    "a listing": (
        keyed,
        lambda table: Table.open_bucket(table.bucket, table.world, discovery="list").snapshot(),
        bs.Invalid,
        "which only its index orders",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_it_is_refused(what: str) -> None:
    make, do, kind, text = REFUSED[what]
    table = make()
    before = (seen(table), table.poll())
    with pytest.raises(kind, match=text):
        do(table)
    assert (seen(table), table.poll()) == before


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (["x"], "the key names 'x', which is not in the schema"),
        (["id", "id"], "the key names 'id' twice"),
        (["f"], "the key names 'f' of type double"),
        (["l"], "the key names 'l' of type list"),
    ],
)
def test_a_key_that_cannot_be_one(key: list[str], text: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("f", pa.float64()), ("l", pa.list_(pa.int64()))])
    with pytest.raises(bs.Invalid, match=text):
        Definition.create(schema, key=key)
    with pytest.raises(bs.Invalid, match="either identifies a row"):
        Definition.create(schema, key=["id"], row_ids=True)


def test_a_table_whose_rows_have_no_identity_says_what_to_do(tmp_path: Any) -> None:
    table = bs.create(f"file://{tmp_path}/t", schema=pa.schema([("n", pa.int64())]))
    for do in (
        lambda: table.upsert(pa.table({"n": [1]})),
        lambda: table.update({"n": 1}),
        lambda: table.delete_rows([1]),
        lambda: table.set_cells([{"n": 1}]),
        lambda: table.merge(pa.table({"n": [1]}), on="n"),
        lambda: table.row_history(1),
    ):
        with pytest.raises(bs.Invalid, match="have no identity"):
            do()


def test_an_older_release_refuses_the_table_by_name() -> None:
    assert "rows/0.2" in by_key().log.state.requires
    assert "rows/0.2" in by_id().definition.to_json()["requires"]  # type: ignore[operator]


def test_keys_of_several_columns_and_types() -> None:
    schema = pa.schema([("customer", pa.string()), ("day", pa.date32()), ("n", pa.int64())])
    table = by_key(schema=schema, key=["customer", "day"])
    first, second = date(2026, 1, 1), date(2026, 1, 2)
    rows = [
        {"customer": "a", "day": first, "n": 1},
        {"customer": "a", "day": second, "n": 2},
        {"customer": "1:a", "day": first, "n": 3},
    ]
    table.upsert(rows_of(*rows, schema=schema))
    table.upsert(rows_of({**rows[1], "n": 20}, schema=schema))
    with pytest.raises(bs.RowConflict) as stale:
        table.set_cells([{"customer": "a", "day": second, "_version": 2, "n": 5}])
    assert stale.value.rows == ((("a", second), 2, 3),)
    with pytest.raises(bs.RowConflict) as put:
        table.put_rows(pa.table({**_column(rows[1]), "_version": [2]}))
    assert put.value.rows == stale.value.rows
    table.delete_rows([("a", first)])
    assert seen(table, "n") == [{"n": 20}, {"n": 3}]
    assert table.fetch([(("a", second), 2)])["n"].to_pylist() == [2]


def test_rows_of_two_streams_are_never_versions_of_one_another() -> None:
    table = by_key()
    table.upsert(rows_of(ROW), labels={"site": "x"})
    table.upsert(rows_of({**ROW, "n": 2}), labels={"site": "y"})
    table.upsert(rows_of({**ROW, "n": 3}), labels={"site": "y"})
    assert seen(table, "site", "n") == [{"site": "x", "n": 1}, {"site": "y", "n": 3}]


def _column(row: dict[str, Any]) -> dict[str, list[Any]]:
    return {name: [value] for name, value in row.items()}


def test_an_insert_looks_at_rows_with_its_own_labels_only() -> None:
    table = by_key()
    table.upsert(rows_of(ROW), labels={"site": "x"})
    table.insert(rows_of({**ROW, "n": 2}), labels={"site": "y"})
    assert seen(table, "site", "n") == [{"site": "x", "n": 1}, {"site": "y", "n": 2}]
    with pytest.raises(bs.RowConflict, match="exist already"):
        table.insert(rows_of(ROW), labels={"site": "y"})


DAYS = pa.schema([("sku", pa.string()), ("day", pa.date32()), ("n", pa.int64())])
DAY = {"sku": "x", "day": date(2026, 1, 1), "n": 1}


@pytest.mark.parametrize(
    "do",
    [
        lambda table: table.upsert(rows_of(DAY, DAY, schema=DAYS)),
        lambda table: table.insert(rows_of(DAY, schema=DAYS)),
        lambda table: table.put_rows(rows_of(DAY, schema=DAYS), on_conflict="fail"),
        lambda table: table.set_cells([{**DAY, "_version": 1}]),
        lambda table: table.set_cells([{**DAY, "day": date(2026, 1, 2)}]),
        lambda table: table.set_cells([], new=rows_of(DAY, schema=DAYS)),
        lambda table: table.fetch([(("x", date(2026, 1, 1)), 99)]),
        lambda table: table.row_history(("x", date(2027, 1, 1))),
        lambda table: table.overwrite(rows_of({**DAY, "n": 9}, schema=DAYS), where="n > 5"),
        lambda table: (
            table.merge(rows_of(DAY, DAY, schema=DAYS), on=["sku", "day"])
            .when_matched_update()
            .execute()
        ),
    ],
)
def test_a_message_has_values_as_people_write_them(do: Callable[[Table], Any]) -> None:
    table = by_key(schema=DAYS, key=["sku", "day"])
    table.upsert(rows_of(DAY, schema=DAYS))
    with pytest.raises(bs.BlockstoreError) as refused:
        do(table)
    assert "datetime" not in str(refused.value)
    assert re.search(r'\["x", "202\d-01-0\d"\]|202\d-01-0\d', str(refused.value))
