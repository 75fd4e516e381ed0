"""Uploads: the rows of a file appended to a table, all of them exactly once, or none.

Rules:
- The rows are one block whose batch is named by the input of the request, and every request has a
  new input. So the index accepts one attempt, however many run at once or one after the other; and
  a key that is used again after its job was removed is another upload.
- The rows go to the table that existed at submission, never to a later table of the same name: the
  request contains its identity, which is compared with the table, read again, before the file is
  read and before the end.
- Every line is checked before the block is finished. The first bad one fails the job with its line,
  column, value and rule; nothing becomes visible.
- The batch contains the ULID of the input. A table forgets the batch once its floor has passed that
  ULID (30 days), and then accepts no batch with it: a later attempt fails, and reports that it is
  unknown what earlier ones did.
- Where an earlier attempt may still run somewhere, a failure or a cancellation is recorded only
  after an empty entry has taken the batch (``settle``): from then on no attempt can publish its
  block. An attempt that finds such an entry fails.
- ``wrote`` is called with the version of the rows before success is recorded, so that queries of
  this gateway read them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from blockstore.bucket import Bucket
from blockstore.cli.files import delimited
from blockstore.cli.files.bad_lines import BadRow
from blockstore.cli.files.numbered import line_of_row
from blockstore.errors import Corrupt, Invalid, NotFound
from blockstore.format.block import Job
from blockstore.format.constraints import BrokenRule
from blockstore.format.fields import required
from blockstore.index.boundary import BoundaryCounts
from blockstore.index.change import Append
from blockstore.index.state import State
from blockstore.names import JOBS
from blockstore.operations.append import AppendedBlock, earlier_block
from blockstore.operations.distributed_overwrite import commit_of
from blockstore.operations.writer import WriteOptions, Writer
from blockstore.reader.jobs.meter import Meter
from blockstore.reader.jobs.record import Failure, Request
from blockstore.reader.jobs.work import Ended, Failed, Work
from blockstore.table import Table
from blockstore.world import World

DELIMITERS = {"csv": ",", "tsv": "\t"}
"""The forms of a file that can be uploaded, with their delimiters."""

_APP = "gateway/"
_FILE = "the file"
_PIECE = 8 << 20
_BUFFER = 64 << 20
"""Rows of about this many bytes are sorted into one chunk. An upload needs a few times as much
memory."""


def identity_of(bucket: Bucket, world: World) -> tuple[int, str]:
    """The identity of the table that is there now: its version and the commit id of that version.
    It is read from the bucket, since a handle does not notice that its table was dropped and
    created again. Raises NotFound if there is no table."""
    state = Table.open_bucket(bucket, world).log.state
    return state.version, commit_of(state)


class Uploads(Work):
    """Runs uploads into tables that ``open_table`` opens for writing; ``wrote`` is called with each
    table and version written."""

    def __init__(
        self,
        bucket: Bucket,
        world: World,
        open_table: Callable[[str], Table],
        folder: Path,
        wrote: Callable[[str, int], None],
    ) -> None:
        self._bucket = bucket
        self._world = world
        self._open = open_table
        self._folder = folder
        self._wrote = wrote
        self.asked_of_boundary = BoundaryCounts()
        """The boundary requests of all attempts of this gateway."""

    @property
    def repeats(self) -> bool:
        return True

    def run(self, job: str, attempt: int, request: Request, meter: Meter) -> Ended:
        table = self._table(request)
        if table.log.state.forgot(_job(request)):
            raise Failed(_forgotten(request))
        options = WriteOptions(
            job=_job(request), producer="gateway", message=request.message, buffer_bytes=_BUFFER
        )
        writer = Writer(table.bucket, self._world, table.log, table.definition, options)
        if writer.block is not None:
            return self._ended(request, writer.block)
        try:
            with self._input(job, request, meter) as path:
                self._read(path, request, table, writer, meter)
            meter.check()
            # Reading a file takes long, and a commit continues from the version that was read: in a
            # table that was created again meanwhile, its entry would leave a gap before it, or add
            # to rows that the client never saw.
            self._reopened(table.bucket, request)
        except BaseException:
            writer.abort()
            raise
        return self._ended(request, writer.finish())

    def settle(self, job: str, request: Request) -> Ended | None:
        try:
            table = self._table(request)
        except Failed:
            return None
        if table.log.state.forgot(_job(request)):
            return None  # no attempt can publish its rows from now on
        table.log.commit(
            Append(
                commit=self._world.ids.ulid(),
                blocks=(),
                job=_job(request),
                message="an upload that was given up",
            )
        )
        done = earlier_block(table.log.state, _job(request))
        return self._ended(request, done) if done is not None and done.ulid is not None else None

    def _ended(self, request: Request, block: AppendedBlock) -> Ended:
        ended = _ended(block)
        if block.version and request.table is not None:
            self._wrote(request.table, block.version)
        return ended

    def _table(self, request: Request) -> Table:
        """The table of the request, by a handle of this attempt: the one that serves queries may
        have an old definition, or be of another table. Raises Failed if the table is gone."""
        assert request.table is not None, "an upload names its table"
        try:
            table = self._open(request.table)
        except NotFound as error:
            # Without the error's text: it may name tables that the owner may not know.
            gone = (
                f"table {request.table} no longer exists and nothing was written: list the tables"
            )
            raise Failed(Failure(error="unknown_table", message=gone)) from error
        if not table.indexed:
            raise Failed(
                Failure(
                    error="invalid",
                    message=f"table {request.table} has no index, which an upload needs to happen "
                    "exactly once: use blockstore write",
                )
            )
        return self._reopened(table.bucket, request)

    def _reopened(self, bucket: Bucket, request: Request) -> Table:
        """The table as it is now. Raises Failed if it is gone or was replaced."""
        try:
            table = Table.open_bucket(bucket, self._world)
            if table.indexed:
                table.log.boundary.counts = self.asked_of_boundary
        except NotFound as error:
            raise Failed(
                Failure(error="unknown_table", message=f"{error}; nothing was written")
            ) from error
        _check_same(table.log.state, request)
        return table

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
        except BadRow as error:
            raise Failed(_bad_row(error)) from error
        except BrokenRule as error:
            raise Failed(_bad_row(_at_line(path, delimiter, error))) from error
        except Invalid as error:
            raise Failed(
                Failure(error="bad_file", message=f"{error}; nothing was written")
            ) from error

    @contextmanager
    def _input(self, job: str, request: Request, meter: Meter) -> Iterator[Path]:
        """The uploaded file, on a local disk."""
        assert request.input_key is not None, "an upload has an input"
        there = self._bucket.path_of(request.input_key)
        if there is not None:
            yield Path(there)
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{job}-{self._world.ids.token()}"
        try:
            self._fetch(request, path, meter)
            yield path
        finally:
            path.unlink(missing_ok=True)

    def _fetch(self, request: Request, path: Path, meter: Meter) -> None:
        assert request.input_key is not None, "an upload has an input"
        digest = hashlib.sha256()
        with open(path, "wb") as file:
            for start in range(0, request.input_bytes, _PIECE):
                meter.check()
                data = self._bucket.get_range(
                    request.input_key, start, min(_PIECE, request.input_bytes - start)
                )
                digest.update(data)
                file.write(data)
        if digest.hexdigest() != request.input_sha256:
            raise Corrupt(
                f"{self._bucket.url}/{request.input_key} is not the uploaded file (its hash is "
                f"{digest.hexdigest()[:12]}…): upload the file again"
            )


def _job(request: Request) -> Job:
    """The batch of an upload: the same for all attempts of a request, different for each
    request."""
    assert request.input_key is not None, "an upload has an input"
    return Job(f"{_APP}{request.input_key.removeprefix(JOBS)}", 0)


def _check_same(state: State, request: Request) -> None:
    """Raise Failed if this is not the table that the request was made for. A table whose window of
    commits has passed the version counts as the same; a request without a version is not
    checked."""
    version, commits = request.table_version, state.commits
    if not version or commits.find(request.table_commit) == version:
        return
    if state.version >= version and not commits.covers(version):
        return
    raise Failed(
        Failure(
            error="replaced",
            message=f"table {request.table} was dropped and created again after this upload was "
            "submitted: nothing was written; check the table, then upload again",
        )
    )


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


def _forgotten(request: Request) -> Failure:
    return Failure(
        error="forgotten",
        message=f"this upload is older than what table {request.table} remembers, so it is unknown "
        "whether an earlier attempt wrote its rows; this attempt wrote nothing: check the table, "
        "then upload what is missing",
    )


def _bad_row(error: BadRow) -> Failure:
    detail = {"line": error.line, "column": error.column, "value": error.value, "rule": error.rule}
    return Failure(error="bad_row", message=str(error), detail=detail)


def _ended(block: AppendedBlock) -> Ended:
    """What was written. Raises Failed if an empty entry took the batch, before this attempt or
    during it."""
    empty_file = block.ulid is None and not block.already
    # A block with a job is visible only by its entry: an unpublished one will never be visible.
    visible = block.ulid is not None and block.published
    if not (visible or empty_file):
        raise Failed(
            Failure(
                error="given_up",
                message="another attempt gave up this upload: nothing was written; upload it again",
            )
        )
    return Ended(
        written={
            "ulid": block.ulid,
            "version": block.version,
            "rows": block.rows,
            "bytes": block.bytes,
        }
    )
