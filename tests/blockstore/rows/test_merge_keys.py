"""By what a merge matches rows, which rows it may not replace, and what its rows have."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import blockstore as bs
from blockstore.errors import Invalid, RowConflict
from blockstore.table import Table
from tests.blockstore.rows.lake import again, at_commit, by_id, by_key, rows_of, seen

NEW_YEAR = datetime(2024, 1, 1)
SAME_VALUE = [
    pytest.param(pa.timestamp("us"), NEW_YEAR, pa.timestamp("ns"), id="finer times"),
    pytest.param(pa.timestamp("us"), NEW_YEAR, pa.timestamp("s"), id="coarser times"),
    pytest.param(
        pa.timestamp("us", "UTC"),
        NEW_YEAR.replace(tzinfo=UTC),
        pa.timestamp("ns", "Europe/Berlin"),
        id="times of another zone",
    ),
    pytest.param(pa.decimal128(10, 2), Decimal("1.5"), pa.decimal128(2, 1), id="decimals"),
    pytest.param(pa.decimal128(10, 2), 3, pa.int64(), id="integers as decimals"),
    pytest.param(pa.int32(), 3, pa.int64(), id="integers"),
]
NO_SUCH_VALUE = [
    pytest.param(pa.int32(), 1, pa.int64(), [2**40, 1], id="integers"),
    pytest.param(pa.uint64(), 1, pa.int64(), [-1, 1], id="negative integers"),
    pytest.param(
        pa.timestamp("ms"),
        NEW_YEAR,
        pa.timestamp("us"),
        [NEW_YEAR.replace(microsecond=5), NEW_YEAR],
        id="times",
    ),
    pytest.param(
        pa.decimal128(3, 1),
        Decimal("1.5"),
        pa.decimal128(10, 2),
        [Decimal("1.55"), Decimal("1.50"), Decimal("12345678.00")],
        id="decimals",
    ),
    pytest.param(pa.int64(), 1, pa.string(), ["one", "1"], id="texts"),
]


def having(kind: pa.DataType, value: Any, *, key: Any = None) -> Table:
    """A table with one row, ('x', the value, 1)."""
    schema = pa.schema([("d", pa.string()), ("t", kind), ("n", pa.int64())])
    table = by_id(schema=schema) if key is None else by_key(schema=schema, key=key)
    write = table.append if key is None else table.insert
    write(of(kind, value, n=1))
    return table


def of(kind: pa.DataType, *values: Any, n: int) -> pa.Table:
    count = len(values)
    return pa.table({"d": ["x"] * count, "t": pa.array(values, kind), "n": [n] * count})


@pytest.mark.parametrize("isolation", [None, "serializable"])
@pytest.mark.parametrize("on", [["t"], ["d", "t"], ["t", "d"]])
@pytest.mark.parametrize("key", [None, "t", ["d", "t"]])
@pytest.mark.parametrize(("kind", "value", "given"), SAME_VALUE)
def test_a_value_of_another_type_matches(
    kind: pa.DataType, value: Any, given: pa.DataType, key: Any, on: list[str], isolation: Any
) -> None:
    table = having(kind, value, key=key)
    merge = table.merge(of(given, value, n=2), on=on, isolation=isolation)
    did = merge.when_matched_update({"n": "source.n"}).when_not_matched_insert().execute()
    assert (did.updated, did.inserted) == (1, 0)
    assert seen(table, "n") == [{"n": 2}]


def test_a_value_of_another_type_matches_with_a_label() -> None:
    table = by_key(schema=pa.schema([("t", pa.timestamp("us")), ("n", pa.int64())]), key="t")
    one = pa.array([NEW_YEAR], pa.timestamp("ns"))
    table.upsert(pa.table({"t": one, "n": [1]}), labels={"site": "x"})
    source = pa.table({"site": ["x"], "t": one, "n": [2]})
    did = table.merge(source, on=["site", "t"]).when_matched_update().execute()
    assert (did.updated, seen(table, "n")) == (1, [{"n": 2}])


@pytest.mark.parametrize("isolation", [None, "serializable"])
@pytest.mark.parametrize("on", [["t"], ["d", "t"]])
@pytest.mark.parametrize(("kind", "value", "given", "values"), NO_SUCH_VALUE)
def test_a_value_that_the_column_cannot_have_matches_nothing(
    kind: pa.DataType,
    value: Any,
    given: pa.DataType,
    values: list[Any],
    on: list[str],
    isolation: Any,
) -> None:
    table = having(kind, value, key=on)
    merge = table.merge(of(given, *values, n=2), on=on, isolation=isolation)
    did = merge.when_matched_update({"n": "source.n"}).execute()
    assert (did.updated, seen(table, "n")) == (1, [{"n": 2}])


@pytest.mark.parametrize(
    ("kind", "value", "given"),
    [
        (pa.timestamp("us", "UTC"), NEW_YEAR.replace(tzinfo=UTC), pa.timestamp("us")),
        (pa.timestamp("us"), NEW_YEAR, pa.timestamp("us", "UTC")),
        (pa.binary(), b"x", pa.int64()),
    ],
)
@pytest.mark.parametrize("on", [["t"], ["d", "t"]])
def test_types_that_cannot_be_compared_are_refused(
    kind: pa.DataType, value: Any, given: pa.DataType, on: list[str]
) -> None:
    table = having(kind, value, key=on)
    source = of(given, 1, n=2)
    with pytest.raises(Invalid, match=r"the merge is on 't', which is .* cannot be compared"):
        table.merge(source, on=on).when_matched_update({"n": "source.n"}).execute()


def people() -> Table:
    table = by_key()
    table.upsert(rows_of({"id": 1, "name": "a", "n": 1}, {"id": 2, "name": "b", "n": 2}))
    return table


ONE_IN_THE_WAY = {"id": 1, "name": "zzz", "n": 99}


@pytest.mark.parametrize("isolation", [None, "serializable"])
@pytest.mark.parametrize("on", ["name", ["id", "name"]])
def test_an_insert_replaces_no_row_that_was_not_matched(on: Any, isolation: Any) -> None:
    table = people()
    before = seen(table)
    source = rows_of(ONE_IN_THE_WAY, {"id": 2, "name": "b", "n": 22}, {"id": 3, "name": "c"})
    merge = table.merge(source, on=on, isolation=isolation)
    merge.when_matched_update().when_not_matched_insert()
    with pytest.raises(RowConflict, match=r"1 of the keys exist .*name the key in on") as error:
        merge.execute()
    assert [key for key, _, _ in error.value.rows] == [1]
    assert seen(table) == before


def test_an_insert_of_another_key_than_the_source_has_replaces_no_row() -> None:
    table = people()
    merge = table.merge(rows_of({"id": 11, "name": "c", "n": 3}), on="id")
    merge.when_not_matched_insert({"id": pc.subtract(pc.field("source.id"), 10), "name": "new"})
    with pytest.raises(RowConflict, match="exist already"):
        merge.execute()


def test_an_insert_replaces_no_row_of_its_stream_where_it_matched_another_label() -> None:
    table = people()
    source = rows_of({"id": 1, "name": "c", "n": 3}).append_column("site", pa.array(["x"]))
    table.upsert(rows_of({"id": 9, "name": "c", "n": 3}), labels={"site": "x"})
    values = {"id": "source.id", "name": "source.name"}
    with pytest.raises(RowConflict, match="exist already"):
        table.merge(source, on=["site", "id"]).when_not_matched_insert(values).execute()
    assert table.merge(source, on=["site", "id"]).when_not_matched_insert().execute().inserted == 1
    assert len(seen(table)) == 4


@pytest.mark.parametrize("isolation", [None, "serializable"])
def test_an_insert_replaces_no_row_that_another_inserted_meanwhile(isolation: Any) -> None:
    table = people()
    other = again(table)
    source = rows_of({"id": 3, "name": "zzz", "n": 99})
    at_commit(table, lambda: other.insert(rows_of({"id": 3, "name": "c", "n": 3})))
    with pytest.raises(RowConflict, match="exist already"):
        table.merge(source, on="name", isolation=isolation).when_not_matched_insert().execute()
    assert {"id": 3, "name": "c", "n": 3} in seen(table)


def test_rows_with_ids_are_inserted_whatever_their_columns() -> None:
    table = by_id()
    table.append(pa.table({"name": ["a"], "n": [1]}))
    source = pa.table({"name": ["a"], "n": [2]})
    assert table.merge(source, on="n").when_not_matched_insert().execute().inserted == 1


def with_default(**more: Any) -> Table:
    columns = [pa.field("id", pa.int64()), pa.field("name", pa.string())]
    return by_key(schema=pa.schema([*columns, bs.column("n", "integer", **more)]))


@pytest.mark.parametrize("values", [None, {"id": "source.id", "name": "source.name"}])
@pytest.mark.parametrize("more", [{"default": 7}, {"default": 7, "not_null": True}])
def test_an_inserted_row_has_the_defaults_of_columns_of_which_it_says_nothing(
    values: Any, more: dict[str, Any]
) -> None:
    table = with_default(**more)
    table.upsert(pa.table({"id": [1], "name": ["a"], "n": [1]}))
    source = pa.table({"id": [1, 2], "name": ["b", "c"]})
    merge = table.merge(source, on="id").when_matched_update()
    merge.when_not_matched_insert(values).execute()
    assert seen(table, "id", "name", "n") == [
        {"id": 1, "name": "b", "n": 1},
        {"id": 2, "name": "c", "n": 7},
    ]


def test_a_null_that_an_inserted_row_says_stays_a_null() -> None:
    table = with_default(default=7)
    source = pa.table({"id": [1], "name": ["a"], "n": pa.nulls(1, pa.int32())})
    table.merge(source, on="id").when_not_matched_insert().execute()
    source = pa.table({"id": [2], "name": ["a"]})
    table.merge(source, on="id").when_not_matched_insert({"id": "source.id", "n": None}).execute()
    assert seen(table, "n") == [{"n": None}, {"n": None}]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("source.nmae", "the source has no column 'nmae': it has id, name, n"),
        ("source.", "the source has no column ''"),
        ("target.nmae", "the target has no column 'nmae': it has id, name, n"),
    ],
)
def test_a_reference_to_no_column_is_no_text(value: str, why: str) -> None:
    table = people()
    before = seen(table)
    merge = table.merge(rows_of(ONE_IN_THE_WAY), on="id").when_matched_update({"name": value})
    with pytest.raises(Invalid, match=f"the merge sets 'name' to '{value}', and {why}"):
        merge.execute()
    assert seen(table) == before


def test_a_reference_to_the_side_that_a_clause_does_not_have_is_no_text() -> None:
    table = people()
    source = rows_of(ONE_IN_THE_WAY)
    inserting = table.merge(source, on="id").when_not_matched_insert({"name": "target.name"})
    with pytest.raises(Invalid, match="a row that is not matched has no target row"):
        inserting.execute()
    merge = table.merge(source, on="id")
    with pytest.raises(Invalid, match="a row that is not matched by source has no source row"):
        merge.when_not_matched_by_source_update({"name": "source.name"}).execute()


def test_texts_that_look_like_references_are_still_values() -> None:
    table = people()
    merge = table.merge(rows_of({"id": 1}, {"id": 2}), on="id")
    two = pc.field("source.id") == 2
    merge.when_matched_update({"name": pc.scalar("source.nmae")}, condition=two)
    merge.when_matched_update({"name": "sources.name"}).execute()
    assert [one["name"] for one in seen(table)] == ["sources.name", "source.nmae"]


def test_a_reference_may_name_what_the_table_gives_a_row() -> None:
    table = people()
    table.upsert(rows_of({"id": 5, "name": "e", "n": 5}), labels={"site": "x"})
    merge = table.merge(rows_of({"id": 5, "name": "z"}), on="id")
    merge.when_matched_update({"name": "target.site", "n": "target._version"}).execute()
    assert {"id": 5, "name": "x", "n": 3, "site": "x"} in seen(table)


@pytest.mark.parametrize("clause", ["when_matched_update", "when_not_matched_insert"])
def test_a_source_column_in_another_case_is_refused_where_all_are_taken(clause: str) -> None:
    table = people()
    before = seen(table)
    source = pa.table({"id": [1, 3], "Name": ["x", "y"], "extra": [5, 6]})
    with pytest.raises(Invalid, match="another case: case counts, so write 'Name' as 'name'"):
        getattr(table.merge(source, on="id"), clause)().execute()
    assert seen(table) == before


def test_a_source_column_in_another_case_may_be_named_and_is_no_matter_where_one_fits() -> None:
    table = people()
    source = pa.table({"id": [1], "Name": ["x"], "extra": [5]})
    table.merge(source, on="id").when_matched_update({"name": "source.Name"}).execute()
    assert seen(table, "name", where="id = 1") == [{"name": "x"}]
    table.merge(source, on="id").when_matched_delete().execute()
    table.merge(
        source.append_column("name", source["Name"]), on="id"
    ).when_not_matched_insert().execute()
    assert {"id": 1, "name": "x", "n": None} in seen(table)


@pytest.mark.parametrize("clause", ["when_matched_update", "when_not_matched_insert"])
def test_a_label_in_another_case_is_refused_where_all_columns_are_taken(clause: str) -> None:
    table = people()
    table.upsert(rows_of({"id": 5}), labels={"site": "x"})
    source = rows_of({"id": 6}).append_column("Site", pa.array(["x"]))
    with pytest.raises(Invalid, match="write 'Site' as 'site'"):
        getattr(table.merge(source, on="id"), clause)().execute()
