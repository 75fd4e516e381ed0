"""CSV and TSV: what is a row, what is null, how long a row may be, and which value is blamed."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from blockstore.cli.files import delimited
from blockstore.cli.files.bad_lines import BadRow
from blockstore.errors import Invalid

MIB = 1 << 20
PLAIN = [
    (pa.int8(), "-5"),
    (pa.uint64(), "18446744073709551615"),
    (pa.float32(), "1.5"),
    (pa.float64(), "-inf"),
    (pa.decimal128(5, 2), "-999.99"),
    (pa.bool_(), "true"),
    (pa.string(), "a"),
    (pa.binary(), "YQ=="),
    (pa.binary(2), "YWI="),
    (pa.date32(), "2013-01-31"),
    *((pa.timestamp(unit), "2013-01-31 05:00:00") for unit in ("s", "ms", "us", "ns")),
    *((pa.timestamp(unit, "UTC"), "2013-01-31 05:00:00Z") for unit in ("s", "ms", "us", "ns")),
    *((pa.time32(unit), "05:00:01") for unit in ("s", "ms")),
    *((pa.time64(unit), "05:00:01") for unit in ("us", "ns")),
    (pa.duration("ms"), "-5"),
]
IDS = [str(kind) for kind, _ in PLAIN]


def rows(
    path: Path, text: str | bytes, *kinds: pa.DataType, nulls: tuple[str, ...] = ()
) -> list[Any]:
    """The last column of a file whose columns are ``a``, ``b``, …"""
    path = path / "x.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    schema = pa.schema([pa.field(name, kind) for name, kind in zip("abc", kinds, strict=False)])
    found = delimited.read(
        str(path), "x.csv", schema, delimiter=",", nulls=nulls, advance=lambda size: None
    )
    return [value for batch in found for value in batch.column(-1).to_pylist()]


@pytest.mark.parametrize(("kind", "text"), PLAIN, ids=IDS)
@pytest.mark.parametrize("end", ["\n", ""])
def test_an_empty_line_is_a_null_under_one_column(
    kind: pa.DataType, text: str, end: str, tmp_path: Path
) -> None:
    found = rows(tmp_path, f"a\n\n{text}\n\n{text}{end}", kind)
    assert [value is None for value in found] == [True, False, True, False]


def test_the_last_line_break_makes_no_row(tmp_path: Path) -> None:
    assert rows(tmp_path, "a\n", pa.int64()) == []
    assert rows(tmp_path, "a\r\n1\r\n", pa.int64()) == [1]
    assert rows(tmp_path, "a\n1\n\n", pa.int64()) == [1, None]


def test_an_empty_line_is_no_row_under_several_columns(tmp_path: Path) -> None:
    assert rows(tmp_path, "a,b\n1,2\n\n3,4\n\n", pa.int64(), pa.int64()) == [2, 4]


@pytest.mark.parametrize(
    ("text", "line"),
    [("a\n1\n\n\nx\n", 5), ('a\n"1"\n\n"\n2"\n', 4)],
    ids=["empty lines", "quoted break"],
)
def test_empty_lines_are_counted_where_a_value_is_blamed(
    text: str, line: int, tmp_path: Path
) -> None:
    with pytest.raises(BadRow, match=f"line {line}: column 'a' is") as caught:
        rows(tmp_path, text, pa.int64())
    assert caught.value.line == line


@pytest.mark.parametrize(("kind", "text"), PLAIN, ids=IDS)
def test_a_quoted_empty_value_is_null_where_there_is_no_text(
    kind: pa.DataType, text: str, tmp_path: Path
) -> None:
    empty = {pa.string(): "", pa.binary(): b""}.get(kind)
    found = rows(tmp_path, f'a,b\n1,"{text}"\n2,""\n3,\n', pa.int64(), kind)
    assert found[0] is not None
    assert found[1:] == [empty, None]


def test_a_null_of_the_callers_is_null_in_quotes_too_but_not_in_text(tmp_path: Path) -> None:
    assert rows(tmp_path, 'a\nNA\n"NA"\n', pa.int64(), nulls=("NA",)) == [None, None]
    assert rows(tmp_path, 'a\nNA\n"NA"\n', pa.string(), nulls=("NA",)) == [None, "NA"]


@pytest.mark.parametrize(("kind", "text"), PLAIN, ids=IDS)
def test_spaces_around_a_value_that_is_no_text_do_not_matter(
    kind: pa.DataType, text: str, tmp_path: Path
) -> None:
    bare, spaced = rows(tmp_path, f"a,b\n1,{text}\n2, {text}\t\n", pa.int64(), kind)
    assert (bare == spaced) is (kind != pa.string())


def test_spaces_are_not_blamed_for_what_another_line_has_wrong(tmp_path: Path) -> None:
    with pytest.raises(BadRow, match="line 3: column 'b' is 'x'"):
        rows(tmp_path, "a,b\n1, 5 \n2,x\n", pa.int64(), pa.int64())


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.decimal128(5, 2), "1000"),
        (pa.decimal128(5, 2), "99999"),
        (pa.decimal128(5, 2), "1.239"),
        (pa.decimal128(18, 6), "123456789012345678"),
        (pa.decimal128(38, 38), "882"),
        (pa.decimal128(5, 3), "-.146785519704511064380584515184967806115295"),
        (pa.decimal128(8, 3), "330.449306204552758432412759567655206746812978"),
        (pa.decimal128(5, 2), "nan"),
        (pa.decimal128(5, 2), "1e99999999999"),
        (pa.int8(), "0xFF"),
        (pa.uint8(), "0X1F"),
        (pa.int64(), "0xFFFFFFFFFFFFFFFF"),
        (pa.duration("s"), "0xF"),
        (pa.float32(), "1e39"),
        (pa.float32(), "-3.4028236e38"),
        (pa.float64(), "1e400"),
        (pa.time32("s"), "05:00:00.5"),
        (pa.timestamp("ms"), "2013-01-31 05:00:00.0001"),
        (pa.timestamp("s", "UTC"), "2013-01-31 05:00:00.1Z"),
        (pa.binary(3), "YWI="),
    ],
)
def test_what_a_column_cannot_hold_in_full_is_refused(
    kind: pa.DataType, value: str, tmp_path: Path
) -> None:
    with pytest.raises(BadRow, match="line 4: column 'b'") as caught:
        rows(tmp_path, f"a,b\n1,\n2,\n3,{value}\n", pa.int64(), kind)
    assert (caught.value.column, caught.value.value) == ("b", value)


def test_decimals_are_read_exactly(tmp_path: Path) -> None:
    texts = [
        "12345678901234567890123456789012345.678",
        "-0.001",
        "1e3",
        "5.",
        ".5",
        "0012.500000000000000000000000000000000000000000",
    ]
    found = rows(tmp_path, "a\n" + "\n".join(texts) + "\n", pa.decimal128(38, 3))
    assert found == [Decimal(text) for text in texts]


def test_a_long_text_is_not_blamed_for_what_another_line_has_wrong(tmp_path: Path) -> None:
    text = f"a,b\n{'x' * (MIB // 2)},1\ny,two\n"
    with pytest.raises(BadRow, match="line 3: column 'b' is 'two'"):
        rows(tmp_path, text, pa.string(), pa.int64())


@pytest.mark.parametrize(
    "long", ["x" * (9 * MIB), "é" * (5 * MIB), "x" * (5 * MIB) + '","' + "x" * (5 * MIB)]
)
def test_a_row_of_more_than_a_block_is_told_as_such(long: str, tmp_path: Path) -> None:
    columns = 2 if '","' in long else 1
    header, short = ",".join("abc"[: columns + 1]), "," * columns
    text = f'{header}\n{short}\n"{long}",1\n{short}\n'
    with pytest.raises(BadRow, match=r"line 3: .*a row may have at most 4 MiB"):
        rows(tmp_path, text, *[pa.string()] * columns, pa.int64())


@pytest.mark.parametrize("shift", range(-3, 4))
def test_a_line_end_in_quotes_stays_whole_wherever_a_piece_ends(tmp_path: Path, shift: int) -> None:
    head = "a,b\r\n" + ("1," + "y" * 1000 + "\r\n") * 4000
    value = "z" * (4 * MIB + shift - len(head) - len('2,"')) + "\r\nend"
    found = rows(tmp_path, f'{head}2,"{value}"\r\n3,last\r\n', pa.int64(), pa.string())
    assert found[-2:] == [value, "last"]
    assert len(found) == 4002


def test_all_wrong_lines_of_a_file_are_listed_up_to_a_thousand(tmp_path: Path) -> None:
    text = "a,b\n1,x\n" + "y,2\n" * 3 + "1,2,3\n1,2\n,z\n"
    with pytest.raises(BadRow, match=r"line 2: column 'b' is 'x'.*5 more lines are wrong") as one:
        rows(tmp_path, text, pa.int64(), pa.int64())
    assert [(bad.line, bad.column, bad.value) for bad in one.value.lines] == [
        (2, "b", "x"),
        (3, "a", "y"),
        (4, "a", "y"),
        (5, "a", "y"),
        (6, None, None),
        (8, "b", "z"),
    ]
    with pytest.raises(BadRow, match="at least 999 more lines") as many:
        rows(tmp_path, "a\n" + "x\n" * 20_000, pa.int64())
    assert len(many.value.lines) == 1_000


def test_a_wrong_line_after_a_quote_that_is_not_closed_is_not_looked_for(tmp_path: Path) -> None:
    with pytest.raises(BadRow, match="line 2: column 'a' is 'x'") as caught:
        rows(tmp_path, 'a,b\nx,1\n1,"2\n3,y\n', pa.int64(), pa.string())
    assert [bad.line for bad in caught.value.lines] == [2]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_a_text_with_a_byte_order_mark_is_read_by_it(encoding: str, tmp_path: Path) -> None:
    mark = "" if encoding in ("utf-16", "utf-8-sig") else "\ufeff"
    text = mark + 'a,b\r\nx,Zoë\r\n\r\ny,"🎉\n"\r\n'
    kinds = pa.string(), pa.string()
    assert rows(tmp_path, text.encode(encoding), *kinds) == ["Zoë", "🎉\n"]
    wrong = text.replace("🎉", "🎉\nx") + "x,y,z\n"
    with pytest.raises(BadRow, match="line 7: 3 fields, expected 2"):
        rows(tmp_path, wrong.encode(encoding), *kinds)
    long = (text + "x,y\n" * 900_000).encode(encoding)
    assert len(rows(tmp_path, long, *kinds)) == 900_002


def test_a_text_that_is_not_what_its_mark_says_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="UTF-16"):
        rows(tmp_path, "a,b\nx,y\n".encode("utf-16")[:-1], pa.string(), pa.string())
    with pytest.raises(Invalid, match="line 2: the byte 0xeb is not UTF-8"):
        rows(tmp_path, "a,b\nx,Zoë\n".encode("latin-1"), pa.string(), pa.string())


@pytest.mark.parametrize("header", ["a;b", '"a";"b"', 'a;"b"', '"a;";b'])
def test_semicolons_are_named_where_names_are_in_quotes_too(header: str, tmp_path: Path) -> None:
    text = f"{header}\n1;2\n"
    with pytest.raises(BadRow, match="with semicolons in it, expected commas") as caught:
        rows(tmp_path, text, pa.int64(), pa.int64())
    assert "separate the fields by commas, and numbers with a decimal point" in str(caught.value)
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(BadRow, match="with semicolons in it"):
        delimited.schema_of(str(tmp_path / "x.csv"), "x.csv", delimiter=",")


def test_a_fault_of_quotes_in_the_header_is_still_one(tmp_path: Path) -> None:
    with pytest.raises(BadRow, match="closed in line 1 with text after it"):
        rows(tmp_path, '"a"x,b\n1,2\n', pa.int64(), pa.int64())
    with pytest.raises(BadRow, match="never closed"):
        rows(tmp_path, '"a,b\n1,2\n', pa.int64(), pa.int64())


@pytest.mark.parametrize(
    ("text", "kind", "does"),
    [
        ("9.00719925474099E+015", pa.int64(), "have it take the column as text"),
        ("9007199254740992.0", pa.int64(), "have it take the column as text"),
        ("late", pa.int64(), "fix the value"),
        ("0,5", pa.float64(), "write numbers with a decimal point"),
        ("1,234", pa.int64(), "write numbers with a decimal point"),
        ("02.01.2020", pa.date32(), "write dates as 2020-01-31"),
        ("1/2/20 3:04", pa.timestamp("us", "UTC"), "write dates as 2020-01-31"),
        ("WAHR", pa.bool_(), "write true or false"),
    ],
)
def test_a_refusal_says_what_to_do(text: str, kind: pa.DataType, does: str, tmp_path: Path) -> None:
    with pytest.raises(BadRow, match=f"line 2: column 'b' is '.*', expected .*: .*{does}"):
        rows(tmp_path, f'a,b\nx,"{text}"\n', pa.string(), kind)
