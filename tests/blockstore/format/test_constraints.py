"""The rules of columns: each refuses what breaks it, says so with row, column, value and rule, and
is refused itself where it makes no sense."""

from __future__ import annotations

import datetime
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import blockstore as bs
from blockstore.errors import Invalid
from blockstore.format import constraints
from blockstore.format.casting import cast_batch
from blockstore.format.constraints import BrokenRule
from blockstore.format.definition import Definition
from blockstore.format.evolution import evolve
from blockstore.format.identity import DELETED, RowIds

URL = "https://example.org/data"
HANDLE = {
    "id": "f1",
    "name": "scan.tif",
    "content_type": None,
    "bytes": 0,
    "sha256": "0" * 64,
}


def cast(*columns: pa.Field, first_row: int = 0, **values: list[object]) -> pa.RecordBatch:
    definition = Definition.create(pa.schema(columns))
    schema = definition.schema
    arrays = [pa.array(values[name], schema.field(name).type) for name in values]
    return cast_batch(
        pa.RecordBatch.from_arrays(arrays, names=list(values)), definition, first_row=first_row
    )


AGE = bs.column("age", "integer", check="age >= 0 AND age < 150")

BROKEN = [
    pytest.param(
        bs.column("c", "string", max_length=3),
        "abcd",
        r"has 4 characters, 'abcd', .*"
        r"expected at most 3 characters \(its max_length\)",
        id="max_length",
    ),
    pytest.param(
        bs.column("c", "string", max_length=1),
        "\U0001f600e",
        "has 2 characters",
        id="characters beyond 16 bits are one each",
    ),
    pytest.param(
        bs.entity("c", pattern=r"syn\d+"),
        "syn1x",
        r"is 'syn1x' .*expected a text that "
        r"'syn\\\\d\+' matches completely \(its pattern\)",
        id="entity",
    ),
    pytest.param(bs.entity("c", pattern="a|b"), "ab", "is 'ab'", id="alternatives match wholly"),
    pytest.param(bs.entity("c", pattern="a"), "a\n", "is 'a", id="a line break at the end counts"),
    pytest.param(bs.link("c"), "example.org/data", "expected an absolute URL", id="relative link"),
    pytest.param(bs.link("c"), "https://a b", "expected an absolute URL", id="a link with a space"),
    pytest.param(bs.file("c"), HANDLE | {"sha256": "x"}, "expected a file's id", id="file digest"),
    pytest.param(bs.file("c"), HANDLE | {"bytes": -1}, "expected a file's id", id="file size"),
    pytest.param(bs.file("c"), HANDLE | {"id": None}, "expected a file's id", id="file without id"),
    pytest.param(
        bs.column("c", "integer", check="c < 150"),
        212,
        r"is 212 .*expected c < 150 "
        r"\(its check\)",
        id="check",
    ),
    pytest.param(bs.column("c", "double", check="c < 150"), float("nan"), "is NaN", id="NaN"),
    pytest.param(bs.column("c", "string", check="c LIKE 'a%'"), "b", "is 'b'", id="prefix"),
    pytest.param(bs.column("c", "boolean", check="c"), False, "is false", id="boolean"),
    pytest.param(bs.column("c", "integer", not_null=True), None, "is null in row 7", id="null"),
]

FITTING = [
    pytest.param(bs.column("c", "string", max_length=3), "äöü", id="three characters of two bytes"),
    pytest.param(bs.column("c", "string", max_length=1), "\U0001f600", id="one character"),
    pytest.param(bs.entity("c", pattern=r"syn\d+"), "syn123", id="entity"),
    pytest.param(bs.link("c"), URL, id="link"),
    pytest.param(bs.link("c"), "s3://bucket/ключ", id="a link of any scheme"),
    pytest.param(bs.file("c"), HANDLE, id="file"),
    pytest.param(bs.column("c", "integer", check="c < 150"), 149, id="check"),
    pytest.param(bs.column("c", "integer", check="NOT (c >= 150)"), 149, id="a check with NOT"),
]


@pytest.mark.parametrize(("column", "value", "words"), BROKEN)
def test_a_value_that_breaks_a_rule_is_refused_with_its_row(
    column: pa.Field, value: object, words: str
) -> None:
    fine = 1 if value is None else None
    with pytest.raises(Invalid, match=words) as refused:
        cast(column, first_row=5, c=[fine, fine, value, value])
    assert refused.value.row == 7
    assert "column 'c'" in str(refused.value)
    assert "row 7 (counted from 0)" in str(refused.value)


@pytest.mark.parametrize(("column", "value"), FITTING)
def test_a_value_that_meets_the_rule_and_a_null_pass(column: pa.Field, value: object) -> None:
    assert cast(column, c=[value, None]).column("c").to_pylist() == [value, None]


def test_the_error_has_its_parts_for_programs() -> None:
    with pytest.raises(BrokenRule) as refused:
        cast(AGE, age=[3, -1])
    error = refused.value
    assert (error.row, error.column, error.value) == (1, "age", "-1")
    assert error.rule == "age >= 0 AND age < 150 (its check)"
    assert str(error) == (
        "column 'age' is -1 in row 1 (counted from 0), expected age >= 0 AND age < 150 (its "
        "check): correct the value, or change the rule with alter"
    )


def test_the_first_row_is_named_whichever_rule_it_breaks() -> None:
    with pytest.raises(BrokenRule, match=r"column 'b' .* row 1 "):
        cast(
            bs.column("a", "integer", check="a > 0"),
            bs.column("b", "string", max_length=1),
            a=[1, 1, 0],
            b=["x", "xx", "xx"],
        )


def test_a_check_over_several_columns_shows_them_all_and_passes_where_it_is_unknown() -> None:
    columns = (
        bs.column("kind", "string", check="kind <> 'dog' OR legs = 4"),
        bs.column("legs", "integer"),
    )
    assert cast(*columns, kind=["dog", "dog", "bird"], legs=[4, None, 2]).num_rows == 3
    with pytest.raises(BrokenRule, match=r"column 'kind' is 'dog' \(legs = 3\) in row 0"):
        cast(*columns, kind=["dog"], legs=[3])


def test_rows_of_stored_blocks_are_not_checked_again() -> None:
    definition = Definition.create(pa.schema([AGE, bs.column("n", "integer", not_null=True)]))
    rows = pa.record_batch({"age": [999], "n": pa.array([None], pa.int64())})
    source = pa.array(["x"]).dictionary_encode()
    stored = cast_batch(rows.append_column("_source", source), definition, extra=("_source",))
    assert stored.column("age").to_pylist() == [999]


def test_a_tombstone_needs_to_meet_nothing() -> None:
    definition = Definition.create(pa.schema([AGE]), row_ids=True)
    assert isinstance(definition.identity, RowIds)
    rows = pa.record_batch({"age": [999], "_row_id": [1], "_deleted": [True]})
    assert cast_batch(rows, definition, extra=("_row_id", DELETED)).num_rows == 1


DEFAULTS = [
    ("integer", 7, 7),
    ("double", 1.5, 1.5),
    ("double", 2, 2.0),
    ("boolean", False, False),
    ("string", "7", "7"),
    ("string", "", ""),
    ("date", datetime.date(2024, 1, 2), datetime.date(2024, 1, 2)),
    (
        "timestamp",
        datetime.datetime(2024, 1, 2, 3, tzinfo=datetime.UTC),
        datetime.datetime(2024, 1, 2, 3, tzinfo=datetime.UTC),
    ),
    ("link", URL, URL),
    (pa.decimal128(5, 2), Decimal("1.5"), Decimal("1.50")),
    (pa.time64("us"), datetime.time(1, 2, 3), datetime.time(1, 2, 3)),
    (pa.timestamp("ns"), "2024-01-02", datetime.datetime(2024, 1, 2)),
]


@pytest.mark.parametrize(("kind", "given", "expected"), DEFAULTS)
def test_a_default_fills_a_missing_column_and_no_null(
    kind: str | pa.DataType, given: object, expected: object
) -> None:
    columns = (bs.column("c", kind, default=given), bs.column("n", "integer"))
    assert cast(*columns, n=[1, 2]).column("c").to_pylist() == [expected] * 2
    assert cast(*columns, c=[None, None], n=[1, 2]).column("c").to_pylist() == [None, None]
    assert cast(*columns, n=[]).num_rows == 0


def test_a_column_without_a_default_stays_required_and_case_counts() -> None:
    columns = (bs.column("age", "integer", default=1), bs.column("n", "integer"))
    with pytest.raises(Invalid, match="lacks column 'n'"):
        cast(*columns, age=[1])
    definition = Definition.create(pa.schema(columns))
    with pytest.raises(Invalid, match="write 'Age' as 'age'"):
        cast_batch(pa.record_batch({"Age": [1], "n": [1]}), definition)


SENSELESS = [
    (bs.column("c", "integer", max_length=3), "max_length and has the type int64, expected string"),
    (bs.column("c", "string", max_length=0), "max_length '0', expected a number .* from 1"),
    (bs.entity("c", pattern="(("), "which is not a regular expression"),
    (bs.column("c", "string", pattern="a"), "a pattern and is not an entity"),
    (bs.column("c", "entity"), "an entity without a pattern"),
    (pa.field("c", pa.int64(), metadata={"blockstore.type": "link"}), "is a link and has the type"),
    (pa.field("c", pa.string(), metadata={"blockstore.type": "file"}), "is a file of type string"),
    (pa.field("c", pa.string(), metadata={"blockstore.max_length": "x"}), "max_length 'x'"),
    (bs.column("c", "integer", check="d > 1"), "there is no column 'd'"),
    (bs.column("c", "integer", check="c >"), "cannot read the condition"),
    (bs.column("c", "integer", check="c + 1 > 2"), "a check that cannot be used"),
    (bs.column("c", "integer", check="_source = 'x'"), "there is no column '_source'"),
    (bs.column("c", "integer", check="TRUE"), "expected a condition on at least one column"),
    (bs.column("c", "integer", check="c > 5", default=3), "breaks its own rule, expected c > 5"),
    (bs.column("c", "string", max_length=2, default="abc"), "breaks its own rule"),
    (bs.entity("c", pattern="a", default="b"), "breaks its own rule"),
    (bs.column("c", "integer", default="x"), 'the default "x", expected a value of type int64'),
    (bs.column("c", "integer", default=1.5), "the default 1.5"),
    (bs.column("c", "integer", default=True), "the default true"),
    (bs.column("c", "string", default=1), "the default 1"),
    (bs.column("c", pa.int8(), default=300), "the default 300"),
    (bs.column("c", "date", default="soon"), "the default"),
    (bs.column("c", "timestamp", default="2024-01-01"), "the default"),
    (bs.column("c", pa.list_(pa.int64()), default="[]"), "the default"),
    (pa.field("c", pa.int64(), metadata={"blockstore.default": "{"}), "the default {"),
]


@pytest.mark.parametrize(("column", "words"), SENSELESS)
def test_a_rule_that_makes_no_sense_is_refused_when_the_table_is_made_and_altered(
    column: pa.Field, words: str
) -> None:
    with pytest.raises(Invalid, match=words) as refused:
        Definition.create(pa.schema([column]))
    assert "column 'c'" in str(refused.value)
    table = Definition.create(pa.schema([("a", pa.int64())]))
    with pytest.raises(Invalid, match=words):
        evolve(table, add=[column])


def test_a_table_whose_columns_have_rules_requires_the_feature_and_others_do_not() -> None:
    plain = pa.schema([bs.column("a", "integer", not_null=True, description="x")])
    assert Definition.create(plain).requires == ()
    assert Definition.create(pa.schema([AGE])).requires == ("columns/0.2",)


def test_metadata_of_a_table_without_the_feature_is_the_users_own() -> None:
    older = replace(Definition.create(pa.schema([AGE])), requires=())
    assert cast_batch(pa.record_batch({"age": [999]}), older).num_rows == 1


@given(st.lists(st.one_of(st.none(), st.integers(-3, 3)), max_size=20))
def test_a_check_refuses_the_first_row_for_which_it_is_false(values: list[int | None]) -> None:
    column = bs.column("c", "integer", check="c > 0 OR c IN (-2)")
    bad = [row for row, one in enumerate(values) if one is not None and not (one > 0 or one == -2)]
    if not bad:
        assert cast(column, c=list(values)).num_rows == len(values)
        return
    with pytest.raises(BrokenRule) as refused:
        cast(column, c=list(values))
    assert refused.value.row == bad[0]


@given(st.text(max_size=6), st.integers(1, 5))
def test_a_length_is_a_number_of_characters(text: str, limit: int) -> None:
    column = bs.column("c", "string", max_length=limit)
    try:
        text.encode()
    except UnicodeEncodeError:
        return
    if len(text) <= limit:
        assert cast(column, c=[text]).num_rows == 1
    else:
        with pytest.raises(BrokenRule, match=f"has {len(text)} characters"):
            cast(column, c=[text])


def test_a_new_default_has_a_longest_text_and_one_that_is_there_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    create = Definition.create
    create(pa.schema([bs.column("c", "string", default="x" * 4_000)]))
    more = bs.column("n", "integer")
    long = pa.schema([bs.column("c", "string", default="x" * 5_000), more])
    with pytest.raises(Invalid, match="has a default of 5,002 characters as JSON, expected"):
        create(long)
    monkeypatch.setattr(constraints, "_LONGEST_DEFAULT", 10_000)
    older = create(long)
    monkeypatch.undo()
    again = evolve(older, columns={"n": {"default": 5}}, rename={"c": "d"})
    assert again.schema.names == ["d", "n"]
    with pytest.raises(Invalid, match="has a default of 6,002"):
        evolve(older, columns={"c": {"default": "y" * 6_000}})
