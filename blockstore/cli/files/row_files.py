"""Files whose rows name rows of the table: by ``_row_id`` and ``_version``, or by their key and
``_version``.

Rules:
- A file begins with ``_row_id,_version``, on a table with a key with ``_version``; or it has none
  of these columns. Anything else is refused: a version without its id would change another row.
- A row names an id and the version that was read, or neither: then it is new.
- A line of a text file that names rows is not empty: it would be a new row without a value.
- A row whose version is not the current one is a wrong line. All of them are listed, and nothing is
  written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from blockstore.cli.files.bad_lines import MOST, BadLine, BadRow, refusal
from blockstore.cli.files.delimited import check_delimiter
from blockstore.cli.files.numbered import lines_of_rows
from blockstore.cli.files.opening import Advance
from blockstore.cli.files.source import (
    DELIMITERS,
    Source,
    at_line,
    names_of,
    place_of,
    read,
    twice_at,
    with_labels,
)
from blockstore.errors import Invalid, RowConflict
from blockstore.format.definition import Definition
from blockstore.format.identity import ROW_ID, VERSION, RowIds, stored_columns
from blockstore.format.value_text import row_text
from blockstore.rows.twice import RowTwice

_AGAIN = "download the rows again"


@dataclass(slots=True)
class RowFiles:
    """Files of rows, new ones and changed ones. A call reads them all, from the beginning."""

    named: Sequence[Source]
    definition: Definition
    nulls: tuple[str, ...]
    advance: Advance
    labels: Sequence[str] = ()
    """The labels of the table, which a file may have as columns."""
    _ids: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _starts: list[tuple[Source, int]] = field(default_factory=list)
    """The files that were read so far, and the number of the first row of each."""

    def __post_init__(self) -> None:
        for source in self.named:
            self._ids[source.path] = id_columns(source, self.definition)

    def __call__(self) -> Iterator[pa.RecordBatch]:
        """The rows; each batch has the columns that name rows."""
        assert self.definition.identity is not None, "only such tables have rows with names"
        wanted = stored_columns(self.definition.identity)
        self._starts = []
        rows = 0
        half: list[tuple[int, str]] = []
        blank: list[int] = []
        for source in self.named:
            self._starts.append((source, rows))
            ids = self._ids[source.path]
            fields = [pa.field(name, pa.int64()) for name in ids]
            schema = pa.schema([*fields, *self.definition.schema])
            schema = with_labels(source, schema, self.labels)
            for batch in read(source, schema, nulls=self.nulls, advance=self.advance):
                for name in wanted if not ids else ():
                    batch = batch.append_column(name, pa.nulls(len(batch), pa.int64()))
                half += _half(batch, rows)[: MOST - len(half)]
                if ids and source.form in DELIMITERS:
                    blank += _blank(batch, rows)[: MOST - len(blank)]
                yield batch
                rows += batch.num_rows
        if half:
            raise self._refused(half, "names a row by its id and its version, or neither")
        if blank:
            raise self._empty(blank)

    def placed(self, error: Invalid | RowConflict) -> Invalid | RowConflict:
        """An error of the code that takes the rows, with file and line of each wrong row."""
        if isinstance(error, RowConflict):
            if not error.places:
                return error
            return self._stale(error)
        if isinstance(error, RowTwice):
            return twice_at(self._starts, error)
        if isinstance(error, BadRow) or error.row is None:
            return error
        source, row = self._of(error.row)
        return at_line(source, row, error)

    def _stale(self, error: RowConflict) -> Invalid:
        found = []
        for place, (row, expected, now) in zip(error.places, error.rows, strict=True):
            found.append((place, _says(row, expected, now), expected, _rule(expected, now)))
        source, first = self._of(found[0][0])
        own = [one for one in found if self._of(one[0])[0] is source]
        lines = self._lines(source, [place - found[0][0] + first for place, *_ in own])
        if lines is None:
            return Invalid(f"{source.name}, row {first + 1}: {own[0][1]}: {_AGAIN}")
        return refusal(
            source.name,
            [
                BadLine(
                    line=line,
                    column=VERSION,
                    value="" if expected is None else str(expected),
                    says=says,
                    rule=rule,
                    remedy=_AGAIN,
                )
                for line, (_, says, expected, rule) in zip(lines, own, strict=True)
            ],
        )

    def _refused(self, half: Sequence[tuple[int, str]], rule: str) -> Invalid:
        source, first = self._of(half[0][0])
        own = [one for one in half if self._of(one[0])[0] is source]
        lines = self._lines(source, [place - half[0][0] + first for place, _ in own])
        says = [f"column {column!r} is empty, expected that a row {rule}" for _, column in own]
        if lines is None:
            return Invalid(f"{source.name}, row {first + 1}: {says[0]}: fill both, or none")
        return refusal(
            source.name,
            [
                BadLine(
                    line=line,
                    column=column,
                    value="",
                    says=text,
                    rule=rule,
                    remedy="fill both, or none",
                )
                for line, (_, column), text in zip(lines, own, says, strict=True)
            ],
        )

    def _empty(self, blank: Sequence[int]) -> Invalid:
        source, first = self._of(blank[0])
        own = [place - blank[0] + first for place in blank if self._of(place)[0] is source]
        rule = "a line names a row or has a value"
        return refusal(
            source.name,
            [
                BadLine(
                    line=line,
                    says=f"all of its fields are empty, expected that {rule}",
                    rule=rule,
                    remedy="drop the line; rows are deleted with delete-rows",
                )
                for line in self._lines(source, own) or ()
            ],
        )

    def _of(self, place: int) -> tuple[Source, int]:
        """The file of a row, and the number of the row in it."""
        return place_of(self._starts, place)

    def _lines(self, source: Source, rows: Sequence[int]) -> list[int] | None:
        """The lines of rows; None in a form without lines."""
        delimiter = DELIMITERS.get(source.form)
        if delimiter is None:
            return None
        return lines_of_rows(source.path, source.name, delimiter, rows)


def name_rows(named: Sequence[Source], definition: Definition) -> bool:
    """Whether one of the files has the columns that name rows. Raises Invalid for any file that
    has only some of them."""
    found = [id_columns(source, definition) for source in named]
    return any(found)


def id_columns(source: Source, definition: Definition) -> tuple[str, ...]:
    """The columns of a file that name rows of the table; none for a file of new rows. Raises
    Invalid for a file that has some of them, or in another order."""
    names = names_of(source) or []
    if source.form in DELIMITERS and names != definition.schema.names:
        check_delimiter(names, source.name, DELIMITERS[source.form])
    given = [name for name in names if name in (ROW_ID, VERSION)]
    if not given:
        return ()
    identity = definition.identity
    if identity is None:
        raise _bad_header(
            source,
            f"names {_listed(given)}, and the rows of the table have neither ids nor a key",
            "drop these columns, or create the table with --row-ids or --key",
        )
    wanted = stored_columns(identity)
    if isinstance(identity, RowIds):
        expected = "both _row_id and _version as the first columns, in this order, or neither"
    else:
        expected = "_version as the first column and no _row_id, since the key names a row"
    lost = [name for name in definition.schema.names if name not in names]
    if lost and not set(names) - {*definition.schema.names, ROW_ID, VERSION}:
        raise _bad_header(
            source,
            f"lacks {lost[0]!r}, and a file that changes rows names every column, since a row that "
            "it names would lose its value",
            "add the column, or change some cells with update",
        )
    ordered = source.form not in DELIMITERS or tuple(names[: len(wanted)]) == wanted
    if sorted(given) != sorted(wanted) or not ordered:
        raise _bad_header(
            source,
            f"has {_listed(given)}, expected {expected}",
            "put the columns in order" if names[0] else "drop the first one, which has no name",
        )
    return wanted


def _bad_header(source: Source, problem: str, remedy: str) -> Invalid:
    return BadRow(
        f"{source.name}, line 1: the header {problem}: {remedy}; nothing was written",
        line=1,
        rule=f"the header {problem}",
    )


def _half(batch: pa.RecordBatch, first: int) -> list[tuple[int, str]]:
    """The rows with an id and no version, or the reverse, and the column that is empty."""
    if ROW_ID not in batch.schema.names:
        return []
    id_, version = batch.column(ROW_ID).is_valid(), batch.column(VERSION).is_valid()
    places = pc.indices_nonzero(pc.not_equal(id_, version)).to_pylist()
    return [(first + at, VERSION if id_[at].as_py() else ROW_ID) for at in places[:MOST]]


def _blank(batch: pa.RecordBatch, first: int) -> list[int]:
    """The rows in which all is null or an empty text: spreadsheets write such lines for cells that
    were emptied."""
    empty = pa.repeat(pa.scalar(True), len(batch))
    for column in batch.columns:
        none = column.is_null()
        if pa.types.is_string(column.type):
            none = pc.or_kleene(none, pc.equal(column, ""))
        empty = pc.and_(empty, none)
    return [first + at for at in pc.indices_nonzero(empty).to_pylist()[:MOST]]


def _says(row: object, expected: object, now: object) -> str:
    if expected is None:
        return f"row {row_text(row)} has no version, so it is new, and it exists at version {now}"
    found = "it is not in the table" if now is None else f"it has version {now} now"
    return f"row {row_text(row)} was read at version {expected}, and {found}"


def _rule(expected: object, now: object) -> str:
    if expected is None:
        return "a row without a version does not exist yet"
    return "the row is in the table" if now is None else f"the row's version, {now}"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(names)
