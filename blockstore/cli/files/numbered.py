"""The rows of delimited text with the lines on which they begin, one by one: slow, and exact about
where a row stands.

Rule: what is a row here is one to Arrow's parser too. A quoted value may hold line breaks. An empty
line is no row, but under a header of one column it is: that is how such a file holds a null.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from itertools import islice

from blockstore.cli.files.opening import opened
from blockstore.cli.files.quotes import first_fault, place_of
from blockstore.errors import Invalid

BLOCK = 4 << 20
"""Arrow's parser reads so many bytes at a time, and refuses a row that does not end in the block
after its first."""


class BadRow(Invalid):
    """A line that is wrong, also in parts, for a program:

    ``column`` and ``value`` are None where the line as a whole is.
    """

    def __init__(
        self,
        message: str,
        *,
        line: int,
        rule: str,
        column: str | None = None,
        value: str | None = None,
    ) -> None:
        super().__init__(message)
        self.line = line
        self.column = column
        self.value = value
        self.rule = rule


def numbered(path: str, name: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The header and then the rows, each with its line, from 1. Raises Invalid for text that is
    none, and BadRow for a row so long that Arrow's parser takes it nowhere, or for a quote that is
    not closed at its value's end."""
    # One limit for the whole process, and only ever a higher one.
    csv.field_size_limit(max(csv.field_size_limit(), 2 * BLOCK))
    with opened(path) as stream, io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
        reader = csv.reader(text, delimiter=delimiter, strict=True)
        before: int = 0
        header: list[str] = []
        try:
            for fields in reader:
                header = header or fields
                if fields or len(header) == 1:
                    yield before + 1, fields or [""]
                before = reader.line_num
        except UnicodeDecodeError as error:
            line = reader.line_num + error.object[: error.start].count(b"\n") + 1
            raise Invalid(
                f"{name}, line {line}: the byte 0x{error.object[error.start]:02x} is no UTF-8, "
                "expected UTF-8 text: "
                "convert the file"
            ) from None
        except csv.Error as error:
            # A quote that is never closed makes a long row too.
            if fault := misquoted(path, name, delimiter, header):
                raise fault from None
            if "field limit" in str(error):
                raise too_long(name, before + 1) from None
            raise BadRow(
                f"{name}, line {reader.line_num}: {error}, expected CSV: mend the line",
                line=reader.line_num,
                rule=str(error),
            ) from None


def line_of_row(path: str, name: str, delimiter: str, row: int) -> int:
    """The line, from 1, on which a row begins; rows count from 0 after the header."""
    return next(line for line, _ in islice(numbered(path, name, delimiter), row + 1, None))


def misquoted(path: str, name: str, delimiter: str, header: list[str]) -> BadRow | None:
    """What is wrong with the first quote that is not closed at its value's end."""
    fault = first_fault(path, delimiter)
    if fault is None:
        return None
    line, before = place_of(path, delimiter, fault.opens)
    column = header[before] if before < len(header) else None
    here = "here" if column is None else f"here, in column {column!r},"
    if fault.closes is None:
        problem, rule = "is never closed", "a quote that opens a value closes it"
    else:
        closed, _ = place_of(path, delimiter, fault.closes)
        problem, rule = (
            f"is closed in line {closed} with text behind it",
            "a closing quote ends its value",
        )
    return BadRow(
        f"{name}, line {line}: the quote that opens {here} {problem}: close it where the value "
        "ends, and double the quotes "
        "that are a part of it; nothing was written",
        line=line,
        column=column,
        rule=rule,
    )


def too_long(name: str, line: int) -> BadRow:
    """What is wrong with a row of more than a block."""
    rule = f"a row may have at most {BLOCK >> 20} MiB"
    return BadRow(
        f"{name}, line {line}: the row has more, and {rule}: shorten it, or close a quote that "
        "was left open; nothing was "
        "written",
        line=line,
        rule=rule,
    )
