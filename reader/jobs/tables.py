"""Tables that are created, altered, dropped or brought back by a job.

Rules:
- The entry that does it names the job, so that an attempt after it finds it done, and none happens
  twice.
- A creation cannot be given up before there is a table. If a creation is cancelled while an attempt
  still runs somewhere, that attempt may create the table, complete and empty.
- A table that another program has created under the name is a conflict; it is never altered.
- CREATE TABLE … AS makes the table, and then its rows by a batch of their own: an attempt goes on
  with the table of an earlier one. What refuses the rows, and what gives the job up, drops the
  table while it is empty; rows that come later find it dropped.
- A request without a table is a statement that found nothing to do when it was sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from blockstore.bucket import Bucket
from blockstore.bucket.prefixed import Prefixed
from blockstore.cli.failure import Usage
from blockstore.cli.rules import with_rules
from blockstore.cli.schema_text import parse_schema
from blockstore.errors import BlockstoreError, Conflict, Invalid, NotFound
from blockstore.format.block import Job
from blockstore.format.definition import Definition
from blockstore.format.evolution import Alteration
from blockstore.format.properties import Properties
from blockstore.index import log as index_log
from blockstore.index.change import Append
from blockstore.index.entry import Operation
from blockstore.index.log import Log
from blockstore.index.presence import exists
from blockstore.names import is_ulid
from blockstore.operations.alter import alter
from blockstore.operations.append import earlier_block
from blockstore.operations.drop import drop_table, undrop_table
from blockstore.operations.place import check_place
from blockstore.reader.jobs.definitions import altered, created, may_exist, of_body, query_of
from blockstore.reader.jobs.meter import Meter, Stop, Stopped
from blockstore.reader.jobs.record import Failure, Request
from blockstore.reader.jobs.work import Ended, Failed
from blockstore.reader.jobs.writing import Writing, forgotten, gave_up, job_of
from blockstore.reader.query.admission import Budget
from blockstore.reader.query.engine import Engine
from blockstore.reader.statements.first_rows import after_first
from blockstore.reader.statements.texts import Text
from blockstore.table import Table
from blockstore.world import World

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,199}")
RULES = ("max_length", "pattern", "default", "check", "description")
"""The rules of a column, beside whether it may be null."""
_TAKEN = frozenset({"files", "gc", "index", "jobs"})
"""Folders of a lake, or of a table, that are not tables."""


class What(StrEnum):
    """What is done to a table."""

    CREATE = "create"
    CREATE_AS = "create_as"
    """With the rows of a query."""
    ALTER = "alter"
    DROP = "drop"
    UNDROP = "undrop"


_NOTHING_TO_DO = Ended(written={"version": None})
"""The end of a statement with IF EXISTS or IF NOT EXISTS that has nothing to do."""

_OPERATIONS = {
    What.ALTER: Operation.ALTER,
    What.DROP: Operation.DROP,
    What.UNDROP: Operation.UNDROP,
}


class TableChanges(Writing):
    """Runs jobs that create, alter, drop and bring back tables; ``lake`` is where new ones are
    made, ``appeared`` is called with the name of each, and ``bucket_of`` also returns the bucket of
    a dropped table."""

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

    def run(self, job: str, attempt: int, request: Request, meter: Meter) -> Ended:
        with self._input(job, request, meter) as path:
            body = orjson.loads(path.read_bytes())
        meter.check()
        if request.table is None:
            return _NOTHING_TO_DO
        try:
            if request.what == What.CREATE_AS:
                return self._create_as(request, body, meter)
            if request.what == What.CREATE:
                return self._create(request, body)
            return self._done(request, body)
        except Conflict as error:
            raise Failed(Failure(error="conflict", message=str(error))) from error
        except Invalid as error:
            raise Failed(Failure(error="invalid", message=str(error))) from error
        except NotFound as error:
            raise Failed(Failure(error="not_found", message=str(error))) from error

    def settle(self, job: str, request: Request) -> Ended | None:
        if request.table is None:
            return None
        if request.what in (What.CREATE, What.CREATE_AS):
            bucket = Prefixed(self._lake, request.table)
            try:
                made = self._made(request, bucket)
            except (Conflict, Failed):
                return None
            if made is None or request.what == What.CREATE:
                return made
            done = self._rows_of(request, bucket)
            if done is None:
                self._drop_empty(request.table, bucket)
                done = self._rows_of(request, bucket)
            return done
        super().settle(job, request)
        try:
            return self._effect(self._table(request), request)
        except Failed:
            return None

    def _create(self, request: Request, body: Mapping[str, Any]) -> Ended:
        assert request.table is not None, "a job that writes names its table"
        bucket = Prefixed(self._lake, request.table)
        if "sql" not in body:
            return self._new(request, bucket, definition_of(body))
        text = of_body(self._engine, body)
        try:
            return self._new(request, bucket, created(self._engine, text))
        except Conflict:
            if may_exist(text) and exists(bucket):
                return _NOTHING_TO_DO
            raise

    def _create_as(self, request: Request, body: Mapping[str, Any], meter: Meter) -> Ended:
        assert request.table is not None, "a job that writes names its table"
        bucket = Prefixed(self._lake, request.table)
        text = of_body(self._engine, body)
        try:
            made = self._made(request, bucket)
        except Conflict:
            if may_exist(text):
                return _NOTHING_TO_DO
            raise
        done = None if made is None else self._rows_of(request, bucket)
        if done is not None:
            return done
        try:
            try:
                self._fill(request, bucket, text, meter)
            finally:
                meter.check()
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
                meter.check()
                yield batch
                meter.advance(rows=batch.num_rows)

        # The first rows come before the table: most of what is wrong with a query shows there.
        with answer, after_first(answer) as batches:
            self._new(request, bucket, created(self._engine, text, answer.schema))
            table = Table.open_bucket(bucket, self._world)
            rows = pa.RecordBatchReader.from_batches(answer.schema, metered(batches))
            job = _rows_job(request)
            if table.append(rows, message=request.message, job=job).ulid is None:
                # A block without rows is not written: an entry says that this was all.
                commit = self._world.ids.ulid()
                table.log.commit(Append(commit=commit, blocks=(), job=job, message=request.message))

    def _rows_of(self, request: Request, bucket: Bucket) -> Ended | None:
        """The rows that an attempt has written to the new table, none among them; None before."""
        assert request.table is not None, "a job that writes names its table"
        state = Table.open_bucket(bucket, self._world, dropped=True).log.state
        job = _rows_job(request)
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
            if self._made(request, bucket) and self._rows_of(request, bucket) is None:
                assert request.table is not None, "a job that writes names its table"
                self._drop_empty(request.table, bucket)

    def _drop_empty(self, name: str, bucket: Bucket) -> None:
        log = Table.open_bucket(bucket, self._world, dropped=True).log
        if log.state.dropped is None:
            with suppress(Conflict):  # its rows have come just now
                why = "its first rows were refused"
                self._wrote(name, drop_table(log, self._world, message=why, empty=True))

    def _new(self, request: Request, bucket: Bucket, definition: Definition) -> Ended:
        made = self._made(request, bucket)
        if made is not None:
            return made
        check_place(bucket, self._world, index=True)
        try:
            log = index_log.create(
                bucket, self._world, definition, job=job_of(request), program="gateway"
            )
        except Conflict:
            made = self._made(request, bucket)
            if made is None:
                raise
            return made
        return self._created(request, log)

    def _made(self, request: Request, bucket: Bucket) -> Ended | None:
        """The table that an earlier attempt has made. Raises Conflict for another one."""
        try:
            log = Table.open_bucket(bucket, self._world, dropped=True).log
        except NotFound:
            return None
        job = job_of(request)
        app = log.state.batches.get(job.app)
        if app is None or job.batch not in app:
            if log.state.forgot(job):
                raise Failed(forgotten(request))
            if log.state.dropped is not None:
                return None
            raise Conflict(f"there is already a table {request.table}: choose another name")
        return self._created(request, log)

    def _created(self, request: Request, log: Log) -> Ended:
        assert request.table is not None, "a job that writes names its table"
        self._appeared(request.table)
        self._wrote(request.table, log.state.version)
        return Ended(written={"version": log.state.created})

    def _done(self, request: Request, body: Mapping[str, Any]) -> Ended:
        table = self._table(request)
        done = self._effect(table, request)
        if done is not None:
            return done
        job, log, message = job_of(request), table.log, request.message
        match request.what:
            case What.DROP:
                empty = bool(body.get("empty"))
                drop_table(log, self._world, message=message, job=job, empty=empty)
            case What.UNDROP:
                undrop_table(log, self._world, message=message, job=job)
            case _:
                change = self._alteration(table, body)
                if change is None:
                    return _NOTHING_TO_DO
                alter(table.bucket, log, self._world, change, message=message, job=job)
        done = self._effect(table, request)
        if done is None:
            raise Failed(gave_up())
        return done

    def _alteration(self, table: Table, body: Mapping[str, Any]) -> Alteration | None:
        if "sql" not in body:
            return alteration_of(body)
        return altered(self._engine, of_body(self._engine, body), table.definition)

    def _table(self, request: Request) -> Table:
        if request.what == What.ALTER:
            return super()._table(request)
        assert request.table is not None, "a job that writes names its table"
        return self._reopened(self._bucket_of(request.table), request, dropped=True)

    def _effect(self, table: Table, request: Request) -> Ended | None:
        """The effect of an earlier attempt. Raises Failed where the job was given up, or may be
        forgotten."""
        job, state = job_of(request), table.log.state
        if state.forgot(job):
            raise Failed(forgotten(request))
        app = state.batches.get(job.app)
        if app is None or job.batch not in app:
            return None
        written = app.written(job.batch)
        version = None if written is None else written.version
        if version is not None:
            (entry,) = table.log.entries(version, version)
            if entry.operation != _OPERATIONS[What(request.what)]:
                return None
            assert request.table is not None, "a job that writes names its table"
            self._wrote(request.table, version)
        return Ended(written={"version": version})


def _rows_job(request: Request) -> Job:
    """The batch of the rows of a new table."""
    return replace(job_of(request), batch=1)


def check_name(name: str) -> None:
    """Raise Invalid for a name that a table of a gateway cannot have."""
    if not _NAME.fullmatch(name) or name.lower() in _TAKEN or is_ulid(name):
        raise Invalid(
            f"the table's name is {name[:60]!r}, expected letters, digits, _, - and ., a letter or "
            f"_ first, at most 200, and none of {', '.join(sorted(_TAKEN))}"
        )


def definition_of(body: Mapping[str, Any]) -> Definition:
    """The definition of a new table. Raises Invalid."""
    return Definition.create(
        columns_of(body["columns"]),
        time_column=body.get("time_column"),
        sort_by=body.get("sort_by") or (),
        labels=body.get("labels"),
        row_ids=bool(body.get("row_ids")),
        key=body.get("key") or (),
        properties=Properties.parse(body.get("properties") or {}),
    )


def alteration_of(body: Mapping[str, Any]) -> Alteration:
    """What an alter changes. Raises Invalid."""
    add = body.get("add")
    widen = {
        name: columns_of([{"name": name, "type": kind}]).field(0).type
        for name, kind in (body.get("widen") or {}).items()
    }
    return Alteration.of(
        add=list(columns_of(add)) if add else [],
        widen=widen,
        rename=body.get("rename"),
        drop=body.get("drop") or (),
        reorder=body.get("reorder") or (),
        columns=body.get("columns"),
        properties=body.get("properties"),
    )


def columns_of(columns: str | list[Mapping[str, Any]]) -> pa.Schema:
    """The columns, as a text (``name:type,…``) or one by one, with their rules. Raises Invalid."""
    try:
        if isinstance(columns, str):
            return parse_schema(columns)
        schema = pa.schema([_column(column) for column in columns])
        return with_rules(schema, {str(column["name"]): _rules(column) for column in columns})
    except Usage as error:
        raise Invalid(str(error)) from None


def _column(column: Mapping[str, Any]) -> pa.Field:
    name = str(column["name"]).replace('"', '""')
    end = "" if column.get("nullable", True) else " not null"
    found = parse_schema(f'"{name}":{column["type"]}{end}')
    if len(found) != 1:
        raise Invalid(f"the type of column {name!r} is {column['type']!r}, expected one type")
    return found.field(0)


def _rules(column: Mapping[str, Any]) -> dict[str, object]:
    return {name: column[name] for name in RULES if column.get(name) is not None}
