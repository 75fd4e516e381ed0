"""Tables that are created, altered, dropped or brought back by a job.

Rules:
- The entry that does it names the job, so that an attempt after it finds it done, and none happens
  twice. ``new_tables.py`` has the rules of creations.
- A request without a table is a statement that found nothing to do when it was sent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from blockstore.errors import Conflict, Invalid, NotFound
from blockstore.format.evolution import Alteration
from blockstore.index.entry import Operation
from blockstore.operations.alter import alter
from blockstore.operations.drop import drop_table, undrop_table
from blockstore.reader.jobs.bodies import alteration_of
from blockstore.reader.jobs.definitions import (
    altered,
    of_body,
)
from blockstore.reader.jobs.meter import Meter
from blockstore.reader.jobs.new_tables import NOTHING_TO_DO, NewTables
from blockstore.reader.jobs.record import Failure, Request
from blockstore.reader.jobs.work import Ended, Failed
from blockstore.reader.jobs.writing import forgotten, gave_up, job_of
from blockstore.table import Table


class What(StrEnum):
    """What is done to a table."""

    CREATE = "create"
    CREATE_AS = "create_as"
    """With the rows of a query."""
    ALTER = "alter"
    DROP = "drop"
    UNDROP = "undrop"


_OPERATIONS = {
    What.ALTER: Operation.ALTER,
    What.DROP: Operation.DROP,
    What.UNDROP: Operation.UNDROP,
}


class TableChanges(NewTables):
    """Runs jobs that create, alter, drop and bring back tables."""

    def run(self, job: str, attempt: int, request: Request, meter: Meter) -> Ended:
        with self._input(job, request, meter) as path:
            body = json.loads(path.read_bytes())
        meter.check()
        if request.table is None:
            return NOTHING_TO_DO
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
            return self._settled(request, with_rows=request.what == What.CREATE_AS)
        super().settle(job, request)
        try:
            return self._effect(self._table(request), request)
        except Failed:
            return None

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
                    return NOTHING_TO_DO
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
