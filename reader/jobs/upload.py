"""A file of rows appended to a table: all of them, once, or none.

Rules:
- The rows are one block whose batch is named by the request's input, which is drawn anew for each
  request: however many attempts run, at once or one after the other, the index takes one; and a key
  that is used again after its job was removed is another upload.
- The rows go to the table that was looked at when they were brought, and to no other that was made
  anew under its name: its identity is in the request, and is compared with the table read anew,
  before the file is read and before the end.
- Every line is checked before the block is finished. The first bad one fails the job, with its
  line, column, value and rule; nothing is visible.
- The batch bears the ULID that was drawn for the input. A table forgets it once its floor has
  passed that (30 days), and takes no batch of it any more: an attempt that comes later fails, and
  says that nobody can tell what those before it did.
- Where an earlier attempt may still be running somewhere, failure and cancellation are told only
  once the batch is taken by an empty entry (``settle``): after that no attempt can publish its
  block. An attempt that finds it so fails.
- Before it is told that the rows are there, ``wrote`` hears of their version: queries of this
  gateway then read them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from blockstore.bucket import Bucket
from blockstore.cli.files import delimited
from blockstore.cli.files.numbered import BadRow, line_of_row
from blockstore.errors import Corrupt, Invalid, NotFound
from blockstore.format.block import Job
from blockstore.format.fields import required
from blockstore.index.boundary import BoundaryCounts
from blockstore.index.change import Append
from blockstore.index.state import State
from blockstore.names import JOBS
from blockstore.operations.append import AppendedBlock, earlier_block
from blockstore.operations.begun import commit_of
from blockstore.operations.writer import WriteOptions, Writer
from blockstore.reader.jobs.meter import Meter
from blockstore.reader.jobs.record import Failure, Request
from blockstore.reader.jobs.work import Ended, Failed, Work
from blockstore.table import Table
from blockstore.world import World

__all__ = ["DELIMITERS", "Uploads", "identity_of"]

DELIMITERS = {"csv": ",", "tsv": "\t"}
"""The forms of a file that can be uploaded."""

_APP = "gateway/"
_FILE = "the file"
_PIECE = 8 << 20
_BUFFER = 64 << 20
"""Rows of about so many bytes are sorted and become one chunk: what an upload takes of memory, a
few times over."""


def identity_of(bucket: Bucket, world: World) -> tuple[int, str]:
    """The version of the table that stands there now, and its commit id: what an upload keeps of
    its table. Read anew, since a handle does not notice that its table was dropped and made anew.
    Raises NotFound if there is none."""
    state = Table.open_bucket(bucket, world).log.state
    return state.version, commit_of(state)


class Uploads(Work):
    """Runs uploads into tables that ``open_table`` opens for writing;

    ``wrote`` hears of each table and version.
    """

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
        """What all attempts here have asked of boundaries."""

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
            # Reading a file takes long, and a commit goes on from the version that was read: in a
            # table made anew meanwhile its entry would leave a hole before it, or stand among rows
            # that the asker never saw.
            self._anew(table.bucket, request)
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
            return None  # no attempt can publish its rows any more
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
        """The table that was asked for, by a handle of this attempt: one that is held for reading
        may know an old definition, or another table. Raises Failed where there is no such table any
        more."""
        assert request.table is not None, "an upload names its table"
        try:
            table = self._open(request.table)
        except NotFound as error:
            # Not in the error's words: they may name tables that whoever asked may not know of.
            gone = (
                f"there is no table {request.table} any more: nothing was written; look at what "
                "tables there are"
            )
            raise Failed(Failure(error="unknown_table", message=gone)) from error
        if not table.indexed:
            raise Failed(
                Failure(
                    error="invalid",
                    message=f"table {request.table} has no index, and an upload happens once by "
                    "its entry there: write to it "
                    "with blockstore write",
                )
            )
        return self._anew(table.bucket, request)

    def _anew(self, bucket: Bucket, request: Request) -> Table:
        """The table as it is now. Raises Failed if it is gone, or is another."""
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
        except Invalid as error:
            raise Failed(
                Failure(error="bad_file", message=f"{error}; nothing was written")
            ) from error

    @contextmanager
    def _input(self, job: str, request: Request, meter: Meter) -> Iterator[Path]:
        """The file that was brought, on this machine's disk."""
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
                f"{self._bucket.url}/{request.input_key} is not what was brought (its hash is "
                f"{digest.hexdigest()[:12]}…): "
                "upload the file again"
            )


def _job(request: Request) -> Job:
    """The batch of an upload: the same for all attempts of a request, another for every request."""
    assert request.input_key is not None, "an upload has an input"
    return Job(f"{_APP}{request.input_key.removeprefix(JOBS)}", 0)


def _check_same(state: State, request: Request) -> None:
    """Raise Failed if this is not the table that the request was made for. One that has left its
    window of commits behind since then counts as the same; a request that names no version is not
    judged."""
    version, commits = request.table_version, state.commits
    if not version or commits.find(request.table_commit) == version:
        return
    if state.version >= version and not commits.covers(version):
        return
    raise Failed(
        Failure(
            error="replaced",
            message=f"table {request.table} was dropped and made anew since this upload was asked "
            "for: nothing was written; "
            "look at it, then upload again",
        )
    )


def _check_filled(
    path: Path, delimiter: str, batch: pa.RecordBatch, need: set[str | None], first_row: int
) -> None:
    """Raise Failed for the first row that leaves a column empty which must not be."""
    empty = {
        name: batch.column(name).is_null().index(True).as_py()
        for name in need
        if name is not None and batch.column(name).null_count
    }
    if not empty:
        return
    column = min(empty, key=lambda name: (empty[name], batch.schema.get_field_index(name)))
    line = line_of_row(str(path), _FILE, delimiter, first_row + empty[column])
    raise Failed(
        _bad_row(
            BadRow(
                f"{_FILE}, line {line}: column {column!r} is empty, and the table takes no null "
                "there: mend the value; nothing "
                "was written",
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
        message=f"table {request.table} has forgotten the uploads of the time when this one was "
        "asked for: whether an earlier "
        "attempt wrote its rows, nobody can tell; this one wrote nothing; look at the table, then "
        "upload what is missing",
    )


def _bad_row(error: BadRow) -> Failure:
    detail = {"line": error.line, "column": error.column, "value": error.value, "rule": error.rule}
    return Failure(error="bad_row", message=str(error), detail=detail)


def _ended(block: AppendedBlock) -> Ended:
    """What was written.

    Raises Failed where the batch was taken by an empty entry, before this attempt or while it
    wrote.
    """
    empty_file = block.ulid is None and not block.already
    # A block with a job is visible by its entry alone: one that is not published never will be.
    visible = block.ulid is not None and block.published
    if not (visible or empty_file):
        raise Failed(
            Failure(
                error="given_up",
                message="another attempt gave this upload up: nothing was written; upload it again",
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
