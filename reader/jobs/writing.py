"""What jobs have in common that write to a table.

Rules:
- The batch of a job is named by the input of its request, and every request has a new input. So the
  index accepts one attempt, however many run at once or one after the other; and a key that is used
  again after its job was removed is another job.
- A job is for the table that existed at submission, never for a later table of the same name: the
  request contains its identity, which is compared with the table, read again, before the job begins
  and before its end.
- The batch contains the ULID of the input. A table forgets the batch once its floor has passed that
  ULID (30 days), and then accepts no batch with it: a later attempt fails, and reports that it is
  unknown what earlier ones did.
- Where an earlier attempt may still run somewhere, a failure or a cancellation is recorded only
  after an empty entry has taken the batch (``settle``): from then on no attempt can commit. An
  attempt that finds such an entry fails.
- ``wrote`` is called with the version before success is recorded, so that queries of this gateway
  read it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from blockstore.bucket import Bucket
from blockstore.errors import Corrupt, NotFound, VersionExpired
from blockstore.format.block import Job
from blockstore.index.boundary import BoundaryCounts
from blockstore.index.change import Append
from blockstore.index.entry import Operation
from blockstore.index.state import State
from blockstore.names import JOBS
from blockstore.operations.access import Access
from blockstore.operations.append import AppendedBlock, earlier_block
from blockstore.operations.distributed_overwrite import commit_of
from blockstore.reader.jobs.meter import Meter
from blockstore.reader.jobs.record import Failure, Request
from blockstore.reader.jobs.work import Ended, Failed, Work
from blockstore.rows.results import RowsChanged
from blockstore.table import Table
from blockstore.world import World

BUFFER_BYTES = 64 << 20
"""Rows of about this many bytes are sorted into one chunk. A job needs a few times as much
memory."""
_APP = "gateway/"
_PIECE = 8 << 20


def identity_of(bucket: Bucket, world: World, *, dropped: bool = False) -> tuple[int, str]:
    """The identity of the table that is there now, or with ``dropped`` was: its version and the
    commit id of that version. It is read from the bucket, since a handle may not have noticed that
    its table was dropped and created again. Raises NotFound if there is no table."""
    state = Table.open_bucket(bucket, world, dropped=dropped).log.state
    return state.version, commit_of(state)


class Writing(Work):
    """A job that writes to tables, which ``open_table`` opens for writing; ``wrote`` is called with
    each table and version written."""

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

    def settle(self, job: str, request: Request) -> Ended | None:
        try:
            table = self._table(request)
        except Failed:
            return None
        if table.log.state.forgot(job_of(request)):
            return None  # no attempt can publish its rows from now on
        table.log.commit(
            Append(
                commit=self._world.ids.ulid(),
                blocks=(),
                job=job_of(request),
                message="a job of a gateway that was given up",
            )
        )
        done = earlier_result(table, request)
        return None if done is None or gave_nothing(done) else self._ended(request, done)

    def _done_before(self, table: Table, request: Request) -> Ended | None:
        """The effect of an earlier attempt. Raises Failed where it was given up, or may be
        forgotten."""
        if table.log.state.forgot(job_of(request)):
            raise Failed(forgotten(request))
        done = earlier_result(table, request)
        return None if done is None else self._ended(request, done)

    def _changed(self, request: Request, did: RowsChanged, table: Table) -> Ended:
        """The end of a change of rows."""
        if did.already:
            before = self._done_before(table, request)
            assert before is not None, "the change says so"
            return before
        if did.version and request.table is not None:
            self._wrote(request.table, did.version)
        return Ended(written=changed(did))

    def _ended(self, request: Request, block: AppendedBlock) -> Ended:
        ended = written_by(block)
        if block.version and request.table is not None:
            self._wrote(request.table, block.version)
        return ended

    def _table(self, request: Request) -> Table:
        """The table of the request, by a handle of this attempt: the one that serves queries may
        have an old definition, or be of another table. Raises Failed if the table is gone."""
        assert request.table is not None, "a job that writes names its table"
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

    def _reopened(self, bucket: Bucket, request: Request, *, dropped: bool = False) -> Table:
        """The table as it is now, or with ``dropped`` was. Raises Failed if it is gone or was
        replaced."""
        try:
            table = Table.open_bucket(bucket, self._world, dropped=dropped)
            if table.indexed:
                table.log.boundary.counts = self.asked_of_boundary
        except NotFound as error:
            raise Failed(
                Failure(error="unknown_table", message=f"{error}; nothing was written")
            ) from error
        check_same(table.log.state, request)
        return table

    @contextmanager
    def _input(self, job: str, request: Request, meter: Meter) -> Iterator[Path]:
        """The uploaded file, on a local disk."""
        assert request.input_key is not None, "a job that writes has an input"
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
        assert request.input_key is not None, "a job that writes has an input"
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


def access_of(table: Table) -> Access:
    """The table, for operations on its rows."""
    return Access(bucket=table.bucket, world=table.world, log=table.log, catalog=table.catalog)


def changed(did: RowsChanged) -> dict[str, object]:
    """What a change of rows wrote, as a job reports it."""
    counts = (did.inserted, did.updated, did.deleted)
    return {
        "ulid": did.blocks[0] if did.blocks else None,
        "version": did.version,
        "rows": None if None in counts else sum(one or 0 for one in counts),
        "inserted": did.inserted,
        "updated": did.updated,
        "deleted": did.deleted,
        "unchanged": did.unchanged,
        **({} if did.cells is None else {"cells": dict(did.cells)}),
    }


def job_of(request: Request) -> Job:
    """The batch of a job that writes: the same for all attempts of a request, different for each
    request."""
    assert request.input_key is not None, "a job that writes has an input"
    return Job(f"{_APP}{request.input_key.removeprefix(JOBS)}", 0)


def check_same(state: State, request: Request) -> None:
    """Raise Failed if this is not the table that the request was made for. A table whose window of
    commits has passed the version counts as the same; a request without a version is not
    checked."""
    version, commits = request.table_version, state.commits
    same = not version or commits.find(request.table_commit) == version
    forgot = state.version >= version and not commits.covers(version)
    if (same or forgot) and not 0 < version < state.created:
        return
    raise Failed(
        Failure(
            error="replaced",
            message=f"table {request.table} was dropped and created again after this job was "
            "submitted: nothing was written; check the table, then submit it again",
        )
    )


def gave_up() -> Failure:
    """An empty entry has taken the batch of the job."""
    return Failure(
        error="given_up",
        message="another attempt gave up this job: nothing was written; submit it again",
    )


def forgotten(request: Request) -> Failure:
    return Failure(
        error="forgotten",
        message=f"this job is older than what table {request.table} remembers, so it is unknown "
        "whether an earlier attempt wrote its rows; this attempt wrote nothing: check the table, "
        "then submit what is missing",
    )


def earlier_result(table: Table, request: Request) -> AppendedBlock | None:
    """What took the batch of a request: a block, the version of a change that wrote none (all rows
    of the blocks that it replaces go), or the empty entry of a job that was given up, which is an
    append. None if nothing did. Raises Failed where that is no longer known."""
    state, job = table.log.state, job_of(request)
    done = earlier_block(state, job)
    if done is None or done.ulid is not None:
        return done
    taken = state.batches[job.app].written(job.batch)
    if taken is None:
        raise Failed(forgotten(request))
    try:
        (entry,) = table.log.entries(taken.version, taken.version)
    except VersionExpired as error:
        raise Failed(forgotten(request)) from error
    return done if entry.operation == Operation.APPEND else replace(done, version=taken.version)


def gave_nothing(block: AppendedBlock) -> bool:
    """Whether it is the empty entry of a job that was given up."""
    return block.already and block.ulid is None and block.version is None


def written_by(block: AppendedBlock) -> Ended:
    """What was written. Raises Failed if an empty entry took the batch, before this attempt or
    during it."""
    # A block with a job is visible only by its entry: an unpublished one will never be visible.
    if gave_nothing(block) or not (block.ulid is None or block.published):
        raise Failed(gave_up())
    return Ended(
        written={
            "ulid": block.ulid,
            "version": block.version,
            "rows": block.rows,
            "bytes": block.bytes,
        }
    )
