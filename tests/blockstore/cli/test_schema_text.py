"""Columns as people write them."""

from __future__ import annotations

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

from blockstore.cli.failure import Usage
from blockstore.cli.schema_text import parse_schema, type_name
from tests.support.examples import few

plain = st.sampled_from(
    [
        pa.int64(),
        pa.int32(),
        pa.uint8(),
        pa.float64(),
        pa.bool_(),
        pa.string(),
        pa.binary(),
        pa.date32(),
        pa.time64("us"),
        pa.timestamp("us"),
        pa.timestamp("ns"),
        pa.timestamp("ms", "Europe/Berlin"),
        pa.timestamp("us", "UTC"),
        pa.decimal128(10, 2),
    ]
)
names = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=8
)
kinds = st.recursive(
    plain,
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(lambda kind: pa.map_(pa.string(), kind)),
        st.lists(
            st.tuples(st.sampled_from(["a", "b_1", 'C "d", e:']), inner),
            min_size=1,
            max_size=3,
            unique_by=lambda pair: pair[0],
        ).map(pa.struct),
    ),
    max_leaves=4,
)


@settings(max_examples=few(60), deadline=None)
@given(
    fields=st.lists(
        st.tuples(names, kinds, st.booleans()),
        min_size=1,
        max_size=4,
        unique_by=lambda field: field[0],
    )
)
def test_what_is_shown_is_what_is_read(fields: list[tuple[str, pa.DataType, bool]]) -> None:
    shown = ", ".join(
        '"' + name.replace('"', '""') + f'": {type_name(kind)}{"" if null else " not null"}'
        for name, kind, null in fields
    )
    assert parse_schema(shown) == pa.schema(
        [pa.field(name, kind, null) for name, kind, null in fields]
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "found the end, expected a column's name"),
        ("a", "at character 2, found the end, expected ':'"),
        ("a:", "expected a type"),
        ("a:int,", "expected a column's name"),
        ("a:int b:int", "found 'b:int', expected a comma or the end"),
        ("a:foo", "at character 3, found 'foo', expected a type: one of bool"),
        ("a:decimal(40, 2)", "1 to 38 digits"),
        ("a:decimal(x, 2)", "a number, not 'x'"),
        ("a:timestamp[m]", "a unit, not 'm'"),
        ("a:list<int", "expected '>'"),
        ("a:int not nul", "null after not"),
        ("a:int, a:int", "names 'a' twice"),
    ],
)
def test_a_mistake_is_told_with_its_place(text: str, says: str) -> None:
    with pytest.raises(Usage, match="the schema") as raised:
        parse_schema(text)
    assert says in str(raised.value)
