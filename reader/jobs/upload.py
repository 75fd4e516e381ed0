"""Uploads: the rows of a file written to a table, all of them exactly once, or none. A file is CSV
or TSV, or an Arrow stream (``arrow_file.py``).

Rules:
- New rows are one block. A file that begins with ``_row_id,_version`` (with a key: ``_version``)
  also changes rows, and is one version too.
- Every line is checked before anything is committed. Wrong ones fail the job, each with its line,
  column, value and rule; nothing becomes visible.
- A row whose version is not the current one is a wrong line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

from blockstore.cli.files import delimited
from blockstore.cli.files.bad_lines import BadRow
from blockstore.cli.files.forms import Form
from blockstore.cli.files.numbered import line_of_row
from blockstore.cli.files.row_files import RowFiles, name_rows
from blockstore.cli.files.source import FileRows, Source
from blockstore.errors import Invalid, RowConflict
from blockstore.format.constraints import BrokenRule
from blockstore.format.fields import required
from blockstore.operations.writer import WriteOptions, Writer
from blockstore.reader.jobs.arrow_file import ARROW, ArrowRows, Mode, applied, replaced
from blockstore.reader.jobs.failures import broken, conflict
from blockstore.reader.jobs.meter import Meter
from blockstore.reader.jobs.record import Failure, Request
from blockstore.reader.jobs.work import Ended, Failed
from blockstore.reader.jobs.writing import BUFFER_BYTES, Writing, access_of, job_of
from blockstore.rows.attempts import Said
from blockstore.rows.insert import insert, upsert
from blockstore.rows.labelled import labels_of
from blockstore.rows.results import RowsChanged
from blockstore.rows.row_set import put_rows
from blockstore.table import Table

DELIMITERS = {"csv": ",", "tsv": "\t"}
"""The forms of a file that can be uploaded, with their delimiters."""

APPEND, UPSERT, INSERT = "append", "upsert", "insert"
"""What is done with the rows of a file: new ones are added and named ones changed; or each becomes
the current one of its key; or keys that exist are refused."""

_FILE = "the file"


class Uploads(Writing):
    """Runs uploads."""

    def run(self, job: str, attempt: int, request: Request, meter: Meter) -> Ended:
        table = self._table(request)
        before = self._done_before(table, request)
        if before is not None:
            return before
        with self._input(job, request, meter) as path:
            if request.form == ARROW:
                return self._arrow(path, request, table, meter)
            source = Source(
                path=str(path), name=_FILE, form=Form(request.form), bytes=request.input_bytes
            )
            if request.what in (UPSERT, INSERT) or _name_rows(source, table):
                return self._change(source, request, table, meter)
            return self._append(path, request, table, meter)

    def _arrow(self, path: Path, request: Request, table: Table, meter: Meter) -> Ended:
        """Write the rows of an Arrow stream."""
        rows = ArrowRows(path, meter, lambda: self._check_before_end(request, table, meter))
        try:
            did = applied(table, rows, Mode(request.what), job_of(request), request.message)
        except BrokenRule as error:
            raise Failed(broken(error)) from error
        except (Invalid, RowConflict) as error:
            raise _failed(error) from error
        match did:
            case Writer():
                return self._ended(request, did.finish())
            case RowsChanged():
                return self._changed(request, did, table)
        before = self._done_before(table, request) if did.already else None
        if did.version is not None and request.table is not None:
            self._wrote(request.table, did.version)
        return replaced(did) if before is None else before

    def _append(self, path: Path, request: Request, table: Table, meter: Meter) -> Ended:
        options = WriteOptions(
            job=job_of(request),
            producer="gateway",
            message=request.message,
            buffer_bytes=BUFFER_BYTES,
        )
        writer = Writer(table.bucket, self._world, table.log, table.definition, options)
        try:
            self._read(path, request, table, writer, meter)
            self._check_before_end(request, table, meter)
        except BaseException:
            writer.abort()
            raise
        return self._ended(request, writer.finish())

    def _check_before_end(self, request: Request, table: Table, meter: Meter) -> None:
        """Reading a file takes long, and a commit continues from the version that was read: in a
        table that was created again meanwhile, its entry would leave a gap before it, or add to
        rows that the client never saw."""
        meter.check()
        self._reopened(table.bucket, request)

    def _change(self, source: Source, request: Request, table: Table, meter: Meter) -> Ended:
        """Write a file that changes rows."""
        access, definition = access_of(table), table.definition
        labels = labels_of(access.log.state)
        said = Said(job=job_of(request), message=request.message, buffer_bytes=BUFFER_BYTES)
        need = {*required(definition.schema)} | ({definition.time_column} - {None})

        def advance(size: float) -> None:
            meter.advance(size=size)

        def rows() -> Iterator[pa.RecordBatch]:
            first = 0
            for batch in files():
                meter.check()
                _check_filled(Path(source.path), DELIMITERS[request.form], batch, need, first)
                yield batch
                first += batch.num_rows
                meter.advance(rows=batch.num_rows)
            self._check_before_end(request, table, meter)

        files: Callable[[], Iterator[pa.RecordBatch]]
        if request.what in (UPSERT, INSERT):
            schema = definition.schema
            plain = FileRows([source], schema, request.nulls, advance, labels)
            files = plain.__iter__
            do = upsert if request.what == UPSERT else insert
            try:
                did = do(access, rows, said)
            except RowConflict as error:
                raise _failed(error) from error
            except Invalid as error:
                raise _failed(plain.placed(error)) from error
        else:
            files = named = RowFiles([source], definition, request.nulls, advance, labels)
            try:
                did = put_rows(access, rows, said, on_conflict="fail")
            except (Invalid, RowConflict) as error:
                raise _failed(named.placed(error)) from error
        return self._changed(request, did, table)

    def _read(
        self, path: Path, request: Request, table: Table, writer: Writer, meter: Meter
    ) -> None:
        schema, delimiter = table.definition.schema, DELIMITERS[request.form]
        need = {*required(schema)} | ({table.definition.time_column} - {None})
        first_row = 0
        try:
            for batch in delimited.read(
                str(path),
                _FILE,
                schema,
                delimiter=delimiter,
                nulls=request.nulls,
                advance=lambda size: meter.advance(size=size),
            ):
                meter.check()
                _check_filled(path, delimiter, batch, need, first_row)
                writer.write(batch)
                first_row += batch.num_rows
                meter.advance(rows=batch.num_rows)
        except BrokenRule as error:
            raise _failed(_at_line(path, delimiter, error)) from error
        except Invalid as error:
            raise _failed(error) from error


def _at_line(path: Path, delimiter: str, error: BrokenRule) -> BadRow:
    """The error of a row that breaks a rule, with its line."""
    assert error.row is not None, "a row breaks the rule"
    line = line_of_row(str(path), _FILE, delimiter, error.row)
    return BadRow(
        f"{_FILE}, line {line}: {error}; nothing was written",
        line=line,
        column=error.column,
        value=error.value,
        rule=error.rule,
    )


def _check_filled(
    path: Path, delimiter: str, batch: pa.RecordBatch, need: set[str | None], first_row: int
) -> None:
    """Raise Failed for the first row with an empty value in a column that must not be null."""
    empty = {
        name: batch.column(name).is_null().index(True).as_py()
        for name in need
        if name is not None and name in batch.schema.names and batch.column(name).null_count
    }
    if not empty:
        return
    column = min(empty, key=lambda name: (empty[name], batch.schema.get_field_index(name)))
    line = line_of_row(str(path), _FILE, delimiter, first_row + empty[column])
    raise Failed(
        _bad_row(
            BadRow(
                f"{_FILE}, line {line}: column {column!r} is empty but must not be null: fix the "
                "value; nothing was written",
                line=line,
                column=column,
                value="",
                rule="not null",
            )
        )
    )


def _name_rows(source: Source, table: Table) -> bool:
    try:
        return name_rows([source], table.definition)
    except Invalid as error:
        raise _failed(error) from error


def _failed(error: Exception) -> Failed:
    """The failure of a file that is refused."""
    if isinstance(error, BadRow):
        return Failed(_bad_row(error))
    if isinstance(error, RowConflict):
        if not error.rows:
            raise error  # others change the table all the time: another attempt follows
        return Failed(conflict(error))
    return Failed(Failure(error="bad_file", message=f"{error}; nothing was written"))


def _bad_row(error: BadRow) -> Failure:
    detail = {"line": error.line, "column": error.column, "value": error.value, "rule": error.rule}
    lines = [
        {"line": one.line, "column": one.column, "value": one.value, "rule": one.rule}
        for one in error.lines
    ]
    return Failure(error="bad_row", message=str(error), detail={**detail, "lines": lines})
