"""Values of each type, as a client reads and sends them: text and binary mean the same value."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockstore.errors import Invalid
from blockstore.reader.postgres import types as t
from blockstore.reader.postgres.binary import binary_of, numeric
from blockstore.reader.postgres.rows import CopyForm, as_csv_copy, as_rows, as_text_copy
from blockstore.reader.postgres.text import text_of
from blockstore.reader.postgres.values import array_of, numeric_of, value_of
from blockstore.reader.postgres.wire import Incoming, Malformed, Query, messages
from tests.reader.postgres.raw import bind, frame, parse, query, row_of
from tests.support.examples import few

UTC = dt.UTC
SHOWN: list[tuple[Any, Any, str]] = [
    (pa.bool_(), True, "t"),
    (pa.int8(), -128, "-128"),
    (pa.uint8(), 255, "255"),
    (pa.int16(), -32_768, "-32768"),
    (pa.uint16(), 65_535, "65535"),
    (pa.int32(), -(2**31), "-2147483648"),
    (pa.uint32(), 2**32 - 1, "4294967295"),
    (pa.int64(), -(2**63), "-9223372036854775808"),
    (pa.uint64(), 2**64 - 1, "18446744073709551615"),
    (pa.float32(), 1.5, "1.5"),
    (pa.float64(), 0.1, "0.1"),
    (pa.float64(), float("inf"), "Infinity"),
    (pa.float64(), float("-inf"), "-Infinity"),
    (pa.float64(), float("nan"), "NaN"),
    (pa.decimal128(38, 10), Decimal("-0.0000000001"), "-0.0000000001"),
    (pa.decimal128(10, 2), Decimal("12345678.90"), "12345678.90"),
    (pa.string(), "é\t\\ '", "é\t\\ '"),
    (pa.binary(), b"\x00\xff", "\\x00ff"),
    (pa.binary(2), b"ab", "\\x6162"),
    (pa.date32(), dt.date(2013, 1, 31), "2013-01-31"),
    (pa.date32(), dt.date(1, 1, 1), "0001-01-01"),
    (pa.time32("s"), dt.time(10), "10:00:00"),
    (pa.time64("us"), dt.time(23, 59, 59, 5), "23:59:59.000005"),
    (pa.timestamp("ms"), dt.datetime(1999, 12, 31, 23), "1999-12-31 23:00:00"),
    (pa.timestamp("us"), dt.datetime(1, 1, 1, 0, 0, 0, 7), "0001-01-01 00:00:00.000007"),
    (pa.timestamp("us", "UTC"), dt.datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01 00:00:00+00"),
    (pa.timestamp("s", "CET"), dt.datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01 00:00:00+00"),
    (pa.list_(pa.int32()), [1, None, -3], "{1,NULL,-3}"),
    (pa.list_(pa.string()), ['a "b"', "", "null", "c\\d", "e,f", None, "{"], None),
    (pa.list_(pa.timestamp("us")), [dt.datetime(2026, 1, 1)], '{"2026-01-01 00:00:00"}'),
    (pa.list_(pa.int64()), [], "{}"),
    (pa.list_(pa.int16(), 2), [1, 2], "{1,2}"),
    (pa.dictionary(pa.int32(), pa.string()), "x", "x"),
    (pa.struct([("a", pa.int32())]), {"a": 1}, '{"a":1}'),
    (pa.list_(pa.list_(pa.int32())), [[1], []], "[[1],[]]"),
    (pa.map_(pa.string(), pa.int32()), [("k", 1)], '[["k",1]]'),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "value", "shown"), SHOWN, ids=[f"{place}-{one[0]}" for place, one in enumerate(SHOWN)]
)
def test_a_value_is_the_same_in_text_and_in_binary(
    kind: pa.DataType, value: Any, shown: str | None
) -> None:
    column = pa.array([value, None], kind)
    oid = t.type_of(kind)
    texts, binary = text_of(column).to_pylist(), binary_of(column).to_pylist()
    assert texts[1] is None
    assert binary[1] is None
    if shown is not None:
        assert texts[0] == shown
    by_text = value_of(texts[0].encode(), oid, 0, 1)
    by_binary = value_of(binary[0], oid, 1, 1)
    if oid == t.TIME:
        by_text = dt.time.fromisoformat(str(by_text))
    assert by_binary == by_text or by_binary != by_binary
    plain = not t.is_list(kind) and oid != t.JSON
    if plain and isinstance(value, dt.datetime | Decimal | bytes | str | dt.date):
        assert by_binary == value


def test_dates_that_python_does_not_have_are_written_as_postgres_does() -> None:
    days = pa.array([2**31 - 1, -(2**31 - 1), -719_163, -719_529], pa.int32()).view(pa.date32())
    assert text_of(days).to_pylist() == [
        "infinity",
        "-infinity",
        "0001-12-31 BC",
        "0002-12-31 BC",
    ]
    infinite = [struct.pack("!i", 2**31 - 1), struct.pack("!i", -(2**31))]
    assert binary_of(days).to_pylist()[:2] == infinite
    moments = pa.array([2**63 - 1, -(2**63) + 1], pa.int64()).view(pa.timestamp("us"))
    assert text_of(moments).to_pylist() == ["infinity", "-infinity"]
    assert binary_of(moments).to_pylist() == [
        struct.pack("!q", 2**63 - 1),
        struct.pack("!q", -(2**63)),
    ]


@pytest.mark.parametrize(
    ("months", "days", "seconds", "plain", "iso"),
    [
        (0, 0, 0, "00:00:00", "PT0S"),
        (14, 3, 14_706.5, "1 year 2 mons 3 days 04:05:06.5", "P1Y2M3DT4H5M6.5S"),
        (-14, 1, 0, "-1 years -2 mons +1 day", "P-1Y-2M1D"),
        (0, -1, 60, "-1 days +00:01:00", "P-1DT1M"),
        (1, 0, -3_600.25, "1 mon -01:00:00.25", "P1MT-1H-0.25S"),
        (0, 1, 0.00012, "1 day 00:00:00.00012", "P1DT0.00012S"),
    ],
)
def test_an_interval_is_written_in_both_styles(
    months: int, days: int, seconds: float, plain: str, iso: str
) -> None:
    value = pa.MonthDayNano([months, days, round(seconds * 10**9)])
    column = pa.array([value, None], pa.month_day_nano_interval())
    assert text_of(column).to_pylist() == [plain, None]
    assert text_of(column, iso=True).to_pylist() == [iso, None]
    lists = pa.array([[value]], pa.list_(pa.month_day_nano_interval()))
    assert text_of(lists, iso=True).to_pylist() == [f"{{{iso}}}"]


def test_a_duration_counts_hours() -> None:
    column = pa.array([dt.timedelta(days=2, seconds=1), dt.timedelta(seconds=-1)])
    assert text_of(column).to_pylist() == ["48:00:01", "-00:00:01"]
    assert text_of(column, iso=True).to_pylist() == ["PT48H1S", "PT-1S"]


def test_zeros_at_the_end_of_a_second_are_left_out() -> None:
    moments = [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, 10, 0, 0, 120_000)]
    for zone, end in ((None, ""), ("UTC", "+00")):
        column = pa.array(moments, pa.timestamp("us", zone))
        shown = [f"2024-01-01 00:00:00{end}", f"2024-01-01 10:00:00.12{end}"]
        assert text_of(column).to_pylist() == shown
    times = pa.array([one.time() for one in moments], pa.time64("us"))
    assert text_of(times).to_pylist() == ["00:00:00", "10:00:00.12"]


@pytest.mark.parametrize(
    "end", ["", " +00", " 00:00:00", "T00:00:00Z", " 00:00:00 UTC", " 00:00 +0000", " -05:30", "Z"]
)
def test_a_day_may_have_a_time_and_a_zone(end: str) -> None:
    given = f"2024-02-29{end}"
    day = value_of(given.encode(), t.DATE, 0, 1)
    assert (day, type(day)) == (dt.date(2024, 2, 29), dt.date)
    assert value_of(given.encode(), t.TIMESTAMP, 0, 1) == dt.datetime(2024, 2, 29)
    moment = value_of(given.encode(), t.TIMESTAMPTZ, 0, 1)
    behind = dt.timedelta(hours=5, minutes=30) if "-05:30" in given else dt.timedelta()
    assert moment == dt.datetime(2024, 2, 29, tzinfo=UTC) + behind


def test_what_is_no_day_is_refused() -> None:
    for wrong in ("2024-02-30", "2024-02-29 x", "2024-02-29 25:00:00"):
        with pytest.raises(Invalid):
            value_of(wrong.encode(), t.DATE, 0, 1)


def test_nanoseconds_are_cut_to_microseconds_in_both_forms() -> None:
    column = pa.array([1_999], pa.int64()).view(pa.timestamp("ns"))
    assert text_of(column).to_pylist() == ["1970-01-01 00:00:00.000001"]
    found = value_of(binary_of(column)[0].as_py(), t.TIMESTAMP, 1, 1)
    assert found == dt.datetime(1970, 1, 1, 0, 0, 0, 1)


@given(
    st.decimals(
        allow_nan=False, allow_infinity=False, places=9, min_value=-(10**18), max_value=10**18
    )
)
@settings(max_examples=few(200), deadline=None)
def test_a_numeric_keeps_every_digit(value: Decimal) -> None:
    assert numeric_of(numeric(value, 9)) == value


def test_a_numeric_keeps_all_of_38_digits() -> None:
    for text in ("1" * 29 + "." + "9" * 9, "0." + "0" * 28 + "123456789", "-" + "9" * 38, "1E4"):
        value = Decimal(text)
        assert numeric_of(numeric(value, 9)) == value


@given(
    st.lists(
        st.none() | st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"))
    )
)
@settings(max_examples=few(100), deadline=None)
def test_an_array_of_texts_is_read_back(values: list[str | None]) -> None:
    (text,) = text_of(pa.array([values], pa.list_(pa.string()))).to_pylist()
    assert array_of(text) == values


def test_a_uuid_is_one_text_however_a_driver_writes_it() -> None:
    own = "00000000-0000-0000-0000-0000000000ab"
    plain = own.replace("-", "")
    found = value_of(plain.encode(), 2950, 0, 1), value_of(bytes.fromhex(plain), 2950, 1, 1)
    assert found == (own, own)
    assert value_of(f"{{{plain},NULL,{own}}}".encode(), 2951, 0, 1) == [own, None, own]


def test_a_column_of_a_slice_is_written_as_the_column() -> None:
    table = pa.table({"a": [1, None, 3], "l": [[1], None, [2, 3]], "s": ["x", "y", None]})
    batch = table.to_batches()[0]
    for formats in ([0, 0, 0], [1, 1, 1]):
        form = as_rows(formats, [t.type_of(one.type) for one in batch.schema])
        part = batch.slice(1)
        assert form(part) == form(pa.RecordBatch.from_pylist(part.to_pylist(), batch.schema))


def test_rows_without_columns_are_still_rows() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1, 2])], names=["a"]).select([])
    assert len(list(messages(as_rows([], [])(batch)))) == batch.num_rows


CSV = CopyForm(form="csv", delimiter=",", null="")


def test_lines_of_a_copy_hide_what_could_be_misread() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"s": ["a\tb\n", "\\.", "", None, 'q"'], "n": [1, 2, 3, 4, 5]}
    )
    text = b"".join(body for _, body in messages(as_text_copy("\t", "\\N")(batch)))
    assert text == b'a\\tb\\n\t1\n\\\\.\t2\n\t3\n\\N\t4\nq"\t5\n'
    csv = b"".join(body for _, body in messages(as_csv_copy(CSV)(batch)))
    assert csv == b'"a\tb\n",1\n"\\.",2\n"",3\n,4\n"q""",5\n'


@pytest.mark.parametrize(
    ("data", "oid", "form"),
    [(b"x", t.INT4, 0), (b"\0", t.INT4, 1), (b"maybe", t.BOOL, 0), (b"ab", t.BYTEA, 0),
     (b"\xff", t.TEXT, 0), (b"2026-13-01", t.DATE, 0), (b"", t.NUMERIC, 0), (b"{1", 1007, 0),
     (b"\0\0\0\2" + b"\0" * 16, 1007, 1), (b"1", t.INT4, 7)],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_refused_in_one_sentence(
    data: bytes, oid: int, form: int
) -> None:
    with pytest.raises(Invalid, match="parameter"):
        value_of(data, oid, form, 1)


def test_messages_come_in_any_parts() -> None:
    whole = query("SELECT 1") + parse("SELECT $1") + bind((b"x", None)) + frame(b"S")
    for size in (1, 2, 7, len(whole)):
        incoming = Incoming(1 << 20)
        incoming.started = incoming.known = True
        found = []
        for at in range(0, len(whole), size):
            incoming.feed(whole[at : at + size])
            while (one := incoming.take()) is not None:
                found.append(one)
        assert found[0] == Query("SELECT 1")
        assert len(found) == 4
        assert incoming.rest == 0


def test_a_length_is_checked_before_the_message_has_come() -> None:
    incoming = Incoming(100)
    incoming.started = incoming.known = True
    incoming.feed(b"Q" + struct.pack("!i", 101))
    with pytest.raises(Malformed, match="expected 4 to 100"):
        incoming.take()


def test_a_row_of_text_is_what_a_client_reads() -> None:
    batch = pa.RecordBatch.from_pydict({"a": [1, None], "b": ["x", ""]})
    found = [row_of(body) for _, body in messages(as_rows([0, 0], [20, 25])(batch))]
    assert found == [["1", "x"], [None, ""]]
