"""Queries, as every door runs them: with the tables, the limits and the snapshots of the gateway.

Rules:
- A query needs the scope ``read``, and reaches only the tables of its token.
- It takes one of the places of its token, which its end gives back.
- While it runs it is among the gateway's running queries, and can be cancelled there.
- To describe a query runs it for no rows: it takes a turn as any other, and reads no file.
- EXPLAIN is a query for its numbers (``explaining.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import duckdb
import pyarrow as pa

from blockstore.errors import Invalid
from blockstore.reader.audit import Statement, running
from blockstore.reader.doors.access import check_scope
from blockstore.reader.doors.explaining import explanation, numbers
from blockstore.reader.errors import Canceled
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.tokens import Caller, Scope
from blockstore.reader.query import Answer
from blockstore.reader.query.runners.failures import translated
from blockstore.reader.query.sql.statement import check_length
from blockstore.reader.query.task import Parameters
from blockstore.reader.statements.explaining import NUMBERS, explained
from blockstore.reader.tables import At
from blockstore.scan.view import TableSnapshot

_NUMBERS = "explain:numbers"
"""The rows of an EXPLAIN; no table is named so."""


class Stopper:
    """Stops what is about to begin or has begun. If ``cancel`` comes before ``began``, the query is
    stopped as soon as it begins."""

    def __init__(self) -> None:
        self._stop: Callable[[], None] | None = None
        self._asked = False

    def began(self, stop: Callable[[], None]) -> None:
        """The query has begun; ``stop`` stops it."""
        self._stop = stop
        if self._asked:
            stop()

    @property
    def stopped(self) -> bool:
        """Whether it was stopped."""
        return self._asked

    def check(self) -> None:
        """Raise Canceled if it was stopped."""
        if self._asked:
            raise Canceled("the query was canceled")

    def cancel(self) -> None:
        """Stop it."""
        self._asked = True
        if self._stop is not None:
            self._stop()

    def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A query as a caller asks it."""

    sql: str
    parameters: Parameters = None
    """Values for ``?`` and ``$1``, or for ``$name``."""
    at: At | Mapping[str, At] = field(default_factory=At)
    """The version to read, of all tables or of each."""
    limit: int | None = None
    row_ids: bool = False
    """Begin each row with its ``_row_id`` and ``_version``, with a key with ``_version``."""
    min_version: Mapping[str, int] = field(default_factory=dict)
    """The version of each table that must be among those that are read, at least."""
    taken: Mapping[str, TableSnapshot] = field(default_factory=dict)
    """Snapshots that a transaction has taken before."""
    given: Mapping[str, pa.Table] = field(default_factory=dict)
    """Rows that the query may name besides its tables, such as those of a catalog."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """What is known of a query before it runs."""

    schema: pa.Schema
    """The columns of its rows."""
    versions: Mapping[str, int | None]
    """The version of each table that it named; None for one without an index."""


def begun(gateway: Gateway, caller: Caller, asked: Asked, stopper: Stopper) -> Answer:
    """Begin a query; the caller closes it. ``stopper`` stops it from any thread, also before it has
    begun.

    Raises Problem 403 without the scope, Busy beyond the token's number of queries or bytes of the
    day, and what ``Engine.run`` raises.
    """
    check_scope(caller, Scope.READ)
    gateway.quotas.check_bytes(caller)
    for name, version in asked.min_version.items():
        gateway.tables.at_least(name, version, caller.tables)
    explains = explanation(gateway, asked.sql)
    if explains is not None and (asked.at not in (At(), {}) or asked.row_ids):
        raise Invalid(
            "EXPLAIN is of the tables as they are now: write AT (VERSION => n) into the statement, "
            "and leave row ids out"
        )
    give_back = gateway.quotas.take(caller)
    known = gateway.queries.began(caller, asked.sql, running(), stopper.cancel)
    try:
        if explains is not None:
            rows = numbers(gateway, caller, explains, asked.parameters, stopper.began)
            sql = f'FROM "{_NUMBERS}"'
            asked = replace(asked, sql=sql, parameters=None, given={_NUMBERS: rows})
        sql = asked.sql
        if asked.row_ids:
            sql = gateway.engine.with_row_ids(sql, at=asked.at, allowed=caller.tables)
        answer = gateway.ask(
            sql,
            caller=caller,
            at=asked.at,
            parameters=asked.parameters,
            limit=asked.limit,
            began=stopper.began,
            taken=asked.taken,
            given=asked.given,
        )
    except BaseException:
        gateway.queries.ended(known)
        give_back()
        raise
    gateway.queries.runs(known)
    answer.at_end(partial(gateway.queries.ended, known))
    answer.at_end(give_back)
    running().reads(answer.versions, answer.policies)
    return answer


@contextmanager
def placed(
    gateway: Gateway, caller: Caller, sql: str, stopper: Stopper
) -> Iterator[Callable[[], None]]:
    """Run something else than a query in the block, as a query: it takes one of the places of its
    token and is among the running queries. What it is given says that it has its turn. Raises
    Busy."""
    give_back = gateway.quotas.take(caller)
    known = gateway.queries.began(caller, sql, running(), stopper.cancel)
    try:
        yield partial(gateway.queries.runs, known)
    finally:
        gateway.queries.ended(known)
        give_back()


def counted(batches: Iterable[pa.RecordBatch], statement: Statement) -> Iterator[pa.RecordBatch]:
    """The batches; the statement counts the rows of those that are taken."""
    for batch in batches:
        statement.gives(rows=batch.num_rows)
        yield batch


def described(
    gateway: Gateway, caller: Caller, asked: Asked, stopper: Stopper | None = None
) -> Described:
    """The columns of a query's rows and the versions that it would read now. Parameters without
    values are null, so a column that is nothing but a parameter has no type of its own. Raises what
    ``begun`` raises."""
    if explanation(gateway, asked.sql) is not None:
        check_scope(caller, Scope.READ)
        return Described(schema=NUMBERS, versions={})
    check_length(asked.sql)
    if asked.parameters is None:
        names = parameters_of(gateway, asked.sql)
        asked = replace(asked, parameters=dict.fromkeys(names) if names else None)
    nothing = replace(asked, limit=0)
    with begun(gateway, caller, nothing, stopper or Stopper()) as answer:
        for _ in answer:
            pass
        return Described(schema=answer.schema, versions=answer.versions)


def parameters_of(gateway: Gateway, sql: str) -> tuple[str, ...]:
    """The names of the parameters of a text, in order; those of ``?`` and ``$1`` are numbers.
    Raises BadSql."""
    explains = explanation(gateway, sql)
    if explains is not None:
        sql = explained(gateway.engine.syntax, explains)[0].sql  # DuckDB explains fewer statements
    try:
        names = gateway.engine.syntax.parameters(sql)
    except duckdb.Error as error:
        raise translated(error) from error
    numbers = {name for name in names if name.isascii() and name.isdigit()}
    # By their values: of many digits Python makes no number.
    ordered = sorted(numbers, key=lambda name: (len(name.lstrip("0")), name.lstrip("0")))
    return (*ordered, *sorted(names - numbers))
