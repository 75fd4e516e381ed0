"""The schema of a table: data is brought into it without loss, or refused by name."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from blockstore.errors import Corrupt, Invalid
from blockstore.format.casting import cast_batch
from blockstore.format.definition import Definition
from blockstore.format.evolution import evolve
from blockstore.format.fields import NOT_NULL, field_id
from blockstore.format.schema import (
    adapt,
    canonical,
    deserialize,
    readable_under,
    serialize,
    with_reserved,
)
from tests.support.long_decimals import long_decimals
from tests.support.raw_text import raw_text

UTC = pa.timestamp("us", "UTC")


def define(*fields: pa.Field, time_column: str | None = None) -> Definition:
    return Definition.create(pa.schema(list(fields)), time_column=time_column)


def one(name: str, kind: pa.DataType) -> Definition:
    return define(pa.field(name, kind))


def test_a_schema_survives_its_bytes_with_metadata() -> None:
    schema = one("a", pa.list_(pa.int8())).schema
    assert deserialize(serialize(schema)).equals(schema, check_metadata=True)


@pytest.mark.parametrize(
    "data", [b"", b"garbage", b"\xff\xff\xff\xff\x10\x00\x00\x00", serialize(pa.schema([]))[:20]]
)
def test_damaged_schema_bytes_are_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt, match="block X"):
        deserialize(data, "block X")


@pytest.mark.parametrize(
    "schema",
    [
        pa.schema([pa.field("nameless", pa.int64())]),
        pa.schema([pa.field("s", pa.struct([pa.field("nameless", pa.int64())]))]),
        pa.schema([pa.field("l", pa.list_(pa.field("nameless", pa.int64())))]),
    ],
)
def test_a_name_that_is_no_text_is_corrupt_at_any_depth(schema: pa.Schema) -> None:
    data = serialize(schema).replace(b"nameless", b"nam\xb8less")
    with pytest.raises(Corrupt, match="block X"):
        deserialize(data, "block X")


def test_canonical_keeps_the_users_metadata_and_drops_that_of_other_programs() -> None:
    schema = pa.schema([pa.field("a", pa.int8())], {b"pandas": b"{}", b"blockstore.note": b"x"})
    assert canonical(schema).metadata == {b"blockstore.note": b"x"}


def test_a_batch_under_the_tables_own_types_is_taken_as_it_is() -> None:
    batch = pa.record_batch({"a": [1, None]})
    assert cast_batch(batch, one("a", pa.int64())) is batch


def test_columns_are_found_by_name_whatever_their_order() -> None:
    definition = define(pa.field("a", pa.int64()), pa.field("b", pa.string()))
    batch = cast_batch(pa.record_batch({"b": ["x"], "a": [1]}), definition)
    assert batch.schema.names == ["a", "b"]
    assert batch.to_pylist() == [{"a": 1, "b": "x"}]


@pytest.mark.parametrize(
    ("column", "kind", "values"),
    [
        (pa.array(["x", None]).dictionary_encode(), pa.string(), ["x", None]),
        (pa.array(["x"], pa.large_string()), pa.string(), ["x"]),
        (pa.array(["x"], pa.string_view()), pa.string(), ["x"]),
        (pa.RunEndEncodedArray.from_arrays([2], [7]), pa.int64(), [7, 7]),
        (pa.array([7, None], pa.int8()), pa.int64(), [7, None]),
        (pa.array([7], pa.uint32()), pa.int64(), [7]),
        (pa.nulls(2), pa.decimal128(5, 2), [None, None]),
        (pa.array([Decimal("1.25")], pa.decimal128(3, 2)), pa.decimal128(38, 2), [Decimal("1.25")]),
        (pa.array([1.5], pa.float16()), pa.float32(), [1.5]),
        (
            pa.array([0], pa.timestamp("us", "Asia/Tokyo")),
            UTC,
            [dt.datetime(1970, 1, 1, tzinfo=dt.UTC)],
        ),
        (
            pa.array([2_000], pa.timestamp("ns", "UTC")),
            UTC,
            [dt.datetime(1970, 1, 1, 0, 0, 0, 2, dt.UTC)],
        ),
        (pa.array([[1], None], pa.large_list(pa.int8())), pa.list_(pa.int64()), [[1], None]),
        (
            pa.array([{"q": "x"}], pa.struct([("q", pa.large_string())])),
            pa.struct([("q", pa.string())]),
            [{"q": "x"}],
        ),
        (
            pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int8())),
            pa.map_(pa.string(), pa.int64()),
            [[("k", 1)]],
        ),
        (
            pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16], pa.binary(16))),
            pa.binary(16),
            [b"0" * 16],
        ),
    ],
)
def test_encodings_zones_and_widths_are_cast(
    column: pa.Array, kind: pa.DataType, values: list[object]
) -> None:
    batch = cast_batch(pa.record_batch({"a": column}), one("a", kind))
    assert batch.column("a").type.equals(kind)
    assert batch.column("a").to_pylist() == values


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array(["1"]), pa.int64()),
        (pa.array([1]), pa.string()),
        (pa.array([1], pa.int64()), pa.int32()),
        (pa.array([1.0]), pa.int64()),
        (pa.array([1]), pa.float64()),
        (pa.array([0], pa.timestamp("us")), UTC),
        (pa.array(["x"]).dictionary_encode(), pa.int64()),
        (pa.array([[1]]), pa.int64()),
    ],
)
def test_a_wrong_type_is_refused_with_column_found_and_expected(
    column: pa.Array, kind: pa.DataType
) -> None:
    with pytest.raises(Invalid) as caught:
        cast_batch(pa.record_batch({"speed": column}), one("speed", kind))
    assert all(word in str(caught.value) for word in ("'speed'", str(column.type), str(kind)))


TEXTS = {
    "text": raw_text([b"a", b"caf\xe9", b"\xff"]),
    "large text": raw_text([b"a", b"caf\xe9"], pa.large_string()),
    "dictionary": pa.DictionaryArray.from_arrays(pa.array([1, 0]), raw_text([b"caf\xe9", b"a"])),
    "list": pa.ListArray.from_arrays([0, 1, 2], raw_text([b"a", b"caf\xe9"])),
    "list of a dictionary": pa.ListArray.from_arrays(
        [0, 1, 2], pa.DictionaryArray.from_arrays(pa.array([1, 0]), raw_text([b"caf\xe9", b"a"]))
    ),
    "struct": pa.StructArray.from_arrays([raw_text([b"a", b"caf\xe9"])], ["q"]),
    "map": pa.MapArray.from_arrays([0, 1, 2], pa.array(["k", "k"]), raw_text([b"a", b"caf\xe9"])),
}


@pytest.mark.parametrize("column", TEXTS.values(), ids=TEXTS.keys())
def test_text_that_is_not_utf8_is_refused_with_column_and_row(column: pa.Array) -> None:
    definition = one("name", canonical(pa.schema([("name", column.type)])).field(0).type)
    with pytest.raises(Invalid, match=r"column 'name' .*row 1,001 .*from 0.*UTF-8.*binary column"):
        cast_batch(pa.record_batch({"name": column}), definition, first_row=1_000)
    cast_batch(pa.record_batch({"name": column.slice(0, 1)}), definition)


def test_plain_text_that_is_not_utf8_is_shown() -> None:
    with pytest.raises(Invalid, match=r"caf\\xe9"):
        cast_batch(
            pa.record_batch({"name": raw_text([b"caf\xe9" + b"a" * 1_000])}),
            one("name", pa.string()),
        )


def test_rows_of_stored_blocks_are_not_looked_at_again() -> None:
    source = pa.array(["01J00000000000000000000010"]).dictionary_encode()
    batch = pa.record_batch({"name": raw_text([b"caf\xe9"]), "_source": source})
    assert cast_batch(batch, one("name", pa.string()), extra=("_source",)).num_rows == 1


def test_a_cast_that_would_lose_digits_is_refused() -> None:
    with pytest.raises(Invalid, match="without loss"):
        cast_batch(pa.record_batch({"a": pa.array([1], pa.timestamp("ns", "UTC"))}), one("a", UTC))


def test_missing_and_extra_and_doubled_columns_are_named() -> None:
    definition = define(pa.field("a", pa.int64()), pa.field("b", pa.int64()))
    with pytest.raises(Invalid, match="lacks column 'b'"):
        cast_batch(pa.record_batch({"a": [1]}), definition)
    with pytest.raises(Invalid, match="'c'"):
        cast_batch(pa.record_batch({"a": [1], "b": [1], "c": [1]}), definition)
    with pytest.raises(Invalid, match="has column 'a' twice"):
        cast_batch(pa.RecordBatch.from_arrays([pa.array([1])] * 3, ["a", "b", "a"]), definition)


def test_a_reserved_column_is_refused_unless_it_is_asked_for() -> None:
    definition = one("a", pa.int64())
    batch = pa.record_batch({"a": [1], "_source": ["x"]})
    with pytest.raises(Invalid, match="'_source' is reserved"):
        cast_batch(batch, definition)
    kept = cast_batch(batch, definition, extra=("_source",))
    assert kept.schema.equals(with_reserved(definition.schema, ("_source",)))
    assert kept.column("_source").to_pylist() == ["x"]


def test_a_null_time_is_refused_with_its_row() -> None:
    definition = define(pa.field("t", UTC), time_column="t")
    with pytest.raises(Invalid, match=r"'t' is null in row 1,002"):
        cast_batch(pa.record_batch({"t": pa.array([1, 2, None], UTC)}), definition, first_row=1000)


def test_a_column_declared_not_null_refuses_nulls() -> None:
    definition = define(pa.field("a", pa.int64(), nullable=False))
    with pytest.raises(Invalid, match="'a' is null in row 1"):
        cast_batch(pa.record_batch({"a": [1, None]}), definition)


def test_evolve_adds_at_the_end_under_fresh_ids_and_the_next_schema_id() -> None:
    before = define(pa.field("a", pa.int32()), pa.field("l", pa.list_(pa.int8())))
    after = evolve(
        before, add=[pa.field("s", pa.struct([("x", pa.int8())]))], widen={"a": pa.int64()}
    )
    assert (before.last_field_id, after.last_field_id) == (3, 5)
    assert (after.schema_id, sorted(after.schemas)) == (2, [1, 2])
    assert after.schema.names == ["a", "l", "s"]
    assert [field_id(field) for field in after.schema] == [1, 2, 4]
    assert after.schema.field("a").type == pa.int64()
    assert after.schemas[1].equals(before.schema, check_metadata=True)
    assert readable_under(before.schema, after.schema)
    assert not readable_under(after.schema, before.schema)


def test_evolve_with_nothing_to_do_changes_nothing() -> None:
    definition = one("a", pa.int64())
    assert evolve(definition) is definition


@pytest.mark.parametrize(
    ("add", "widen", "words"),
    [
        ([pa.field("a", pa.int8())], {}, "same name"),
        ([pa.field("_source", pa.int8())], {}, "reserved"),
        ([pa.field("b", pa.int8(), nullable=False)], {}, "not null"),
        ([pa.field("b", pa.null())], {}, "null"),
        ([], {"a": pa.int8()}, "int32 to int8"),
        ([], {"a": pa.int32()}, "int32 to int32"),
        ([], {"a": pa.string()}, "string"),
        ([], {"q": pa.int64()}, "no such column"),
        ([], {"l": pa.list_(pa.int64())}, "nested"),
    ],
)
def test_evolve_refuses_what_old_rows_could_not_follow(
    add: list[pa.Field], widen: dict[str, pa.DataType], words: str
) -> None:
    before = define(pa.field("a", pa.int32()), pa.field("l", pa.list_(pa.int8())))
    with pytest.raises(Invalid, match=words):
        evolve(before, add=add, widen=widen)


def test_old_rows_are_adapted_by_id_with_nulls_and_wider_types() -> None:
    before = define(
        pa.field("a", pa.int32(), metadata={"blockstore.type": "int"}), pa.field("b", pa.string())
    )
    after = evolve(before, add=[pa.field("c", pa.list_(pa.int8()))], widen={"a": pa.int64()})
    old = pa.table({"a": pa.array([1], pa.int32()), "b": ["x"]}, schema=before.schema)
    new = adapt(old, after.schema)
    assert new.schema.equals(after.schema, check_metadata=True)
    assert new.to_pylist() == [{"a": 1, "b": "x", "c": None}]
    assert adapt(old.to_batches()[0], after.schema).to_pylist() == new.to_pylist()
    assert after.schema.field("a").metadata[b"blockstore.type"] == b"int"


def test_a_column_of_the_same_name_and_another_id_is_another_column() -> None:
    before = one("a", pa.int32())
    renamed = pa.schema([pa.field("a", pa.int32(), metadata={"PARQUET:field_id": "9"})])
    old = pa.table({"a": pa.array([1], pa.int32())}, schema=before.schema)
    assert adapt(old, renamed).to_pylist() == [{"a": None}]


def test_adapting_to_fewer_columns_projects() -> None:
    definition = define(pa.field("a", pa.int64()), pa.field("b", pa.string()))
    rows = pa.table({"a": [1], "b": ["x"]}, schema=definition.schema)
    assert adapt(rows, pa.schema([definition.schema.field("b")])).to_pylist() == [{"b": "x"}]


@pytest.mark.parametrize("shape", [pa.Table, pa.RecordBatch])
def test_adapting_to_no_columns_keeps_the_number_of_rows(shape: type) -> None:
    rows = pa.table({"a": [1, 2, 3]})
    given = rows if shape is pa.Table else rows.to_batches()[0]
    assert adapt(given, pa.schema([])).num_rows == 3


def test_two_thousand_columns_are_cast_and_adapted() -> None:
    definition = define(*(pa.field(f"c{n}", pa.int32()) for n in range(2000)))
    wide = evolve(definition, add=[pa.field("last", pa.int8())], widen={"c7": pa.int64()})
    batch = cast_batch(
        pa.record_batch({f"c{n}": pa.array([n], pa.int16()) for n in range(2000)}), definition
    )
    row = adapt(pa.Table.from_batches([batch], schema=definition.schema), wide.schema).to_pylist()[
        0
    ]
    assert (row["c7"], row["c1999"], row["last"]) == (7, 1999, None)


def test_not_null_metadata_survives_evolution() -> None:
    after = evolve(define(pa.field("a", pa.int32(), False)), widen={"a": pa.int64()})
    assert after.schema.field("a").metadata[NOT_NULL] == b"true"


@pytest.mark.parametrize("width", [pa.decimal32, pa.decimal64, pa.decimal128, pa.decimal256])
def test_a_decimal_of_more_digits_than_its_type_has_is_refused_in_every_width(width: type) -> None:
    column = long_decimals(["999.99", "99999.00"], width(5, 2))
    definition = one("price", pa.decimal128(5, 2))
    with pytest.raises(Invalid, match=r"column 'price' .*decimal128\(5, 2\)"):
        cast_batch(pa.record_batch({"price": column}), definition)
    fits = pa.record_batch({"price": column.slice(0, 1)})
    assert cast_batch(fits, definition).to_pylist() == [{"price": Decimal("999.99")}]


def test_a_decimal_of_too_many_digits_is_shown() -> None:
    column = long_decimals(["999.99", "99999.00"], pa.decimal128(5, 2))
    with pytest.raises(
        Invalid, match=r"column 'price' holds 99999\.00, which .*decimal128\(5, 2\)"
    ):
        cast_batch(pa.record_batch({"price": column}), one("price", column.type))


def test_nested_decimals_are_checked_too() -> None:
    inside = long_decimals(["1.00", "-99999.00"], pa.decimal128(5, 2))
    column = pa.ListArray.from_arrays([0, 1, 2], inside)
    with pytest.raises(Invalid, match=r"column 'prices' holds -99999\.00"):
        cast_batch(
            pa.record_batch({"prices": column}), one("prices", pa.list_(pa.decimal128(5, 2)))
        )


@pytest.mark.parametrize("kind", [pa.timestamp("s"), pa.timestamp("s", "UTC")], ids=str)
def test_seconds_that_cannot_be_stored_are_refused_with_column_and_value(kind: pa.DataType) -> None:
    column = pa.array([0, 2**62], pa.int64()).cast(kind)
    with pytest.raises(Invalid, match="column 'at' holds 4611686018427387904 seconds"):
        cast_batch(pa.record_batch({"at": column}), one("at", kind))
