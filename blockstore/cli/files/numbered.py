"""Read delimited text row by row, each with the line on which it begins: slow, but with exact
lines.

Rule: this parser and Arrow's see the same rows. A quoted value may contain line breaks. An empty
line is not a row, except under a header of one column, where it is a null.
"""

from __future__ import annotations

import csv
import io
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice

from blockstore.cli.files.bad_lines import BadRow
from blockstore.cli.files.opening import opened_text
from blockstore.cli.files.quotes import first_fault, place_of
from blockstore.errors import Invalid

BLOCK = 4 << 20
"""Arrow's parser reads this many bytes at a time, and refuses a row that does not end in the block
after its first."""
OTHERS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
_FORMS = {",": "csv", "\t": "tsv"}
_HEAD = 1 << 16


def numbered(path: str, name: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the header and then the rows, each with its line, from 1.

    Raises Invalid for bytes that are not UTF-8, and BadRow for a row that is too long for Arrow's
    parser or a quote that is not closed at the end of its value.
    """
    # The limit is global in the process: it is only raised.
    csv.field_size_limit(max(csv.field_size_limit(), 2 * BLOCK))
    with (
        opened_text(path) as stream,
        io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text,
    ):
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
            byte = error.object[error.start]
            expected = "UTF-16" if error.encoding.startswith("utf-16") else "UTF-8"
            raise Invalid(
                f"{name}, line {line}: the byte 0x{byte:02x} is not {expected}, expected "
                f"{expected} text: save the file as UTF-8"
            ) from None
        except csv.Error as error:
            # A quote that is never closed also makes a long row.
            if fault := misquoted(path, name, delimiter, header):
                raise fault from None
            if "field limit" in str(error):
                raise too_long(name, before + 1) from None
            raise BadRow(
                f"{name}, line {reader.line_num}: {error}, expected CSV: fix the line",
                line=reader.line_num,
                rule=str(error),
            ) from None


def line_of_row(path: str, name: str, delimiter: str, row: int) -> int:
    """Return the line on which a row begins, from 1; rows count from 0 after the header."""
    return next(line for line, _ in islice(numbered(path, name, delimiter), row + 1, None))


def lines_of_rows(path: str, name: str, delimiter: str, rows: Sequence[int]) -> list[int]:
    """Return the lines of several rows, whose numbers ascend, in one pass."""
    wanted, lines = deque(rows), []
    for row, (line, _) in enumerate(islice(numbered(path, name, delimiter), 1, None)):
        if not wanted:
            break
        if row == wanted[0]:
            lines.append(line)
            wanted.popleft()
    return lines


def misquoted(path: str, name: str, delimiter: str, header: list[str]) -> BadRow | None:
    """Return the error of the first quote that is not closed at the end of its value."""
    fault = first_fault(path, delimiter)
    if fault is None:
        return None
    if fault.closes is not None and not header and (other := _separated(path, name, delimiter)):
        return other
    line, before = place_of(path, delimiter, fault.opens)
    column = header[before] if before < len(header) else None
    here = "here" if column is None else f"here, in column {column!r},"
    if fault.closes is None:
        problem, rule = "is never closed", "a quote that opens a value is closed"
    else:
        closed, _ = place_of(path, delimiter, fault.closes)
        problem, rule = (
            f"is closed in line {closed} with text after it",
            "a closing quote ends its value",
        )
    return BadRow(
        f"{name}, line {line}: the quote that opens {here} {problem}: close it at the end of the "
        "value, and double the quotes inside the value; nothing was written",
        line=line,
        column=column,
        rule=rule,
    )


def separated(name: str, header: str, found: str, delimiter: str) -> BadRow:
    """Return the error of a header whose names another delimiter separates."""
    own, form = OTHERS[delimiter], _FORMS.get(found)
    say = f"give --format {form}, or " if form else ""
    point = ", and numbers with a decimal point" if found == ";" else ""
    return BadRow(
        f"{name}, line 1: the header is one name, {header!r}, with {OTHERS[found]} in it, "
        f"expected {own} between names: {say}separate the fields by {own}{point}; nothing was "
        "written",
        line=1,
        rule=f"{own} separate the names of the header",
    )


def _separated(path: str, name: str, delimiter: str) -> BadRow | None:
    """Return the error of a first line whose names, some of them in quotes, another delimiter
    separates; None if none does."""
    with opened_text(path) as stream:
        head = stream.read(_HEAD).decode("utf-8-sig", "replace")
    for other in OTHERS:
        try:
            names = next(csv.reader([head.splitlines()[0]], delimiter=other, strict=True))
        except csv.Error:
            continue
        if len(names) > 1 and other != delimiter:
            return separated(name, other.join(names), other, delimiter)
    return None


def too_long(name: str, line: int) -> BadRow:
    """Return the error of a row that is longer than a block."""
    rule = f"a row may have at most {BLOCK >> 20} MiB"
    return BadRow(
        f"{name}, line {line}: the row is too long, {rule}: shorten it, or close an open quote; "
        "nothing was written",
        line=line,
        rule=rule,
    )
