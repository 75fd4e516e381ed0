"""``to_char``, ``to_date`` and ``to_timestamp`` mean what PostgreSQL means, or are refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlglot import parse_one

from blockstore.reader.postgres import variables
from blockstore.reader.postgres.rewriting import rewritten
from tests.reader.postgres.raw import Doors, Raw, both, settings_of

MOMENT = "timestamp '2024-03-05 14:05:06.789'"
FORMATS = {
    "Q": "1", "D": "3", "ID": "2", "Day": "Tuesday  ", "DAY": "TUESDAY  ", "day": "tuesday  ",
    "Dy": "Tue", "DY": "TUE", "dy": "tue", "Month": "March    ", "MONTH": "MARCH    ",
    "FMMonth": "March", "TMMonth": "March", "FMDay": "Tuesday", "Mon": "Mar", "MON": "MAR",
    "mon": "mar", "HH12:MI AM": "02:05 PM", "HH:MI:SS": "02:05:06",
    "HH24:MI:SS.MS": "14:05:06.789", "US": "789000", "MS": "789", "FF1": "7", "FF4": "7890",
    "YY": "24", "Y": "4", "YYY": "024", "IYYY-IW": "2024-10", "WW": "10", "W": "1", "DDD": "065",
    "IDDD": "065", "J": "2460375", "CC": "21", "FMDD": "5", "FMMM": "3", "FMHH24": "14",
    "FMHH12": "2", "FMMI": "5", 'YYYY"T"MM': "2024T03", '"Week" IW': "Week 10", "Y,YYY": "2,024",
    "SSSS": "50706", "SSSSS": "50706", "am": "pm", "P.M.": "P.M.", "a.m.": "p.m.", "RM": "III ",
    "FMrm": "iii", "DDth": "05th", "FMDDTH": "5TH", "FMQth": "1st",
    'YYYY-MM-DD"T"HH24:MI:SS': "2024-03-05T14:05:06", 'YYYY-"Q"Q': "2024-Q1",
    "DD/MM/YYYY": "05/03/2024", "YYYYMMDD": "20240305", "HH24hMI": "14h05",
    "yyyy-mm-dd": "2024-03-05", "Mon DD, YYYY": "Mar 05, 2024",
    "YYYY-MM-DD HH24:MI:SS TZ": "2024-03-05 14:05:06 ", "OF": "+00", "": "",
    "100% {YYYY} ''é''": "100% {2024} 'é'", '"a\\"b" \\"': 'a"b "',
}  # fmt: skip


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    with both(settings_of(tmp_path_factory.mktemp("formats"))) as made:
        yield made


@pytest.fixture
def one(own: Doors) -> Iterator[Raw]:
    with own.client() as made:
        yield made


def test_every_pattern_is_that_of_postgresql(one: Raw) -> None:
    names = list(FORMATS)
    calls = ", ".join(f"to_char({MOMENT}, '{form}') AS c{at}" for at, form in enumerate(names))
    (found,) = one.rows(f"SELECT {calls}")
    assert dict(zip(names, found, strict=True)) == FORMATS


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("to_char(timestamp '2024-12-31 00:30', 'HH12 HH AM IYYY IW ID WW W')",
         "12 12 AM 2025 01 2 53 5"),
        ("to_char(timestamp '2023-01-01 12:00', 'D Dy HH12 pm IYYY IW')", "1 Sun 12 pm 2022 52"),
        ("to_char(date '2024-03-11', 'FMDDth'), to_char(date '2024-03-22', 'DDTH')", "11th"),
        ("to_char(date '0987-03-05', 'YYYY FMYYYY CC')", "0987 987 10"),
        ("to_char(date '2000-12-31', 'CC DDD')", "20 366"),
        ("to_char(timestamptz '2024-03-05 14:05+02', 'HH24:MI TZ tz OF')", "12:05 UTC utc +00"),
        ("to_char(NULL::timestamp, 'Month')", None),
        ("to_char(NULL::timestamp, '')", None),
        ("to_char(CAST('2024-03-05' AS DATE), 'YYYY'::text)", "2024"),
        ("pg_catalog.to_char(date '2024-03-05', 'Mon')", "Mar"),
        ("to_char(to_date('05 Mar 2024', 'DD Mon YYYY'), 'FMDay Q')", "Tuesday 1"),
        ("to_date('05 Mar 2024', 'DD Mon YYYY')", "2024-03-05"),
        ("to_date('5 March 2024', 'DD Month YYYY')", "2024-03-05"),
        ("to_date('20240305', 'YYYYMMDD')", "2024-03-05"),
        ("to_date('05/03/24', 'DD/MM/YY')", "2024-03-05"),
        ("to_date('05/03/69', 'DD/MM/YY')", "2069-03-05"),
        ("to_date('05/03/70', 'DD/MM/YY')", "1970-03-05"),
        ("to_timestamp('2024-03-05 02:05 PM', 'YYYY-MM-DD HH12:MI AM')", "2024-03-05 14:05:00+00"),
        ("to_timestamp('2024-03-05T14:05:06.7', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS')",
         "2024-03-05 14:05:06.7+00"),
        ("to_timestamp(0)", "1970-01-01 00:00:00+00"),
        ("to_timestamp(0), version()", "1970-01-01 00:00:00+00"),
        ("'abc' SIMILAR TO '%b%', version()", "t"),
        ("'abc' NOT SIMILAR TO '(a|x)b_', version()", "f"),
        ("'a.c' SIMILAR TO 'a.c' AND NOT 'abc' SIMILAR TO 'a.c', version()", "t"),
        ("'a%' SIMILAR TO 'a\\%' AND 'a_' SIMILAR TO 'a[%_]', version()", "t"),
    ],
)  # fmt: skip
def test_a_call_is_that_of_postgresql(one: Raw, sql: str, found: str | None) -> None:
    assert one.rows(f"SELECT {sql}")[0][0] == found


def test_a_format_groups_and_orders(one: Raw) -> None:
    sql = (
        "SELECT to_char(t, 'Mon FMDay'), count(*) FROM (VALUES (date '2024-03-05'), "
        "(date '2024-03-12'), (date '2024-04-01')) v(t) GROUP BY to_char(t, 'Mon FMDay') "
        "ORDER BY to_char(t, 'Mon FMDay')"
    )
    assert one.rows(sql) == [["Apr Monday", "1"], ["Mar Tuesday", "2"]]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("to_char(now(), 'YYYY AD')", "'AD'"),
        ("to_char(now(), 'FMDDSP')", "'SP'"),
        ("to_char(now(), 'FX YYYY')", "'FX'"),
        ("to_char(now(), 'Monthth')", "'Monthth'"),
        ("to_char(now(), 'TMYYYY')", "'TMYYYY'"),
        ("to_char(1234.5, 'FM9999.00')", "of numbers"),
        ("to_char(1234, '9,999')", "of numbers"),
        ("to_char(1234, 'L9G999D99')", "of numbers"),
        ("to_char(now(), 'FM')", "'FM'"),
        ("to_char(now(), x) FROM (SELECT 'YYYY' AS x)", "must be a text in the statement"),
        ("to_char(now())", "a value and a format"),
        ("to_date('2024 1', 'YYYY Q')", "'Q'"),
        ("to_date('2024 10', 'IYYY IW')", "'IYYY'"),
        ("to_timestamp('5th', 'DDth')", "'DDth'"),
        ("'a' SIMILAR TO 'b' ESCAPE '#', version()", "without ESCAPE"),
        ("'a' SIMILAR TO version()", "a text in the statement"),
    ],
)
def test_what_is_not_here_is_refused_by_its_name(one: Raw, sql: str, said: str) -> None:
    found = one.fails(f"SELECT {sql}")
    assert (found["C"], said in found["M"]) == ("0A000", True), found


def test_calls_in_calls_do_not_grow_without_a_limit(one: Raw) -> None:
    sql = "now()"
    for _ in range(12):
        sql = f"to_date(to_char({sql}, 'Month Day RM am'), 'DD/MM/YY')"
    assert "nested too deeply" in one.fails(f"SELECT {sql}")["M"]


def test_an_unclosed_bracket_takes_no_time_that_grows_with_its_square() -> None:
    pattern = "[" * 200_000
    tree = parse_one(f"'a' SIMILAR TO '{pattern}'", dialect="postgres")
    assert pattern in rewritten(tree).sql()


def test_options_of_many_signs_take_no_time_that_grows_with_their_square() -> None:
    assert list(variables.assignments({"options": "-" * 100_000})) == []
    given = {"options": r"-c a.b=1 --c-d=x\ y -ce=2"}
    assert list(variables.assignments(given)) == [("a.b", "1"), ("c_d", "x y"), ("e", "2")]
