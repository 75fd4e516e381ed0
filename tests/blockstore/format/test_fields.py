"""Fields: names, ids for life, metadata."""

from __future__ import annotations

import pyarrow as pa
import pytest

from blockstore.errors import Invalid
from blockstore.format.fields import (
    FIELD_ID,
    RESERVED,
    canonical_field,
    check_names,
    field_id,
    is_reserved,
    number,
    required,
)


@pytest.mark.parametrize(
    "name", ["_source", "_row_id", "_version", "_deleted", "_blockstore_", "_blockstore_x"]
)
def test_reserved_names_are_refused(name: str) -> None:
    assert is_reserved(name)
    with pytest.raises(Invalid, match=name):
        check_names(["a", name])


@pytest.mark.parametrize(
    "name", ["_", "_sources", "_id", "__source", "source", "_Source", "blockstore_x"]
)
def test_every_other_name_is_the_users(name: str) -> None:
    assert not is_reserved(name)
    check_names([name])


@pytest.mark.parametrize("names", [["a", "a"], ["a", "A"], [""]])
def test_names_that_sql_cannot_tell_apart_are_refused(names: list[str]) -> None:
    with pytest.raises(Invalid, match="rename"):
        check_names(names)


def test_ids_are_given_to_nested_fields_too_parents_first() -> None:
    nested = pa.struct(
        [pa.field("x", pa.int8()), pa.field("y", pa.list_(pa.field("element", pa.int8())))]
    )
    fields = [
        pa.field("a", pa.int8()),
        pa.field("b", nested),
        pa.field("m", pa.map_(pa.string(), pa.int8())),
    ]
    (a, b, m), last = number(fields, 10)
    assert [field_id(field) for field in (a, b, m)] == [11, 12, 16]
    assert [field_id(field) for field in b.type.fields] == [13, 14]
    assert field_id(b.type.field("y").type.value_field) == 15
    assert [field_id(field) for field in (m.type.key_field, m.type.item_field)] == [17, 18]
    assert last == 18


def test_a_foreign_field_id_is_dropped_and_other_metadata_kept() -> None:
    field = pa.field(
        "a", pa.int8(), metadata={FIELD_ID: b"77", b"blockstore.max_length": b"9", b"mine": b"1"}
    )
    kept = canonical_field(field)
    assert field_id(kept) is None
    assert kept.metadata == {b"blockstore.max_length": b"9", b"mine": b"1"}


def test_not_null_becomes_metadata_that_is_enforced() -> None:
    field = canonical_field(pa.field("a", pa.int8(), nullable=False))
    assert field.nullable
    assert required(pa.schema([field, pa.field("b", pa.int8())])) == ("a",)


def test_reserved_columns_have_ids_that_no_table_hands_out() -> None:
    ids = [field_id(field) for field in RESERVED.values()]
    assert len(set(ids)) == 4
    assert all(own is not None and own > 2_147_000_000 for own in ids)
