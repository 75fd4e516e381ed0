"""COPY: rows between a table and a file of the user's machine.

Rules:
- Only ``blockstore sql`` does this, for the person who typed it. No gateway, and no text that a
  program hands to ``blockstore.sql``, reaches a file.
- A file is read as ``blockstore write`` reads it, and written as ``blockstore query --to`` writes
  it; there are no other rules about values.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import pyarrow as pa

from blockstore.cli.files.forms import Form, form_of
from blockstore.cli.files.row_files import name_rows
from blockstore.cli.files.source import Source, sources
from blockstore.cli.files.writing import change_by_files, write_files
from blockstore.cli.row_changes import listing_bad_lines
from blockstore.errors import Invalid
from blockstore.format.identity import Key
from blockstore.operations.append import AppendedBlock
from blockstore.reader.forms.deliver import deliver
from blockstore.reader.query.sql.types import quoted
from blockstore.reader.statements.bound import newest
from blockstore.reader.statements.doing import Doing
from blockstore.reader.statements.outcome import Outcome
from blockstore.reader.statements.session import Session
from blockstore.reader.statements.texts import Kind, Text
from blockstore.reader.statements.tokens import Cursor, Misread, Piece, error_at
from blockstore.rows.results import RowsChanged
from blockstore.table import Table

_DELIMITED = {",": Form.CSV, "\t": Form.TSV, "\\t": Form.TSV}


class Way(StrEnum):
    """Which way the rows go."""

    FROM = "FROM"
    TO = "TO"


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """``COPY name FROM 'file'`` or ``COPY name | (query) TO 'file'``."""

    name: str
    """The table; empty for a query."""
    query: str
    """What is copied to a file."""
    way: Way
    path: str
    form: Form
    nulls: tuple[str, ...]


def copy(session: Session, text: Text, doing: Doing, *, quiet: bool) -> Outcome:
    """Carry a COPY out.

    Args:
        session: The tables.
        text: The statement.
        doing: What the caller says of it.
        quiet: Whether no progress is shown.

    Raises:
        BadSql: The statement, with its place.
        Invalid: A value of the file, with its line; or the file itself. Nothing was changed.
    """
    wanted = wanted_copy(text)
    if wanted.way is Way.TO:
        return _to(session, wanted, text, doing)
    name = session.engine.source.find(wanted.name, doing.allowed)
    table, _ = newest(session.tables, name)
    with (
        sources((wanted.path,), wanted.form) as named,
        listing_bad_lines(json=quiet),
    ):
        done = _written(table, named, wanted.nulls, doing, quiet=quiet)
    if isinstance(done, RowsChanged):
        return Outcome(
            statement=Kind.COPY,
            table=name,
            version=done.version,
            inserted=done.inserted,
            updated=done.updated,
            deleted=done.deleted,
            unchanged=done.unchanged,
            already=done.already,
        )
    return Outcome(
        statement=Kind.COPY,
        table=name,
        version=done.version,
        inserted=None if done.already else done.rows,
        already=done.already,
    )


def _written(
    table: Table, named: Sequence[Source], nulls: tuple[str, ...], doing: Doing, *, quiet: bool
) -> AppendedBlock | RowsChanged:
    """The rows of a file are inserted: into a table with a key, those whose key is new."""
    job, message = doing.job, doing.message
    if isinstance(table.definition.identity, Key) and not name_rows(named, table.definition):
        return change_by_files(
            table,
            named,
            nulls,
            lambda into, rows: into.insert(rows, job=job, message=message),
            quiet=quiet,
        )
    return write_files(table, named, nulls, job=job, message=message, quiet=quiet)


def _to(session: Session, wanted: Copy, text: Text, doing: Doing) -> Outcome:
    selected = replace(text, kind=Kind.SELECT, sql=wanted.query)
    reader = session.run(selected, doing).rows
    assert reader is not None, "a query has rows"
    written = 0

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal written
        for batch in reader:
            written += batch.num_rows
            yield batch

    form = "ndjson" if wanted.form is Form.JSON else str(wanted.form)
    deliver(pa.RecordBatchReader.from_batches(reader.schema, counted()), form, wanted.path)
    return Outcome(statement=Kind.COPY, written=written)


def wanted_copy(text: Text) -> Copy:
    """The clauses of a COPY. Raises BadSql, with its place, for one that Blockstore does not
    have."""
    try:
        return _read_copy(text.sql)
    except Misread as error:
        raise text.placed(error) from None


def _read_copy(source: str) -> Copy:
    cursor = Cursor(source)
    cursor.need("COPY")
    inner = cursor.one().inside() if cursor.word() == "(" else None
    name = "" if inner is not None else cursor.name("a table")
    if inner is None and cursor.word() == "(":
        raise error_at(
            source,
            cursor.here,
            "COPY has no list of columns: the first line of the file names them, and a query says "
            "which are written",
        )
    way = Way.TO if cursor.take("TO") else Way.FROM
    if way is Way.FROM:
        cursor.need("FROM")
    at = cursor.here
    path = cursor.one()
    if len(path.tokens) != 1 or not path.tokens[0].is_text:
        stream = "/dev/stdout" if way is Way.TO else "/dev/stdin"
        raise error_at(
            source,
            at,
            f"expected the path of a file in quotes, or '{stream}' (FORMAT csv) for what is piped",
        )
    form, nulls = _options(source, cursor, way)
    query = inner.text if inner is not None else f"SELECT * FROM {quoted(name)}"
    try:
        shown = form_of(path.tokens[0].text) if form is None else form
    except Invalid:
        raise error_at(
            source,
            at,
            f"the name of {path.tokens[0].text} does not show the form of the file: add "
            f"(FORMAT csv), or one of {', '.join(Form)}",
        ) from None
    file = os.path.expanduser(path.tokens[0].text)
    return Copy(name=name, query=query, way=way, path=file, form=shown, nulls=nulls)


def _options(source: str, cursor: Cursor, way: Way) -> tuple[Form | None, tuple[str, ...]]:
    """The form of the file, if an option says it, and other spellings of null."""
    cursor.take("WITH")
    form: Form | None = None
    nulls: tuple[str, ...] = ()
    if cursor.done:
        return form, nulls
    inner = cursor.one().inside()
    if inner is None or not cursor.done:
        raise error_at(source, cursor.here, "expected options in parentheses, as (FORMAT csv)")
    for option in inner.split():
        value = Piece(source, option.tokens[1:])
        match option.tokens[0].word:
            case "FORMAT":
                form = _form(value)
            case "DELIMITER" | "DELIM" | "SEP" if _text(value) in _DELIMITED:
                form = _DELIMITED[_text(value)]
            case "HEADER" if _text(value).lower() in ("", "true", "1", "on"):
                pass
            case "NULL" | "NULLSTR" if way is Way.FROM:
                nulls = (_text(value),)
            case _:
                raise error_at(
                    source,
                    option.start,
                    f"COPY has no option {option.text[:60]}: it has FORMAT {', '.join(Form)}, "
                    "DELIMITER ',' or '\\t', HEADER, and from a file NULL 'text'",
                )
    return form, nulls


def _form(value: Piece) -> Form:
    try:
        return Form(_text(value).lower())
    except ValueError:
        raise error_at(
            value.source,
            value.start,
            f"{_text(value)[:60]!r} is no form of a file, expected one of {', '.join(Form)}",
        ) from None


def _text(value: Piece) -> str:
    """The one word or text of an option; empty for another value."""
    return value.tokens[0].text if len(value.tokens) == 1 else ""
