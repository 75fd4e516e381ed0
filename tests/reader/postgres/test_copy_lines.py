"""Lines of a COPY FROM: the rows that PostgreSQL makes of them, wherever the data is cut."""

from __future__ import annotations

import csv
import io
import struct
from collections.abc import Callable, Sequence

import pytest

from blockstore.reader.postgres.copy_lines import BinaryLines, CsvLines, Lines, TextLines
from blockstore.reader.postgres.rows import CopyForm
from blockstore.reader.postgres.states import Refused
from blockstore.reader.postgres.types import INT4, TEXT
from blockstore.world import World

CSV = CopyForm(form="csv", delimiter=",", null="")
SLASHED = CopyForm(form="csv", delimiter=",", null="", escape="\\")
LISTED = CopyForm(form="csv", delimiter="|", null="]", quote="^", escape="]")


def made(form: CopyForm, columns: int, *parts: bytes) -> list[list[str]]:
    """The rows of some parts; null is ``None`` in words."""
    lines = lines_of(form, [TEXT] * columns)
    data = b"".join(lines.feed(part) for part in parts) + lines.end()
    rows = list(csv.reader(io.StringIO(data.decode(), newline="")))
    assert len(rows) == lines.rows
    return rows


def lines_of(form: CopyForm, types: Sequence[int]) -> Lines:
    return {"csv": CsvLines, "binary": BinaryLines}.get(form.form, TextLines)(form, types)


BINARY_ROW = struct.pack("!h", 3) + b"".join(
    struct.pack("!i", len(one)) + one for one in (b"ab", b"", "é\n".encode())
)
BINARY = b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, 3) + b"ext" + BINARY_ROW * 2 + b"\xff\xff"
WHOLE: list[tuple[CopyForm, bytes, list[list[str]]]] = [
    (
        CopyForm(),
        "ab\\\ncd\té\\\\\t\\\t\\n\r\n\\\\\\\n\t\\x41\\101\t\\r\\\r\nx\ty\tz\\\n".encode(),
        [["ab\ncd", "é\\", "\t\n"], ["\\\n", "AA", "\r\r"], ["x", "y", "z\n"]],
    ),
    (CopyForm(null="\\\\"), b"\\\\\t\\N\t\\q\n1\t2\t3\n\\.\n4", [["", "N", "q"], ["1", "2", "3"]]),
    (
        CSV,
        'a,"b\r\n""c""",é\r\n"",d"e,f\n"g,"x"\ny\\,"h\\",\n"\\.",2,3\n4,5,"6"'.encode(),
        [
            ["a", 'b\r\n"c"', "é"],
            ["", "de,f\ng", "x"],
            ["y\\", "h\\", ""],
            ["\\.", "2", "3"],
            ["4", "5", "6"],
        ],
    ),
    (
        SLASHED,
        b'"a\\"b\\\\","\\c\n",d\\"e"\n1,"2\\\\\\"\n",3\n\\,4,5\n',
        [['a"b\\', "\\c\n", "d\\e"], ["1", '2\\"\n', "3"], ["\\", "4", "5"]],
    ),
    (LISTED, b"^a]^|b^|]|c]]\n1|2|3\n", [["a^|b", "", "c]]"], ["1", "2", "3"]]),
    (CopyForm(form="binary"), BINARY, [["ab", "", "é\n"]] * 2),
]


@pytest.mark.parametrize(("form", "data", "rows"), WHOLE)
def test_the_rows_are_the_same_wherever_the_data_is_cut(
    form: CopyForm, data: bytes, rows: list[list[str]]
) -> None:
    assert made(form, 3, data) == rows
    for at in range(len(data) + 1):
        assert made(form, 3, data[:at], data[at:]) == rows, data[:at]
    for size in (1, 2, 3, 5):
        parts = [data[at : at + size] for at in range(0, len(data), size)]
        assert made(form, 3, *parts) == rows, size


@pytest.mark.parametrize(
    ("data", "rows"),
    [
        (b'"abc"def\nplain\n', [["abcdef"], ["plain"]]),
        (b'a"b,c"d\n', [["ab,cd"]]),
        (b'"a" "b"\n', [["a b"]]),
        (b'x""y\n""\n""""\n', [["xy"], [""], ['"']]),
        (b'"\\."\nb\n', [["\\."], ["b"]]),
        (b'"a"\n\\.\nb\n', [["a"]]),
        (b'"a"\r\n"b\r"\r\n', [["a"], ["b\r"]]),
        (b"a\r\nb", [["a"], ["b"]]),
    ],
)
def test_a_quote_may_be_anywhere_in_a_value(data: bytes, rows: list[list[str]]) -> None:
    assert made(CSV, 1, data) == rows


def test_an_empty_text_is_not_null() -> None:
    lines = lines_of(CSV, [TEXT] * 3)
    assert lines.feed(b'"",,"a"\n') == b'"",,"a"\n'
    assert lines.feed(b",,b\n") == b',,"b"\n'


def test_escaped_bytes_are_the_bytes_of_one_sign() -> None:
    given = b"caf\\xc3\\xa9\ncaf\\303\\251\n\\xf0\\x9f\\x98\\x80\\xZ\n"
    assert made(CopyForm(), 1, given) == [["café"], ["café"], ["😀xZ"]]


@pytest.mark.parametrize("data", [b"1\n\\xc3\n", b"\\351\n", b"\xc3\n", b"a\\xed\\xa0\\x80\n"])
def test_bytes_that_are_not_utf8_are_refused(data: bytes) -> None:
    with pytest.raises(Refused, match="not UTF-8") as caught:
        made(CopyForm(), 1, data)
    assert caught.value.state == "22021"


def test_a_quote_without_an_end_is_refused() -> None:
    for data in (b'"a\nb\n', b'a"\n', b'"a""', b'"a""b\n' * 1001):
        with pytest.raises(Refused, match="a quote without an end"):
            made(CSV, 1, data)


SHAPES: dict[str, Callable[[int], tuple[CopyForm, int, bytes]]] = {
    "csv": lambda size: (CSV, 5, b"1,2,3,4,5\n" * (size // 10)),
    "quoted": lambda size: (CSV, 2, b'"a,""b",c\n' * (size // 10)),
    "last quoted": lambda size: (CSV, 1, b"a\n" * (size // 2) + b'"a"\n'),
    "one line": lambda size: (CSV, 1, b'"' + b'a\n""' * (size // 4) + b'"\n'),
    "slashed": lambda size: (SLASHED, 1, b'"' + b'\\"\n\\\\' * (size // 5) + b'"\n'),
    "text": lambda size: (CopyForm(), 2, b"1\t\\N\n" * (size // 5)),
    "text in one line": lambda size: (CopyForm(), 1, b"\\\n\\\t" * (size // 4) + b"\n"),
    "binary": lambda size: (
        CopyForm(form="binary"),
        3,
        BINARY[:22] + BINARY_ROW * (size // len(BINARY_ROW)) + b"\xff\xff",
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_time_grows_with_the_data_and_not_with_its_square(shape: str) -> None:
    """16 times the data, in one part and in parts of 1 KiB."""
    small, large = (SHAPES[shape](size) for size in (1 << 14, 1 << 18))
    for size in (1 << 10, 1 << 20):
        ratios = [_seconds(*large, size) / max(_seconds(*small, size), 1e-3) for _ in range(3)]
        assert min(ratios) < 40, (shape, size, ratios)


def _seconds(form: CopyForm, columns: int, data: bytes, size: int) -> float:
    clock = World.real().clock
    lines = lines_of(form, [TEXT] * columns)
    began = clock.monotonic_s()
    for at in range(0, len(data), size):
        lines.feed(data[at : at + size])
    lines.end()
    return clock.monotonic_s() - began


def test_numbers_in_binary_come_as_they_are() -> None:
    lines = lines_of(CopyForm(form="binary"), [INT4, INT4])
    row = struct.pack("!hiiii", 2, 4, -7, 4, 8)
    given = BINARY[:11] + struct.pack("!ii", 0, 0) + row + row[:9]
    assert lines.feed(given) == b'"-7","8"\n'
    with pytest.raises(Refused, match="not complete"):
        lines.end()
