"""Files, or standard input, as record batches with the columns of a table.

Rule: a value is converted without loss, or refused with its line, column and value; nothing is
guessed. No row of a refused file is ever visible, because all files of a call become one block.
"""

from __future__ import annotations

import os
import select
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa

from blockstore.cli.files import columnar, delimited, json_lines, numbered
from blockstore.cli.files.bad_lines import BadLine, BadRow
from blockstore.cli.files.forms import Form, form_of
from blockstore.cli.files.opening import Advance, pack_of
from blockstore.errors import Invalid, NoSpace
from blockstore.format.constraints import BrokenRule
from blockstore.format.unreadable import UNREADABLE
from blockstore.rows.twice import RULE as TWICE
from blockstore.rows.twice import RowTwice

STDIN = "-"
DELIMITERS = {Form.CSV: ",", Form.TSV: "\t"}
"""The forms of text with a delimiter."""

_TURN_S = 0.2
"""The longest delay of an interrupt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file to read: its path on this machine, its name for errors, its form and its size."""

    path: str
    name: str
    form: Form
    bytes: int


@contextmanager
def sources(words: tuple[str, ...], form: Form | None) -> Iterator[list[Source]]:
    """Yield the named files, which must exist.

    Standard input, and anything else that can only be read once, is copied to a temporary file.
    """
    with tempfile.TemporaryDirectory(prefix="blockstore-") as folder:
        found: list[Source] = []
        for word in words:
            if word == STDIN:
                if form is None:
                    raise Invalid(
                        "standard input has no name that shows its form: give --format, one of "
                        f"{', '.join(Form)}"
                    )
                path = os.path.join(folder, "stdin")
                if os.path.exists(path):
                    raise Invalid("standard input (-) was given twice, expected once")
                _spool(sys.stdin.buffer, path)
                found.append(
                    Source(path=path, name="standard input", form=form, bytes=os.path.getsize(path))
                )
                continue
            if not os.path.exists(word):
                raise Invalid(
                    f"there is no file {word}: name an existing file, or - for standard input"
                )
            if os.path.isdir(word):
                raise Invalid(f"{word} is a folder, expected a file: name the files in it")
            path, its_form = word, form or form_of(word)
            if not os.path.isfile(word):
                # The end of the name still shows the compression.
                path = os.path.join(folder, f"{len(found)}-{os.path.basename(word)}")
                with open(word, "rb") as pipe:
                    _spool(pipe, path)
            found.append(Source(path=path, name=word, form=its_form, bytes=os.path.getsize(path)))
        yield found


def _spool(stream: BinaryIO, path: str) -> None:
    """Copy a stream to a file: Parquet needs its end first, and an error needs a second read."""
    try:
        with open(path, "wb") as file:
            while piece := _piece(stream.fileno()):
                file.write(piece)
    except OSError as error:
        raise NoSpace(
            f"the input could not be copied to {tempfile.gettempdir()} ({error.strerror}): make "
            "room there, or set TMPDIR to a folder with more space"
        ) from error


def _piece(descriptor: int) -> bytes:
    """Read the next bytes, b"" at the end.

    It waits in short turns: Python may miss an interrupt that comes just before a read.
    """
    while not select.select([descriptor], [], [], _TURN_S)[0]:
        pass
    return os.read(descriptor, 1 << 20)


def read(
    source: Source,
    schema: pa.Schema,
    *,
    nulls: tuple[str, ...] = (),
    advance: Advance = lambda _: None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file under ``schema``, batch by batch.

    Raises Invalid with file, line, column, value and what was expected.
    """
    try:
        match source.form:
            case Form.CSV | Form.TSV:
                yield from delimited.read(
                    source.path,
                    source.name,
                    schema,
                    delimiter=DELIMITERS[source.form],
                    nulls=nulls,
                    advance=advance,
                )
            case Form.JSON:
                yield from json_lines.read(source.path, source.name, schema, advance=advance)
            case _:
                yield from columnar.read(source.path, source.name, source.form, advance=advance)
    except UNREADABLE as error:
        raise _unreadable(source, error) from error


def line_of(source: Source, row: int) -> int | None:
    """Return the line of a row, from 1; rows count from 0. None in a form without lines."""
    match source.form:
        case Form.CSV | Form.TSV:
            return numbered.line_of_row(source.path, source.name, DELIMITERS[source.form], row)
        case Form.JSON:
            return json_lines.line_of_row(source.path, source.name, row)
        case _:
            return None


def lines_of(source: Source, rows: Sequence[int]) -> list[int | None]:
    """Return the lines of rows, whose numbers ascend; None in a form without lines."""
    if source.form in DELIMITERS:
        delimiter = DELIMITERS[source.form]
        return [*numbered.lines_of_rows(source.path, source.name, delimiter, rows)]
    return [line_of(source, row) for row in rows]


def names_of(source: Source) -> list[str] | None:
    """Return the columns that a file names at its beginning; None for JSON lines, which name them
    in each line."""
    if source.form not in DELIMITERS:
        return None if source.form is Form.JSON else list(schema_of(source).names)
    try:
        return delimited.header_of(source.path, source.name, delimiter=DELIMITERS[source.form])
    except UNREADABLE as error:
        raise _unreadable(source, error) from error


def with_labels(source: Source, schema: pa.Schema, labels: Sequence[str]) -> pa.Schema:
    """Return the schema with the labels that a file names at its beginning: columns of text."""
    names = (names_of(source) or ()) if labels else ()
    fields = [pa.field(name, pa.string()) for name in labels if name in names]
    return pa.schema([*schema, *fields], schema.metadata)


def schema_of(source: Source) -> pa.Schema:
    """Return the schema that a file declares, or that its first megabytes suggest."""
    try:
        match source.form:
            case Form.CSV | Form.TSV:
                return delimited.schema_of(
                    source.path, source.name, delimiter=DELIMITERS[source.form]
                )
            case Form.JSON:
                return json_lines.schema_of(source.path, source.name)
            case _:
                return columnar.schema_of(source.path, source.form)
    except UNREADABLE as error:
        raise _unreadable(source, error) from error


def _unreadable(source: Source, error: Exception) -> Exception:
    """What to say; an error of the machine has a number, and Arrow's about what a file holds has
    none."""
    if isinstance(error, OSError) and error.errno is not None:
        return error
    first = str(error).partition("\n")[0].rstrip(".")
    if isinstance(error, OSError) and (pack := pack_of(source.path)) is not None:
        return Invalid(
            f"{source.name} is truncated or not {pack} ({first}): copy it again, or rename it"
        )
    return Invalid(
        f"{source.name} cannot be read as {source.form} ({first}): give the right --format, or "
        "fix the file"
    )


class FileRows:
    """The rows of all files under ``schema``; each iteration begins with the first file. A file may
    also have columns that are named as ``labels``."""

    def __init__(
        self,
        named: Sequence[Source],
        schema: pa.Schema,
        nulls: tuple[str, ...],
        advance: Advance,
        labels: Sequence[str] = (),
    ) -> None:
        self._named = named
        self._schema = schema
        self._nulls = nulls
        self._advance = advance
        self._labels = labels
        self._reading: Source | None = None
        self._before = 0
        self._starts: list[tuple[Source, int]] = []

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self._before = 0
        self._starts = []
        for source in self._named:
            self._starts.append((source, self._before))
            rows = 0
            schema = with_labels(source, self._schema, self._labels)
            for batch in read(source, schema, nulls=self._nulls, advance=self._advance):
                self._reading = source
                yield batch
                self._reading = None
                rows += batch.num_rows
            self._before += rows

    def placed(self, error: Invalid) -> Invalid:
        """Return an error of the code that takes the rows, with the file and the line of the
        row."""
        if isinstance(error, RowTwice):
            return twice_at(self._starts, error)
        if self._reading is None:
            return error
        row = None if error.row is None else error.row - self._before
        return at_line(self._reading, row, error)


def place_of(starts: Sequence[tuple[Source, int]], row: int) -> tuple[Source, int]:
    """The file of a row, and the number of the row in it; ``starts`` are the files with the number
    of the first row of each."""
    source, start = next(one for one in reversed(starts) if one[1] <= row)
    return source, row - start


def twice_at(starts: Sequence[tuple[Source, int]], error: RowTwice) -> Invalid:
    """An error about a row that occurs twice, with the files and the lines of both."""
    if error.rows is None:
        return error
    (source, first), (other, second) = (place_of(starts, row) for row in error.rows)
    if source is other:
        lines = lines_of(source, [first, second])
    else:
        lines = [*lines_of(source, [first]), *lines_of(other, [second])]
    names = [
        f"row {row + 1}" if line is None else f"line {line}"
        for line, row in zip(lines, (first, second), strict=True)
    ]
    of = "" if source is other else f" of {source.name}"
    text = (
        f"{other.name}, {names[1]}: {error.what} is that of {names[0]}{of} too, expected each "
        "once: keep the row that counts; nothing was written"
    )
    places = [one for one, where in zip(lines, (source, other), strict=True) if where is other]
    found = [
        BadLine(line=line, rule=TWICE, column=error.column, value=error.value)
        for line in places
        if line is not None
    ]
    if not found:
        return Invalid(text)
    return BadRow(
        text,
        line=found[-1].line,
        column=error.column,
        value=error.value,
        rule=TWICE,
        lines=found,
    )


def at_line(source: Source, row: int | None, error: Invalid) -> Invalid:
    """An error about a row of a file, with the file and the line."""
    line = None if row is None else line_of(source, row)
    where = source.name if line is None else f"{source.name}, line {line}"
    if line is None or not isinstance(error, BrokenRule):
        return Invalid(f"{where}: {error}")
    return BadRow(
        f"{where}: {error}; nothing was written",
        line=line,
        column=error.column,
        value=error.value,
        rule=error.rule,
    )
