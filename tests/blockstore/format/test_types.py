"""Types: one canonical type a meaning; widenings that lose nothing."""

from __future__ import annotations

import pyarrow as pa
import pytest

from blockstore.errors import Invalid
from blockstore.format.definition import Definition
from blockstore.format.evolution import evolve
from blockstore.format.fields import FIELD_ID
from blockstore.format.types import (
    can_widen,
    canonical_type,
    fits,
    is_primitive,
    is_sortable,
    is_time,
)

STRING = pa.string()
UTC = pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        (pa.large_string(), STRING),
        (pa.string_view(), STRING),
        (pa.dictionary(pa.int8(), pa.large_string()), STRING),
        (pa.run_end_encoded(pa.int32(), pa.int64()), pa.int64()),
        (pa.large_binary(), pa.binary()),
        (pa.binary_view(), pa.binary()),
        (pa.uuid(), pa.binary(16)),
        (pa.float16(), pa.float32()),
        (pa.date64(), pa.date32()),
        (pa.decimal32(5, 2), pa.decimal128(5, 2)),
        (pa.decimal256(38, 4), pa.decimal128(38, 4)),
        (pa.uint64(), pa.uint64()),
        (pa.timestamp("ns", "Europe/Berlin"), pa.timestamp("ns", "Europe/Berlin")),
        (pa.large_list(pa.large_string()), pa.list_(STRING)),
        (pa.list_view(pa.int8()), pa.list_(pa.int8())),
        (pa.list_(pa.float16(), 3), pa.list_(pa.float32(), 3)),
        (pa.map_(pa.large_string(), pa.date64()), pa.map_(STRING, pa.date32())),
        (pa.struct([pa.field("a", pa.large_string(), False)]), pa.struct([pa.field("a", STRING)])),
    ],
)
def test_each_meaning_has_one_type(given: pa.DataType, canonical: pa.DataType) -> None:
    assert canonical_type(given, "x").equals(canonical)


@pytest.mark.parametrize(
    "given",
    [
        pa.null(),
        pa.decimal256(39, 2),
        pa.decimal128(5, -2),
        pa.struct([]),
        pa.month_day_nano_interval(),
        pa.dense_union([pa.field("a", pa.int8())]),
        pa.list_(pa.null()),
        pa.struct([pa.field("a", pa.month_day_nano_interval())]),
    ],
)
def test_what_parquet_cannot_hold_is_refused_by_column(given: pa.DataType) -> None:
    with pytest.raises(Invalid, match="column 'speed"):
        canonical_type(given, "speed")


NO_LISTS, NO_BYTES = pa.list_(pa.int64(), 0), pa.binary(0)
WITHOUT_SIZE = [
    NO_LISTS,
    NO_BYTES,
    pa.struct([("a", NO_BYTES)]),
    pa.list_(NO_LISTS),
    pa.list_(NO_BYTES, 2),
    pa.large_list_view(NO_BYTES),
    pa.map_(NO_BYTES, pa.int8()),
    pa.map_(pa.int8(), NO_LISTS),
    pa.dictionary(pa.int8(), NO_BYTES),
    pa.run_end_encoded(pa.int32(), NO_BYTES),
    pa.opaque(NO_BYTES, "type", "vendor"),
    pa.fixed_shape_tensor(pa.int8(), [2, 0]),
]


@pytest.mark.parametrize("kind", WITHOUT_SIZE, ids=str)
def test_a_type_of_size_0_is_refused_at_create_and_alter_at_any_depth(kind: pa.DataType) -> None:
    field = pa.field("speed", kind)
    refused = pytest.raises(
        Invalid, match=r"column 'speed.* has the type .*, expected a size of at least 1"
    )
    with refused:
        Definition.create(pa.schema([field]))
    with refused:
        evolve(Definition.create(pa.schema([("n", pa.int8())])), add=[field])


def test_a_table_that_has_a_type_of_size_0_still_opens_and_is_altered() -> None:
    schema = pa.schema([pa.field("c", NO_LISTS, metadata={FIELD_ID: b"1"})])
    old = Definition(schema=schema, schema_id=1, schemas={1: schema}, last_field_id=2)
    assert Definition.from_json(old.to_json()) == old
    assert evolve(old, add=[pa.field("n", pa.int8())]).schema.names == ["c", "n"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (pa.int8(), pa.int16()),
        (pa.int32(), pa.int64()),
        (pa.uint8(), pa.uint64()),
        (pa.uint32(), pa.int64()),
        (pa.float32(), pa.float64()),
        (pa.decimal128(5, 2), pa.decimal128(38, 2)),
        (pa.list_(pa.int32()), pa.list_(pa.int64())),
        (pa.struct([pa.field("a", pa.int8())]), pa.struct([pa.field("a", pa.int64())])),
        (pa.map_(STRING, pa.float32()), pa.map_(STRING, pa.float64())),
    ],
)
def test_widenings_lose_nothing_and_go_one_way(old: pa.DataType, new: pa.DataType) -> None:
    assert can_widen(old, new)
    assert can_widen(old, old)
    assert not can_widen(new, old)
    assert fits(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (pa.int64(), pa.float64()),
        (pa.int32(), pa.uint32()),
        (pa.uint64(), pa.int64()),
        (pa.int32(), STRING),
        (pa.decimal128(5, 2), pa.decimal128(6, 3)),
        (pa.date32(), UTC),
        (pa.timestamp("s"), pa.timestamp("ms")),
        (pa.bool_(), pa.int8()),
        (pa.list_(pa.int32()), pa.list_(pa.int32(), 2)),
        (pa.struct([pa.field("a", pa.int8())]), pa.struct([pa.field("b", pa.int8())])),
    ],
)
def test_everything_else_is_no_widening(old: pa.DataType, new: pa.DataType) -> None:
    assert not can_widen(old, new)


def test_values_fit_in_another_zone_and_unit_but_not_with_and_without_zone() -> None:
    assert fits(pa.timestamp("us", "Europe/Berlin"), UTC)
    assert fits(pa.timestamp("ns", "UTC"), UTC)
    assert not fits(pa.timestamp("us"), UTC)
    assert not fits(UTC, pa.timestamp("us"))
    assert fits(pa.time64("ns"), pa.time64("us"))
    assert fits(pa.time32("s"), pa.time64("us"))
    assert fits(pa.duration("ms"), pa.duration("ns"))
    assert not fits(pa.time32("s"), pa.duration("s"))


def test_encodings_and_nulls_fit_nested_too() -> None:
    assert fits(pa.null(), pa.int64())
    assert fits(pa.dictionary(pa.int32(), STRING), STRING)
    assert fits(pa.large_list(pa.null()), pa.list_(STRING))
    assert not fits(pa.month_day_nano_interval(), pa.int64())


def test_roles_of_types() -> None:
    assert is_time(UTC)
    assert is_time(pa.date32())
    assert not is_time(pa.int64())
    assert is_primitive(pa.binary())
    assert not is_primitive(pa.list_(pa.int8()))
    assert is_sortable(pa.decimal128(38, 2))
    assert not is_sortable(pa.struct([pa.field("a", pa.int8())]))
