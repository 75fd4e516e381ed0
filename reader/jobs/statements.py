"""Jobs that carry out one SQL statement that changes rows, one transaction of them, or one CALL.

Rules:
- The statement runs with the permissions of its owner: it reads and changes only tables that the
  owner may use.
- The batch of the job is in the entry of the statement, so that it happens once, whichever gateway
  runs it. Where rows have no identity a statement has an entry also if it changes nothing.
- ``CALL compact`` and ``CALL expire`` are of many entries, and none names the job: what an attempt
  has done another does not find to do. A merge takes the place and the memory of a query.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from blockstore.bucket import Bucket
from blockstore.errors import Conflict, Invalid, NotFound, RowConflict
from blockstore.format.constraints import BrokenRule
from blockstore.reader.errors import BadSql
from blockstore.reader.forms.parameters import from_json
from blockstore.reader.jobs.failures import broken, conflict
from blockstore.reader.jobs.meter import Meter
from blockstore.reader.jobs.record import CALL, Failure, Request
from blockstore.reader.jobs.work import Ended, Failed
from blockstore.reader.jobs.writing import BUFFER_BYTES, Writing, job_of
from blockstore.reader.query.admission import Budget
from blockstore.reader.query.engine import Engine
from blockstore.reader.statements.calling import Call, read_call
from blockstore.reader.statements.doing import Doing, ExistingTables, Merging
from blockstore.reader.statements.session import Session
from blockstore.reader.statements.texts import Kind, Text, numbered, split
from blockstore.reader.statements.tokens import Misread
from blockstore.reader.statements.transaction import Block, carry_out, grouped
from blockstore.reader.tables.names import folded
from blockstore.rows.results import RowsChanged
from blockstore.table import Table
from blockstore.world import World


def sent(engine: Engine, sql: str) -> Text | Block:
    """The one statement of a text, which changes rows or a table, or its one transaction. Raises
    BadSql for a text that has more, or anything else."""
    steps = grouped(split(engine.syntax, numbered(sql)))
    (first, *more) = steps
    single = isinstance(first, Text) and (first.defines or first.kind is Kind.CALL)
    if more or not (single or _only_changes(first)):
        kinds = [one.kind if isinstance(one, Text) else "BEGIN … COMMIT" for one in steps]
        raise BadSql(
            "a request has one statement that changes rows (INSERT, UPDATE, DELETE, MERGE or "
            "TRUNCATE), several of these from BEGIN to COMMIT, or one CREATE TABLE, ALTER TABLE, "
            f"DROP TABLE, UNDROP or CALL; found {len(kinds)} ({', '.join(kinds[:5])}): send "
            "queries to /v1/query"
        )
    return first


def call_of(step: Text | Block) -> Call | None:
    """The parts of a CALL; None for another statement. Raises BadSql, with its place."""
    if isinstance(step, Block) or step.kind is not Kind.CALL:
        return None
    try:
        return read_call(step.sql)
    except Misread as error:
        raise step.placed(error) from None


def step_of(engine: Engine, sql: str) -> Text | Block:
    """The statement of a job that changes rows, or its transaction, or a CALL that is none of a
    dropped table. Raises BadSql for another."""
    step = sent(engine, sql)
    call = call_of(step)
    if not (_only_changes(step) or (call is not None and not call.undrops)):
        raise BadSql("this job changes rows, and its statement defines a table: send it again")
    return step


def changes_in(step: Text | Block) -> tuple[Text, ...]:
    """The statements of a step."""
    return step.texts if isinstance(step, Block) else (step,)


def _only_changes(step: Text | Block) -> bool:
    texts = changes_in(step)
    commits = not isinstance(step, Block) or step.commits
    return commits and bool(texts) and all(one.changes for one in texts)


class Statements(Writing):
    """Runs them; the input of the job is the body of its request."""

    def __init__(
        self,
        bucket: Bucket,
        world: World,
        open_table: Callable[[str], Table],
        folder: Path,
        wrote: Callable[[str, int], None],
        *,
        engine: Engine,
        time_limit_s: float,
    ) -> None:
        super().__init__(bucket, world, open_table, folder, wrote)
        self._engine = engine
        self._time_limit_s = time_limit_s

    def run(self, job: str, attempt: int, request: Request, meter: Meter) -> Ended:
        table = self._table(request)
        before = self._done_before(table, request)
        if before is not None:
            return _version_only(before) if request.what == CALL else before
        with self._input(job, request, meter) as path:
            # As the door has read it: other readers lose the digits of large integers.
            body = json.loads(path.read_bytes())
        meter.check()
        try:
            try:
                did = self._did(job, table, request, body, meter)
            except Exception:
                meter.check()  # it was stopped, and failed for that
                raise
        except RowConflict as error:
            if not error.rows:
                raise
            raise Failed(conflict(error)) from error
        except Conflict as error:
            if request.what != CALL:
                raise
            raise Failed(Failure(error="conflict", message=str(error))) from error
        except NotFound as error:
            raise Failed(Failure(error="not_found", message=str(error))) from error
        except Invalid as error:
            raise Failed(_failure(error)) from error
        ended = self._changed(request, did, table)
        return _version_only(ended) if request.what == CALL else ended

    def _did(
        self, job: str, table: Table, request: Request, body: Mapping[str, Any], meter: Meter
    ) -> RowsChanged:
        assert request.table is not None, "a job that writes names its table"
        step = step_of(self._engine, str(body["sql"]))
        doing = Doing(
            parameters=from_json(body.get("parameters")),
            job=job_of(request),
            message=request.message,
            allowed=request.allowed,
            budget=Budget(seconds=self._time_limit_s),
            began=meter.interruptible,
            advance=lambda rows: meter.advance(rows=rows),
            buffer_bytes=BUFFER_BYTES,
            merging=lambda: self._merging(job, meter),
        )
        session = Session(self._engine, _One(request.table, table))
        session.parse(numbered(str(body["sql"])))
        if isinstance(step, Block):
            outcome = carry_out(session, step, doing)[-1]
        else:
            outcome = session.run(step, doing)
        return RowsChanged(
            operation=outcome.statement,
            version=outcome.version,
            already=outcome.already,
            inserted=outcome.inserted,
            updated=outcome.updated,
            deleted=outcome.deleted,
            unchanged=outcome.unchanged,
        )

    @contextmanager
    def _merging(self, job: str, meter: Meter) -> Iterator[Merging]:
        """The place of a query for merges, which end between two where the job is stopped."""

        def merged(rows: int) -> None:
            meter.advance(rows=rows)
            meter.check()

        folder = self._folder / f"{job}-{self._world.ids.token()}"
        with self._engine.place(self._time_limit_s) as share:
            folder.mkdir(parents=True)
            try:
                yield Merging(memory_bytes=share.memory_bytes, folder=folder, merged=merged)
            finally:
                shutil.rmtree(folder, ignore_errors=True)


class _One(ExistingTables):
    """The one table that a job may change."""

    def __init__(self, name: str, table: Table) -> None:
        self._name = name
        self._table = table

    def names(self, allowed: Collection[str] | None = None) -> tuple[str, ...]:
        return (self._name,)

    def open(self, name: str) -> Table:
        if folded(name) != folded(self._name):
            raise Invalid(f"the statement is about table {name}, expected {self._name}")
        return self._table


def _version_only(ended: Ended) -> Ended:
    """The end of a CALL, whose entry may name blocks that others wrote."""
    return Ended(written={"version": (ended.written or {}).get("version")})


def _failure(error: Invalid) -> Failure:
    if isinstance(error, BrokenRule):
        return broken(error)
    at = (
        {"line": error.line, "column": error.column}
        if isinstance(error, BadSql) and error.line is not None
        else {}
    )
    return Failure(error="invalid", message=str(error), detail=at)
