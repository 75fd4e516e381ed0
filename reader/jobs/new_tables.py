"""New tables, as jobs create them: empty, of the rows of a query, or in the place of a former one.

Rules:
- A creation cannot be given up before there is a table. If a creation is cancelled while an attempt
  still runs somewhere, that attempt may create the table, complete and empty.
- A table that another program has created under the name is a conflict; it is never altered.
- CREATE TABLE … AS makes the table, and then its rows by a batch of their own: an attempt goes on
  with the table of an earlier one. What refuses the rows, and what gives the job up, drops the
  table while it is empty; rows that come later find it dropped.
- CREATE OR REPLACE drops the table that there was when it was sent, by a batch of its own, and no
  other. A job that is given up between that and the creation brings the dropped table back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from enum import IntEnum
from pathlib import Path
from typing import Any

import pyarrow as pa

from blockstore.bucket import Bucket
from blockstore.bucket.prefixed import Prefixed
from blockstore.errors import BlockstoreError, Conflict, Invalid, NotFound
from blockstore.format.block import Job
from blockstore.format.definition import Definition
from blockstore.index import log as index_log
from blockstore.index.change import Append
from blockstore.index.log import Log
from blockstore.index.presence import exists
from blockstore.index.rules import batch_done
from blockstore.operations.append import earlier_block
from blockstore.operations.drop import drop_table, undrop_table
from blockstore.operations.place import check_place
from blockstore.reader.jobs.bodies import definition_of
from blockstore.reader.jobs.definitions import (
    created,
    may_exist,
    of_body,
    query_of,
)
from blockstore.reader.jobs.meter import Meter, Stop, Stopped
from blockstore.reader.jobs.record import Request
from blockstore.reader.jobs.work import Ended, Failed
from blockstore.reader.jobs.writing import Writing, forgotten, job_of
from blockstore.reader.query.admission import Budget
from blockstore.reader.query.answer import Answer
from blockstore.reader.query.engine import Engine
from blockstore.reader.statements.first_rows import after_all, after_first, append_first
from blockstore.reader.statements.texts import Text
from blockstore.table import Table
from blockstore.world import World

NOTHING_TO_DO = Ended(written={"version": None})
"""The end of a statement with IF EXISTS or IF NOT EXISTS that has nothing to do."""


_GIVEN_UP = "the statement that was to replace it was given up"


class NewTables(Writing):
    """Creates tables; ``lake`` is where, ``appeared`` is called with the name of each, and
    ``bucket_of`` also returns the bucket of a dropped table."""

    def __init__(
        self,
        bucket: Bucket,
        world: World,
        open_table: Callable[[str], Table],
        folder: Path,
        wrote: Callable[[str, int], None],
        *,
        lake: Bucket,
        appeared: Callable[[str], None],
        bucket_of: Callable[[str], Bucket],
        engine: Engine,
        time_limit_s: float,
    ) -> None:
        super().__init__(bucket, world, open_table, folder, wrote)
        self._time_limit_s = time_limit_s
        self._lake = lake
        self._appeared = appeared
        self._bucket_of = bucket_of
        self._engine = engine

    def _place(self, request: Request) -> Bucket:
        """Where the table is made: where that is which it replaces, or in the lake."""
        assert request.table is not None, "a job that writes names its table"
        if _replaces(request):
            return self._bucket_of(request.table)
        return Prefixed(self._lake, request.table)

    def _settled(self, request: Request, *, with_rows: bool) -> Ended | None:
        """The creation as it is left where its job is given up; None where there is no table."""
        assert request.table is not None, "a job that writes names its table"
        bucket = self._place(request)
        try:
            made = self._made(request, bucket)
        except (Conflict, Failed):
            return None
        if made is None:
            self._keep_former(request, bucket)
            return None
        if not with_rows:
            return self._created(request, made)
        done = self._rows_of(request, bucket)
        if done is None:
            self._drop_empty(request.table, made)
            done = self._rows_of(request, bucket)
        return done

    def _create(self, request: Request, body: Mapping[str, Any]) -> Ended:
        assert request.table is not None, "a job that writes names its table"
        bucket = self._place(request)
        if "sql" not in body:
            return self._new(request, bucket, definition_of(body))
        text = of_body(self._engine, body)
        try:
            return self._new(request, bucket, created(self._engine, text))
        except Conflict:
            if may_exist(text) and exists(bucket):
                return NOTHING_TO_DO
            self._undo(request, bucket)
            raise
        except (Invalid, NotFound):
            self._undo(request, bucket)
            raise

    def _create_as(self, request: Request, body: Mapping[str, Any], meter: Meter) -> Ended:
        assert request.table is not None, "a job that writes names its table"
        bucket = self._place(request)
        text = of_body(self._engine, body)
        try:
            made = self._made(request, bucket)
        except Conflict:
            if may_exist(text):
                return NOTHING_TO_DO
            raise
        done = None if made is None else self._rows_of(request, bucket)
        if done is not None:
            return done
        try:
            try:
                self._fill(request, bucket, text, meter)
            except Exception:
                meter.check()
                raise
        except Stopped as error:
            if error.reason is not Stop.CLOSING:
                self._undo(request, bucket)
            raise
        except (Invalid, NotFound, Conflict):
            self._undo(request, bucket)
            raise
        done = self._rows_of(request, bucket)
        assert done is not None, "the rows were appended"
        return done

    def _fill(self, request: Request, bucket: Bucket, text: Text, meter: Meter) -> None:
        """Create the table, unless an earlier attempt did, and append its rows."""
        query = query_of(text)
        assert query is not None, "the job has a query"
        answer = self._engine.run(
            query,
            allowed=request.allowed,
            budget=Budget(seconds=self._time_limit_s),
            began=meter.interruptible,
        )

        def metered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                # Where a former table is dropped by now, nothing but its successor helps.
                if not _replaces(request):
                    meter.check()
                yield batch
                meter.advance(rows=batch.num_rows)

        # The first rows come before the table: most of what is wrong with a query shows there.
        # Where a table goes for it, all of them do, and are checked.
        with answer:
            definition = created(self._engine, text, answer.schema)
            with self._gathered(request, answer, definition) as batches:
                meter.check()
                log = self._begun(request, bucket, definition)
                self._created(request, log)
                table = Table(bucket, self._world, log)
                rows = pa.RecordBatchReader.from_batches(answer.schema, metered(batches))
                append_first(table, rows, request.message, _job(request, _Step.ROWS))

    def _gathered(
        self, request: Request, answer: Answer, definition: Definition
    ) -> AbstractContextManager[Iterator[pa.RecordBatch]]:
        if not _replaces(request):
            return after_first(answer)
        self._folder.mkdir(parents=True, exist_ok=True)
        return after_all(answer, definition, self._folder, self._engine.share.spill_bytes)

    def _rows_of(self, request: Request, bucket: Bucket) -> Ended | None:
        """The rows that an attempt has written to the new table, none among them; None before."""
        assert request.table is not None, "a job that writes names its table"
        state = Table.open_bucket(bucket, self._world, dropped=True).log.state
        job = _job(request, _Step.ROWS)
        block = earlier_block(state, job)
        if block is None:
            return None
        written = state.batches[job.app].written(job.batch)
        if written is not None:
            self._wrote(request.table, written.version)
        version = None if written is None else written.version
        return Ended(written={"version": version, "rows": block.rows, "inserted": block.rows})

    def _undo(self, request: Request, bucket: Bucket) -> None:
        """Drop the table that this job has made and not filled. Where that fails, what gives the
        job up does it."""
        with suppress(BlockstoreError, Failed):
            made = self._made(request, bucket)
            if made is None and _replaces(request):
                self._bring_back(request, self._reopened(bucket, request, dropped=True).log)
            elif made is not None and self._rows_of(request, bucket) is None:
                assert request.table is not None, "a job that writes names its table"
                self._drop_empty(request.table, made)

    def _drop_empty(self, name: str, log: Log) -> None:
        """Drop the table that this job has made."""
        state = log.state
        if state.dropped is None:
            with suppress(Conflict):  # its rows have come just now, or another table
                why = "its first rows were refused"
                version = drop_table(
                    log, self._world, message=why, empty=True, created=state.created
                )
                self._wrote(name, version)

    def _new(self, request: Request, bucket: Bucket, definition: Definition) -> Ended:
        return self._created(request, self._begun(request, bucket, definition))

    def _begun(self, request: Request, bucket: Bucket, definition: Definition) -> Log:
        """The empty table, made by this attempt or by an earlier one."""
        log = self._made(request, bucket)
        if log is None:
            if _replaces(request):
                self._drop_former(request, bucket)
            check_place(bucket, self._world, index=True)
            try:
                job = _job(request, _Step.CREATE)
                log = index_log.create(bucket, self._world, definition, job=job, program="gateway")
            except Conflict:
                log = self._made(request, bucket)
                if log is None:
                    raise
        return log

    def _drop_former(self, request: Request, bucket: Bucket) -> None:
        """Drop the table that there was when the request was made. Raises Failed for another."""
        log = self._reopened(bucket, request, dropped=True).log
        if log.state.dropped is None:
            job = _job(request, _Step.DROP)
            drop_table(log, self._world, message=request.message, job=job)

    def _keep_former(self, request: Request, bucket: Bucket) -> None:
        """See to it that the table which this job was to replace is there, and that no attempt
        drops it later: the batch of the drop is taken."""
        if not _replaces(request):
            return
        with suppress(NotFound, Conflict, Failed):  # another is there by now, or has come just then
            log = self._reopened(bucket, request, dropped=True).log
            commit, job = self._world.ids.ulid(), _job(request, _Step.DROP)
            log.commit(Append(commit=commit, blocks=(), job=job, message=_GIVEN_UP))
            self._bring_back(request, log)

    def _bring_back(self, request: Request, log: Log) -> None:
        """Bring back the table that this job has dropped and not replaced."""
        dropped = log.state.dropped
        done = batch_done(log.state, _job(request, _Step.DROP), ordered=False)
        if dropped is not None and done is not None and done.version == dropped.version:
            version = undrop_table(log, self._world, message=_GIVEN_UP)
            self._wrote(str(request.table), version)

    def _made(self, request: Request, bucket: Bucket) -> Log | None:
        """The table that an earlier attempt has made. Raises Conflict for another one, unless this
        job replaces one."""
        try:
            log = Table.open_bucket(bucket, self._world, dropped=True).log
        except NotFound:
            return None
        job = _job(request, _Step.CREATE)
        app = log.state.batches.get(job.app)
        if app is None or job.batch not in app:
            if log.state.forgot(job):
                raise Failed(forgotten(request))
            if log.state.dropped is not None or _replaces(request):
                return None
            raise Conflict(f"there is already a table {request.table}: choose another name")
        return log

    def _created(self, request: Request, log: Log) -> Ended:
        assert request.table is not None, "a job that writes names its table"
        self._appeared(request.table)
        self._wrote(request.table, log.state.version)
        return Ended(written={"version": log.state.created})


class _Step(IntEnum):
    """The batches of a job, in their order."""

    DROP = -1
    """Of the table that is replaced."""
    CREATE = 0
    ROWS = 1


def _replaces(request: Request) -> bool:
    """Whether the request names a table that there was, which a new one replaces."""
    return bool(request.table_version)


def _job(request: Request, step: _Step) -> Job:
    """The batch of a step."""
    return replace(job_of(request), batch=step + _replaces(request))
