"""Jobs that carry out one SQL statement that changes rows, or one transaction of them.

Rules:
- The statement runs with the permissions of its owner: it reads and changes only tables that the
  owner may use.
- The batch of the job is in the entry of the statement, so that it happens once, whichever gateway
  runs it. Where rows have no identity a statement has an entry also if it changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import orjson

from blockstore.bucket import Bucket
from blockstore.errors import Invalid, NotFound, RowConflict
from blockstore.format.constraints import BrokenRule
from blockstore.format.definition import Definition
from blockstore.reader.errors import BadSql
from blockstore.reader.forms.parameters import from_json
from blockstore.reader.jobs.failures import broken, conflict
from blockstore.reader.jobs.meter import Meter
from blockstore.reader.jobs.record import Failure, Request
from blockstore.reader.jobs.work import Ended, Failed
from blockstore.reader.jobs.writing import BUFFER_BYTES, Writing, job_of
from blockstore.reader.query.admission import Budget
from blockstore.reader.query.engine import Engine
from blockstore.reader.statements.doing import Doing
from blockstore.reader.statements.session import Session
from blockstore.reader.statements.texts import Text, numbered, split
from blockstore.reader.statements.transaction import Block, carry_out, grouped
from blockstore.rows.results import RowsChanged
from blockstore.table import Table
from blockstore.world import World


def sent(engine: Engine, sql: str) -> Text | Block:
    """The one statement of a text, which changes rows or defines a table, or its one transaction.
    Raises BadSql for a text that has more, or anything else."""
    steps = grouped(split(engine.syntax, numbered(sql)))
    (first, *more) = steps
    defines = isinstance(first, Text) and first.defines
    if more or not (defines or _only_changes(first)):
        kinds = [one.kind if isinstance(one, Text) else "BEGIN … COMMIT" for one in steps]
        raise BadSql(
            "a request has one statement that changes rows (INSERT, UPDATE, DELETE, MERGE or "
            "TRUNCATE), several of these from BEGIN to COMMIT, or one CREATE TABLE, ALTER TABLE or "
            f"DROP TABLE; found {len(kinds)} ({', '.join(kinds[:5])}): send queries to /v1/query"
        )
    return first


def step_of(engine: Engine, sql: str) -> Text | Block:
    """The statement of a job that changes rows, or its transaction. Raises BadSql for another."""
    step = sent(engine, sql)
    if not _only_changes(step):
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
            return before
        with self._input(job, request, meter) as path:
            body = orjson.loads(path.read_bytes())
        meter.check()
        try:
            did = self._did(table, request, body, meter)
        except RowConflict as error:
            if not error.rows:
                raise
            raise Failed(conflict(error)) from error
        except NotFound as error:
            raise Failed(Failure(error="not_found", message=str(error))) from error
        except Invalid as error:
            raise Failed(_failure(error)) from error
        finally:
            meter.check()
        return self._changed(request, did, table)

    def _did(
        self, table: Table, request: Request, body: Mapping[str, Any], meter: Meter
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


class _One:
    """The one table that a job may change."""

    def __init__(self, name: str, table: Table) -> None:
        self._name = name
        self._table = table

    def names(self, allowed: Collection[str] | None = None) -> tuple[str, ...]:
        return (self._name,)

    def open(self, name: str) -> Table:
        if name != self._name:
            raise Invalid(f"the statement is about table {name}, expected {self._name}")
        return self._table

    def create(self, name: str, definition: Definition) -> Table:
        raise Invalid(f"table {name} cannot be created by a statement that changes rows")

    def drop(self, name: str, message: str, *, empty: bool = False) -> int:
        raise Invalid(f"table {name} cannot be dropped by a statement that changes rows")

    def undrop(self, name: str, message: str) -> int:
        raise Invalid(f"table {name} cannot be brought back by a statement that changes rows")


def _failure(error: Invalid) -> Failure:
    if isinstance(error, BrokenRule):
        return broken(error)
    at = (
        {"line": error.line, "column": error.column}
        if isinstance(error, BadSql) and error.line is not None
        else {}
    )
    return Failure(error="invalid", message=str(error), detail=at)
