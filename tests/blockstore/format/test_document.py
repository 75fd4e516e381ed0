"""Stored JSON: refused unless it is exactly what is expected."""

from __future__ import annotations

import json

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockstore.errors import Corrupt
from blockstore.format.document import Document, parse
from tests.support.examples import few

ULID = "01JD0000000000000000000000"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"{} {}", "not valid JSON"),
        (b"\xff{}", "not valid JSON"),
        ('{"a": 1}'.encode("utf-16"), "not valid JSON"),
        (b"[]", "expected a JSON object"),
        (b"null", "expected a JSON object"),
        (b'{"a": 1, "a": 2}', "'a' occurs twice"),
        (b'{"b": [{"a": 1, "a": 1}]}', "'a' occurs twice"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "Infinity"),
        (b'{"a": 1e400}', "does not fit a double"),
        (b'{"a": 18446744073709551616}', "64 bits"),
        (b'{"a": ' + b"9" * 5000 + b"}", "64 bits"),
        (b'{"a": "\\ud800"}', "not valid JSON"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "not valid JSON"),
    ],
)
def test_hostile_bytes_are_corrupt_and_named(data: bytes, words: str) -> None:
    with pytest.raises(Corrupt, match=words) as caught:
        parse(data, "block X: meta.json")
    assert "block X: meta.json" in str(caught.value)
    assert len(str(caught.value)) < 400


def test_whole_surrogate_pairs_and_the_largest_integers_are_read() -> None:
    document = parse(
        b'{"a": "\\ud83d\\ude00", "b": 18446744073709551615, "c": -9223372036854775808}', "x"
    )
    assert document.text("a") == "\U0001f600"
    assert document.integer("b", high=2**64 - 1) == 2**64 - 1
    assert document.time("c") == -(2**63)


@pytest.mark.parametrize(
    ("method", "value"),
    [
        ("text", 1),
        ("text", None),
        ("ulid", "01jd0000000000000000000000"),
        ("ulid", "../../../../../etc/passwd0"),
        ("ulids", [ULID, "x"]),
        ("ulids", ULID),
        ("integer", True),
        ("integer", 1.0),
        ("integer", "1"),
        ("integer", -1),
        ("integer", 2**63),
        ("flag", 1),
        ("texts", ["a", 1]),
        ("pairs", {"a": 1}),
        ("pairs", []),
        ("items", {}),
        ("document", []),
        ("base64", "*"),
        ("base64", "é"),
    ],
)
def test_a_wrong_type_names_object_field_and_expectation(method: str, value: object) -> None:
    document = Document({"inner": {"f": value}}, "block X").document("inner")
    with pytest.raises(Corrupt, match=r"block X: inner\.f is .*, expected "):
        getattr(document, method)("f")


def test_a_list_item_is_named_by_its_position() -> None:
    with pytest.raises(Corrupt, match=r"files\[1\] is 3, expected an object"):
        list(Document({"files": [{}, 3]}, "x").documents("files"))
    second = list(Document({"files": [{}, {"rows": -1}]}, "x").documents("files"))[1]
    with pytest.raises(Corrupt, match=r"files\[1\]\.rows is -1"):
        second.integer("rows")


def test_defaults_stand_for_missing_and_null() -> None:
    document = Document({"a": None}, "x")
    assert document.text("a", "d") == "d"
    assert document.integer("b", 3) == 3
    assert not document.has("a")


def test_what_nobody_took_is_the_rest() -> None:
    document = Document({"a": 1, "b": 2, "c": 3}, "x")
    document.integer("a")
    document.raw("b")
    assert document.rest() == {"c": 3}


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=few(50))
@given(st.dictionaries(TEXT, JSON, max_size=3))
def test_every_json_object_is_read_as_it_is(value: dict[str, object]) -> None:
    assert parse(json.dumps(value).encode(), "x").rest() == value


@given(st.binary(max_size=60))
def test_no_bytes_raise_anything_but_corrupt(data: bytes) -> None:
    try:
        parse(data, "x")
    except Corrupt:
        pass


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":1,"a":2}',
        b'{"a":1e999}',
        b'{"a":NaN}',
        b'{"a":184467440737095516160}',
        b'{"a":"\\ud800"}',
    ],
)
def test_what_the_quick_way_does_not_take_the_slow_one_judges(data: bytes) -> None:
    with pytest.raises(Corrupt):
        parse(data, "x")


@given(
    st.dictionaries(
        st.text(),
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**64 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
    )
)
def test_both_ways_read_the_same(value: dict[str, object]) -> None:
    quick, slow = orjson.dumps(value), json.dumps(value, indent=1).encode()
    assert parse(quick, "x").rest() == parse(slow, "x").rest() == value
