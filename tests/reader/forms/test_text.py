"""A date, a moment or a time of day has one text in every form of an answer, and DuckDB reads it
back as the same value."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockstore.errors import Invalid
from blockstore.reader.forms.deliver import deliver
from blockstore.reader.forms.encode import Form, pieces
from blockstore.reader.forms.text import readable
from tests.support.examples import few


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


DAYS, INTEGERS = 2**31 - 1, 2**63 - 1
FIRST_DAY = -2_147_483_646
FIRST_US = -9_223_372_022_400_000_000
TYPES = {
    "DATE": (pa.date32(), FIRST_DAY, DAYS - 1, DAYS),
    "TIMESTAMP": (pa.timestamp("us"), FIRST_US, INTEGERS - 1, INTEGERS),
    "TIMESTAMPTZ": (pa.timestamp("us", "UTC"), FIRST_US, INTEGERS - 1, INTEGERS),
    "TIMESTAMP_S": (pa.timestamp("s"), FIRST_US // 10**6, INTEGERS // 10**6, INTEGERS),
    "TIMESTAMP_MS": (pa.timestamp("ms"), FIRST_US // 1000, INTEGERS // 1000, INTEGERS),
    "TIMESTAMP_NS": (pa.timestamp("ns"), FIRST_US, INTEGERS - 1, INTEGERS),
    "TIME": (pa.time64("us"), 0, 86_400_000_000, None),
}


def counts(kind: str) -> st.SearchStrategy[int | None]:
    _, least, greatest, infinite = TYPES[kind]
    near = st.integers(-3, 3).flatmap(
        lambda by: st.sampled_from([least, 0, greatest]).map(
            lambda edge: min(max(edge + by, least), greatest)
        )
    )
    infinity = st.sampled_from([None] if infinite is None else [infinite, -infinite])
    return st.one_of(st.none(), st.integers(least, greatest), near, infinity)


def column_of(kind: str, values: list[int | None]) -> pa.Array:
    type_ = TYPES[kind][0]
    return pa.array(values, pa.int64() if type_.bit_width == 64 else pa.int32()).view(type_)


@pytest.mark.parametrize("kind", sorted(TYPES))
@settings(max_examples=few(60), deadline=None)
@given(data=st.data())
def test_duckdb_reads_every_text_back(
    duck: duckdb.DuckDBPyConnection, kind: str, data: st.DataObject
) -> None:
    column = column_of(kind, data.draw(st.lists(counts(kind), min_size=1, max_size=5)))
    given_ = pa.table({"value": column, "reported": readable(column)})
    duck.register("given", given_)
    same = duck.sql(
        f"SELECT bool_and(value IS NOT DISTINCT FROM reported::{kind}) FROM given"
    ).fetchall()
    assert same == [(True,)]


CASES: list[tuple[str, list[int | None], list[str | None]]] = [
    (
        "DATE",
        [0, None, 2_932_896, 2_932_897, 3_790_000, -719_162, -719_163, -719_529, DAYS, -DAYS],
        [
            *(
                "1970-01-01",
                None,
                "9999-12-31",
                "10000-01-01",
                "12346-09-02",
                "0001-01-01",
                "0000-12-31",
            ),
            *("-0001-12-31", "infinity", "-infinity"),
        ],
    ),
    (
        "TIMESTAMP",
        [1_500_000, 253_402_300_800_000_001, -62_135_596_800_000_001, INTEGERS, -INTEGERS, None],
        [
            *(
                "1970-01-01T00:00:01.500000",
                "10000-01-01T00:00:00.000001",
                "0000-12-31T23:59:59.999999",
            ),
            *("infinity", "-infinity", None),
        ],
    ),
    (
        "TIMESTAMPTZ",
        [0, 253_402_300_800_000_000, FIRST_US, INTEGERS, None],
        [
            "1970-01-01T00:00:00Z",
            "10000-01-01T00:00:00Z",
            "-290308-12-22T00:00:00Z",
            "infinity",
            None,
        ],
    ),
    ("TIMESTAMP_NS", [1, INTEGERS, None], ["1970-01-01T00:00:00.000000001", "infinity", None]),
    ("TIME", [86_400_000_000, 500_000, 0, None], ["24:00:00", "00:00:00.500000", "00:00:00", None]),
]


@pytest.mark.parametrize(("kind", "values", "reported"), CASES, ids=[case[0] for case in CASES])
def test_a_value_has_its_text_in_every_form_also_nested(
    kind: str, values: list[int | None], reported: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    plain = column_of(kind, values)
    places = pa.array(range(len(plain) + 1), pa.int32())
    lists = pa.ListArray.from_arrays(places, plain)
    table = pa.table(
        {
            "n": range(len(plain)),
            "plain": plain,
            "list": lists,
            "struct": pa.StructArray.from_arrays([plain, lists], ["one", "many"]),
            "map": pa.MapArray.from_arrays(places, pa.array(["key"] * len(plain)), plain),
        }
    )
    expected = [
        {
            "n": place,
            "plain": one,
            "list": [one],
            "struct": {"one": one, "many": [one]},
            "map": [["key", one]],
        }
        for place, one in enumerate(reported)
    ]
    assert json.loads(written("json", table)) == expected
    for form, delimiter in (("csv", ","), ("tsv", "\t")):
        head, *rows = csv.reader(io.StringIO(written(form, table)), delimiter=delimiter)
        assert head == table.column_names
        assert [[row[1] or None, *map(json.loads, row[2:])] for row in rows] == [
            [one["plain"], one["list"], one["struct"], one["map"]] for one in expected
        ]
    deliver(table.to_reader(), "table", None)
    shown = capsys.readouterr().out
    assert all(one in shown for one in reported if one is not None)


def written(form: str, table: pa.Table) -> str:
    return b"".join(pieces(Form(form), table.schema, table.to_batches())).decode()


def test_an_interval_is_reported_within_a_nested_value() -> None:
    column = pa.array([[pa.MonthDayNano([1, 2, 3_500_000_000]), None], None])
    assert json.loads(written("json", pa.table({"c": column}))) == [
        {"c": ["P1M2DT3.5S", None]},
        {"c": None},
    ]


@pytest.mark.parametrize("form", ["json", "csv", "table"])
def test_what_python_has_no_date_for_within_a_union_is_reported_in_one_sentence(form: str) -> None:
    values = [column_of("DATE", [DAYS]), pa.array([1])]
    table = pa.table(
        {"c": pa.UnionArray.from_sparse(pa.array([0], pa.int8()), values, ["day", "n"])}
    )
    with pytest.raises(
        Invalid, match=rf"cannot be written as {form} .*: use arrow, or cast the columns"
    ):
        deliver(table.to_reader(), form, None)
