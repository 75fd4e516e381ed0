"""Conditions keep the rows that DuckDB keeps, and say clearly what they cannot do."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Context, Decimal

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from blockstore.errors import Invalid
from blockstore.predicate import Predicate, between, parse, parse_filters, parse_weakened
from blockstore.predicate.prune import Bounds
from tests.blockstore.predicate.conditions import ODD, SCHEMA, conditions, tables
from tests.support.examples import few


@pytest.fixture(scope="module")
def oracle() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def rows_of(table: pa.Table) -> list[str]:
    return [repr(row) for row in table.to_pylist()]


def kept(predicate: Predicate, table: pa.Table) -> list[str]:
    """What the condition keeps, as an expression and by values alike."""
    found = rows_of(table.filter(predicate.expression))
    batch = table.combine_chunks().to_batches()
    assert [row for one in batch for row in rows_of(predicate.filtered(one))] == found
    return found


@settings(max_examples=few(250), deadline=None)
@given(table=tables(), condition=conditions())
def test_a_condition_keeps_the_rows_that_duckdb_keeps(
    oracle: duckdb.DuckDBPyConnection, table: pa.Table, condition: str
) -> None:
    oracle.register("given", table)
    expected = oracle.sql(f"SELECT * FROM given WHERE {condition}").to_arrow_table().cast(SCHEMA)
    assert kept(parse(condition, SCHEMA), table) == rows_of(expected)


@settings(max_examples=few(60), deadline=None)
@given(table=tables(), condition=conditions())
def test_a_weakened_condition_keeps_all_rows_that_the_whole_one_keeps(
    table: pa.Table, condition: str
) -> None:
    whole = parse(condition, SCHEMA)
    for foreign in (f"({condition}) AND i + 1 > 0", f"NOT (i % 2 = 1 OR NOT ({condition}))"):
        weaker = parse_weakened(foreign, SCHEMA)
        assert not weaker.exact
        assert set(kept(whole, table)) <= set(kept(weaker, table))
    assert parse_weakened(condition, SCHEMA) == whole


@given(
    st.text("0123456789", min_size=29, max_size=38), st.sampled_from([1, -1]), st.integers(0, 38)
)
def test_a_number_of_38_digits_is_compared_in_all_of_them(text: str, sign: int, scale: int) -> None:
    digits = sign * int(text)
    number = Decimal(digits).scaleb(-scale, Context(prec=38))
    schema = pa.schema([("w", pa.decimal128(38, scale))])
    near = [one for one in (digits - 1, digits, digits + 1) if abs(one) < 10**38]
    values = [Decimal(one).scaleb(-scale, Context(prec=38)) for one in near]
    table = pa.table({"w": pa.array(values, schema.field("w").type)})
    for written in (
        f"{number:f}",
        f"-({-digits}e-{scale})" if digits < 0 else f"({digits}e-{scale})",
    ):
        assert table.filter(parse(f"w = {written}", schema).expression).to_pylist() == [
            {"w": number}
        ]
    assert parse_filters([("w", "=", number)], schema) == parse(f"w = {number:f}", schema)


def test_pruning_trusts_no_literal_that_engines_round() -> None:
    """DuckDB compares 0.1 (a FLOAT) with 1e-1 as doubles, and finds it greater."""
    assert parse_weakened("g > 1e-1", SCHEMA).everything
    assert parse_weakened(f"g > 0.1{'0' * 38}", SCHEMA).everything
    assert not parse_weakened("g > 0.1", SCHEMA).everything
    assert parse("i = 1e0", SCHEMA) == parse("i = 1", SCHEMA)


def test_a_syntax_tree_with_a_qualifier_is_understood() -> None:
    tree = sqlglot.parse_one(
        "SELECT * FROM flights f WHERE f.i > 1 AND g.x = 3", dialect="duckdb"
    ).find(sqlglot.exp.Where)
    found = parse_weakened(tree.this, SCHEMA, qualifiers=["f", "flights"])
    assert found.columns == ("i",)
    assert found.node == parse("i > 1", SCHEMA).node


@pytest.mark.parametrize(
    ("condition", "same"),
    [
        ("i > 60.5", "i > 60"),
        ("i >= 60.5", "i > 60"),
        ("i < -0.5", "i <= -1"),
        ("u < 300", "u IS NOT NULL"),
        ("u > -1", "u IS NOT NULL"),
        ("d > 1.005", "d > 1.00"),
        ("day < TIMESTAMP '2013-01-01 12:00:00'", "day <= '2013-01-01'"),
        ("z >= '2013-01-01 02:00:00+02:00'", "z >= '2013-01-01'"),
        ("z = '2013-01-01T00:00:00Z'", "z = DATE '2013-01-01'"),
        ("day = '2013-01-01 00:00:00'", "day = DATE '2013-01-01'"),
        ("i = '60'", "i = 60"),
        ("day < TIMESTAMPTZ '2013-01-02 01:00:00+02'", "day < TIMESTAMP '2013-01-01 23:00:00'"),
        ("I = 1", "i = 1"),
        ("NOT (i = 1 OR s LIKE 'a%')", "i <> 1 AND s NOT LIKE 'a%'"),
        ("i IN (1, 1, 0.5)", "i IN (1)"),
    ],
)
def test_literals_mean_the_same_on_the_grid_of_the_column(condition: str, same: str) -> None:
    assert parse(condition, SCHEMA) == parse(same, SCHEMA)


@pytest.mark.parametrize(
    "condition", ["i = 0.5", "u = 256", "i = NULL", "i NOT IN (1, NULL)", "i IN (0.5)"]
)
def test_what_no_value_can_meet_keeps_nothing(condition: str) -> None:
    predicate = parse(condition, SCHEMA)
    assert kept(predicate, pa.Table.from_pylist([{"i": 1, "u": 0}, {}], schema=SCHEMA)) == []


@pytest.mark.parametrize(
    ("condition", "parts"),
    [
        ("nope = 1", ["'nope'", "'i'", "character 1"]),
        ("i = 1 AND nope = 1", ["character 11"]),
        ("i + 1 > 2", ["i + 1", "IN (...)", "character 1"]),
        ("i = u", ["found u where a literal is expected"]),
        ("s = 5", ["column 's' is string", "found 5", "single quotes"]),
        ("i = 'x'", ["column 'i' is int32", "a number"]),
        ("t > 'yesterday'", ["'yesterday'", "'2013-01-31'"]),
        ("t > '2013-02-30'", ["a date that exists"]),
        ("i = '60.5'", ["column 'i' is int32", "a text that is a value of this type"]),
        ("z > '2013-01-01 00:00:00.0001'", ["a text that is a value of this type"]),
        ("t > '2013-01-01 00:00:00+01'", ["without a zone"]),
        ("t > TIMESTAMP '2013-01-01 00:00:00+01'", ["without a zone"]),
        ("day > '2013-01-01 02:00:00'", ["a date without a time of day"]),
        ("t > 5", ["a date or a timestamp in single quotes"]),
        ("s LIKE '%a'", ["not a prefix", "'abc%'"]),
        ("s LIKE 'a_'", ["not a prefix"]),
        ("i IN (SELECT 1)", ["found i IN (SELECT 1)"]),
        ("a.b = 1", ["a.b", 'quote the name: "a.b"']),
        ("lower(s) = 'a'", ["where a column is expected"]),
        ("CAST('3' AS INT) = i", ["DATE '...'"]),
        ("i BETWEEN SYMMETRIC 2 AND 1", ["found (i BETWEEN 2 AND 1"]),
        ("SELECT 1", ["a condition consists of"]),
        ("i = 1; i = 2", ["2 statements"]),
        ("", ["expected"]),
        ("i = = 2", ["line 1", "column"]),
        ("s = 'open", ["cannot read the condition"]),
        ("b > 1", ["TRUE or FALSE"]),
        *(
            (f"raw = '{text}'", ["column 'raw' is binary", r"every other byte as \xNN"])
            for text in ("ü", "a\\b", r"\x6", r"\X61", r"\\", r"\x6g", "a\\")
        ),
        ("raw = x'6'", ["found x'6'", "two hexadecimal digits for each byte"]),
        ("raw = x'6g'", ["cannot read the condition"]),
        ("raw = 5", ["column 'raw' is binary", "a text in single quotes"]),
        ("s = x'61'", ["column 's' is string", "a text in single quotes"]),
        ("key < 'ab'", ["column 'key' is fixed_size_binary[3]", "3 bytes"]),
        ("key BETWEEN 'abc' AND 'abcd'", ["column 'key' is fixed_size_binary[3]", "3 bytes"]),
    ],
)
def test_what_lies_outside_the_subset_is_refused_in_one_sentence(
    condition: str, parts: list[str]
) -> None:
    with pytest.raises(Invalid) as caught:
        parse(condition, SCHEMA)
    for part in parts:
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("condition", "same"),
    [
        ("key = 'ab'", None),
        ("key IN ('ab', 'abcd')", None),
        ("key IN ('ab', 'abc')", "key = 'abc'"),
        ("key <> 'ab'", "key IS NOT NULL"),
        ("key NOT IN ('ab')", "key IS NOT NULL"),
        ("key IS DISTINCT FROM 'ab'", "key IS NOT NULL OR key IS NULL"),
    ],
)
def test_bytes_of_another_width_are_equal_to_none(condition: str, same: str | None) -> None:
    table = pa.table({"key": pa.array([b"abc", b"abd", None], pa.binary(3))})
    found = table.filter(parse(condition, table.schema).expression)
    assert found == (
        table.slice(0, 0) if same is None else table.filter(parse(same, table.schema).expression)
    )


def test_a_chain_of_thousands_is_read_or_refused_but_never_crashes() -> None:
    assert len(parse(" OR ".join(f"i = {n}" for n in range(300)), SCHEMA).columns) == 1
    with pytest.raises(Invalid):
        parse("(" * 5000 + "i = 1" + ")" * 5000, SCHEMA)


def test_an_expression_is_applied_as_it_is_and_names_its_columns() -> None:
    table = pa.Table.from_pylist([{"i": 1, ODD: 5}, {"i": 2, ODD: 6}], schema=SCHEMA)
    predicate = parse((pc.field(ODD) > 5) & (pc.field("i") + 1 == 3), SCHEMA)
    assert set(predicate.columns) == {ODD, "i"}
    assert len(kept(predicate, table)) == 1
    assert predicate.may(lambda _: Bounds(rows=10))
    assert not predicate.must(lambda _: Bounds(rows=10))
    with pytest.raises(Invalid, match="nope"):
        parse(pc.field("nope") > 1, SCHEMA)


def test_nothing_asked_keeps_everything() -> None:
    assert parse(None, SCHEMA).everything
    assert parse("TRUE", SCHEMA).everything
    assert parse(parse("i = 1", SCHEMA), SCHEMA) == parse("i = 1", SCHEMA)
    with pytest.raises(Invalid, match="SQL text"):
        parse(5, SCHEMA)  # type: ignore[arg-type]


def test_filters_with_python_values_mean_the_same_as_sql() -> None:
    noon = datetime.datetime(2013, 1, 1, 12, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    found = parse_filters(
        [
            ("i", ">", 1.5),
            ("d", "=", Decimal("2.25")),
            ("z", "<=", noon),
            ("day", "in", [datetime.date(2013, 1, 1), None]),
            ("s", "starts with", "a"),
            ("b", "is not null", None),
            ("t", "not in", [datetime.datetime(2013, 1, 1)]),
        ],
        SCHEMA,
    )
    assert found == parse(
        "i > 1.5 AND d = 2.25 AND z <= '2013-01-01 10:00:00' AND day IN ('2013-01-01') AND s LIKE "
        "'a%' "
        "AND b IS NOT NULL AND t NOT IN ('2013-01-01')",
        SCHEMA,
    )
    assert parse_filters([("i", "=", None)], SCHEMA) == parse("FALSE", SCHEMA)


@pytest.mark.parametrize(
    ("filter_", "part"),
    [
        (("nope", "=", 1), "'nope'"),
        (("i", "~", 1), "'~'"),
        (("i", "=", "x"), "a number"),
        (("f", "=", float("nan")), "NaN"),
        (("i", "=", object()), "a number, a text"),
    ],
)
def test_a_wrong_filter_is_named(filter_: tuple[str, str, object], part: str) -> None:
    with pytest.raises(Invalid, match=part):
        parse_filters([filter_], SCHEMA)


def test_between_takes_the_start_and_leaves_the_end() -> None:
    found = between("day", SCHEMA, datetime.date(2013, 1, 1), datetime.date(2013, 1, 3))
    assert found == parse("day >= '2013-01-01' AND day < '2013-01-03'", SCHEMA)
    assert between("day", SCHEMA, None, None).everything


def test_two_conditions_are_joined() -> None:
    both = (
        parse("i = 1", SCHEMA)
        .also(parse(pc.field("u") > 1, SCHEMA))
        .also(parse(pc.field("u") > 2, SCHEMA))
    )
    assert both.columns == ("i", "u")
    assert (
        len(kept(both, pa.Table.from_pylist([{"i": 1, "u": 3}, {"i": 1, "u": 2}], schema=SCHEMA)))
        == 1
    )
