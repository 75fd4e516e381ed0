"""Statements over the tables of a lake, one after the other.

Rules:
- A text is parsed completely before its first statement runs; the statements then run in turn, each
  as one version of one table, or not at all. Those before one that fails stay.
- A statement reads one snapshot of each table, taken together when it begins; its own table is read
  at the version on which the change is planned, and all of them again after a conflict.
- Every SELECT that a statement becomes is admitted like a query of a stranger (``query/sql``), and
  runs in the same locked engine.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Protocol

import pyarrow as pa

from blockstore.errors import TableDropped
from blockstore.format.block import Job
from blockstore.format.definition import Definition
from blockstore.format.identity import Key
from blockstore.index.entry import Operation
from blockstore.operations.access import Access
from blockstore.operations.alter import alter as alter_table
from blockstore.reader.errors import BadSql, UnknownTable
from blockstore.reader.query.admission import Budget
from blockstore.reader.query.engine import Engine
from blockstore.reader.statements import twins
from blockstore.reader.statements.calling import Call, read_call
from blockstore.reader.statements.changing import Changed, append, change
from blockstore.reader.statements.clauses import (
    Delete,
    Dml,
    Insert,
    Merge,
    OnConflict,
    Update,
)
from blockstore.reader.statements.defining import (
    Alter,
    Create,
    definition_of,
    read_alter,
    read_create,
)
from blockstore.reader.statements.dropping import Drop, read_drop
from blockstore.reader.statements.explaining import changes_of, explained, query_of
from blockstore.reader.statements.kept import kept
from blockstore.reader.statements.outcome import Outcome
from blockstore.reader.statements.plain import Plan, replace_blocks
from blockstore.reader.statements.reading import read_dml
from blockstore.reader.statements.rows import Selected, Selects
from blockstore.reader.statements.texts import Kind, Text, split
from blockstore.reader.statements.tokens import Misread
from blockstore.rows.attempts import Said
from blockstore.scan.reads import Reads
from blockstore.scan.view import TableSnapshot
from blockstore.table import Table

_QUOTED = 2_000
"""So many characters of a statement are kept in the entry that it makes."""

_NOTHING: Mapping[str, TableSnapshot] = {}

Parameters = Sequence[object] | Mapping[str, object] | None


class Tables(Protocol):
    """Where the tables are: an engine's source that can be written."""

    def names(self, allowed: Collection[str] | None = None) -> tuple[str, ...]:
        """All tables that the caller may see."""
        ...

    def open(self, name: str) -> Table:
        """A handle on a table. Raises UnknownTable."""
        ...

    def create(self, name: str, definition: Definition) -> Table:
        """Create an empty table. Raises AlreadyExists."""
        ...

    def drop(self, name: str, message: str) -> int:
        """Drop a table; return the version that did it."""
        ...

    def undrop(self, name: str, message: str) -> int:
        """Bring a dropped table back; return the version that did it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Doing:
    """What a caller says of a statement."""

    parameters: Parameters = None
    job: Job | None = None
    message: str = ""
    allowed: Collection[str] | None = None
    """The tables that this caller may see; None for all."""
    budget: Budget | None = None
    began: Callable[[Callable[[], None]], None] | None = None
    """Receives a function that stops the statement's query from any thread, each time before one
    runs."""
    buffer_bytes: int = 256 << 20
    """Changed rows of about so many bytes are sorted into one chunk."""
    commits: threading.Event | None = None
    """Set while what was computed is committed: from then on nothing may interrupt the
    statement."""

    def committing(self, event: threading.Event) -> Doing:
        """The same with an event that is set for a commit."""
        return replace(self, commits=event)

    def marks(self, commits: bool) -> None:
        """Say whether what was computed is being committed."""
        if self.commits is not None:
            (self.commits.set if commits else self.commits.clear)()


class Session:
    """Runs statements: ``engine`` computes their rows, ``tables`` are what they change."""

    def __init__(self, engine: Engine, tables: Tables) -> None:
        self._engine = engine
        self.tables = tables

    def parse(self, text: str) -> list[Text]:
        """The statements of a text. Raises BadSql if one of them cannot be run."""
        texts = split(self._engine.syntax, text)
        for one in texts:
            try:
                _read(one)
            except Misread as error:
                raise one.placed(error) from None
        return texts

    def run(self, text: Text, doing: Doing) -> Outcome:
        """Run one statement.

        Raises BadSql with line and column for what is wrong with it, Invalid for rows that do not
        fit, RowConflict and Conflict where others were faster; then nothing was changed.
        """
        try:
            return self._run(text, doing)
        except Misread as error:
            raise text.placed(error) from None

    def _run(self, text: Text, doing: Doing) -> Outcome:
        match text.kind:
            case Kind.SELECT:
                return self._select(text, doing)
            case Kind.INSERT | Kind.UPDATE | Kind.DELETE | Kind.MERGE:
                return self._change(text, read_dml(text.sql), doing)
            case Kind.EXPLAIN:
                return self._explain(text, doing)
            case Kind.CALL:
                return self._call(text, read_call(text.sql), doing)
            case Kind.CREATE:
                return self._create(text, read_create(text.sql), doing)
            case Kind.ALTER:
                return self._alter(text, read_alter(text.sql), doing)
            case Kind.DROP:
                return self._drop(text, read_drop(text.sql), doing)
        raise AssertionError(f"{text.kind} has no code")

    def _select(self, text: Text, doing: Doing) -> Outcome:
        answer = self._engine.run(
            text.sql,
            _used(self._engine, text.sql, doing.parameters),
            allowed=doing.allowed,
            budget=doing.budget,
            began=doing.began,
        )
        return Outcome(statement=text.kind, rows=answer.reader)

    def _change(self, text: Text, dml: Dml, doing: Doing) -> Outcome:
        name = self._engine.source.find(dml.target.name, doing.allowed)
        table = self.tables.open(name)
        if table.indexed:
            table.poll()
        definition = table.definition
        first = self._plan(text, dml, name, definition, doing)
        named = self._named(text, first.sql, doing) - {name}

        def others() -> dict[str, TableSnapshot]:
            return self._engine.source.snapshots(sorted(named), allowed=doing.allowed)

        if not (isinstance(dml, Delete) and dml.truncates):
            known = {one: taken.definition for one, taken in others().items()}
            parameters = _used(self._engine, text.sql, doing.parameters)
            twins.check(self._engine, text, {**known, name: definition}, parameters)

        def plan(now: Definition) -> Selected:
            return first if now == definition else self._plan(text, dml, name, now, doing)

        def query(sql: str, taken: Mapping[str, TableSnapshot]) -> pa.RecordBatchReader:
            return self._query(text, sql, doing, taken)

        said = Said(
            job=doing.job,
            message=doing.message,
            parameters={"statement": text.sql[:_QUOTED]},
            buffer_bytes=doing.buffer_bytes,
        )
        access = _access(table)
        if isinstance(dml, Insert) and not isinstance(definition.identity, Key):
            done = append(table, name, first, query, others, said, doing.marks)
        elif definition.identity is None:
            done = replace_blocks(
                access,
                _operation(dml),
                lambda now: Plan(table=name, selected=plan(now), kept=kept(dml, name, now)),
                query,
                others,
                said,
                doing.marks,
            )
        else:
            done = change(
                access,
                name,
                _operation(dml),
                plan,
                lambda selected, own: query(selected.sql, {**others(), **own}),
                said,
                committing=doing.marks,
                ignore=isinstance(dml, Insert) and dml.on_conflict is OnConflict.NOTHING,
            )
        return _outcome(text, name, done)

    def _explain(self, text: Text, doing: Doing) -> Outcome:
        inner, analyzes = explained(self._engine.syntax, text)
        if inner.kind is Kind.SELECT:
            sql, table = inner.sql, None
        elif inner.changes:
            dml = read_dml(inner.sql)
            name = self._engine.source.find(dml.target.name, doing.allowed)
            table = self.tables.open(name)
            selected = self._plan(inner, dml, name, table.definition, doing)
            sql = selected.sql
        else:
            raise BadSql(f"EXPLAIN {inner.kind} says nothing: explain a query or a change of rows")
        with self._engine.run(
            sql,
            _used(self._engine, sql, doing.parameters),
            allowed=doing.allowed,
            budget=doing.budget,
            began=doing.began,
        ) as answer:
            if table is not None:
                facts = changes_of(answer, selected, table)
            else:
                facts = query_of(answer, analyzes=analyzes)
        return Outcome(statement=text.kind, rows=facts.to_reader())

    def _query(
        self, text: Text, sql: str, doing: Doing, taken: Mapping[str, TableSnapshot] = _NOTHING
    ) -> pa.RecordBatchReader:
        try:
            return self._engine.run(
                sql,
                _used(self._engine, sql, doing.parameters),
                taken=taken,
                allowed=doing.allowed,
                budget=doing.budget,
                began=doing.began,
            ).reader
        except BadSql as error:
            raise text.quoting(error) from None

    def _create(self, text: Text, create: Create, doing: Doing) -> Outcome:
        if create.if_not_exists and self._is_there(create.name, doing):
            return Outcome(statement=text.kind, table=create.name)
        if create.query is None:
            definition = self._defined(create, text, None)
            made = self._made(create, definition, doing)
            return Outcome(statement=text.kind, table=create.name, version=made.log.state.version)
        sql = create.query.text
        with self._engine.run(
            sql,
            _used(self._engine, sql, doing.parameters),
            allowed=doing.allowed,
            budget=doing.budget,
            began=doing.began,
        ) as answer:
            definition = self._defined(create, text, answer.schema)
            # The first rows come before the table: most of what is wrong with a query shows there.
            batches = iter(answer)
            first = next(batches, None)
            table = self._made(create, definition, doing)
            if first is None:
                return Outcome(statement=text.kind, table=create.name, version=1, inserted=0)
            written = table.append(chain([first], batches), message=doing.message)
        return Outcome(
            statement=text.kind, table=create.name, version=written.version, inserted=written.rows
        )

    def _made(self, create: Create, definition: Definition, doing: Doing) -> Table:
        """The new table; with OR REPLACE after the one of its name was dropped."""
        if create.or_replace and self._is_there(create.name, doing):
            name = self._engine.source.find(create.name, doing.allowed)
            self.tables.drop(name, doing.message)
        return self.tables.create(create.name, definition)

    def _drop(self, text: Text, drop: Drop, doing: Doing) -> Outcome:
        if drop.if_exists and not self._is_there(drop.name, doing):
            return Outcome(statement=text.kind, table=drop.name)
        name = self._engine.source.find(drop.name, doing.allowed)
        version = self.tables.drop(name, doing.message)
        return Outcome(statement=text.kind, table=name, version=version)

    def _defined(self, create: Create, text: Text, schema: pa.Schema | None) -> Definition:
        return definition_of(create, self._engine, self._constant, schema, text.comments)

    def _is_there(self, name: str, doing: Doing) -> bool:
        try:
            self.tables.open(self._engine.source.find(name, doing.allowed))
        except (UnknownTable, TableDropped):
            return False
        return True

    def _constant(self, expression: str) -> object:
        with self._engine.run(f"SELECT {expression} AS value") as answer:
            return answer.reader.read_all()["value"][0].as_py()

    def _call(self, text: Text, call: Call, doing: Doing) -> Outcome:
        if call.undrops:
            version = self.tables.undrop(call.table, doing.message)
            return Outcome(statement=text.kind, table=call.table, version=version)
        name = self._engine.source.find(call.table, doing.allowed)
        done = call.run(self.tables.open(name), doing.message)
        return Outcome(statement=text.kind, table=name, version=done)

    def _alter(self, text: Text, alter: Alter, doing: Doing) -> Outcome:
        name = self._engine.source.find(alter.name, doing.allowed)
        table = self.tables.open(name)
        before = table.poll()
        wanted = alter.action(self._engine, table.definition, self._constant)
        if wanted is None:
            return Outcome(statement=text.kind, table=name)
        alter_table(
            table.bucket, table.log, table.world, wanted, message=doing.message, job=doing.job
        )
        after = table.log.state.version
        return Outcome(statement=text.kind, table=name, version=after if after > before else None)

    def _named(self, text: Text, sql: str, doing: Doing) -> frozenset[str]:
        try:
            return self._engine.tables(sql, allowed=doing.allowed)
        except BadSql as error:
            raise text.quoting(error) from None

    def _plan(
        self, text: Text, dml: Dml, name: str, definition: Definition, doing: Doing
    ) -> Selected:
        def probe(sql: str) -> Sequence[str]:
            with self._query(text, sql, doing) as reader:
                names: list[str] = reader.schema.names
                return names

        return Selects(dml, name, definition, probe).select()


def _read(text: Text) -> None:
    """Raise BadSql for a statement whose form Blockstore does not have."""
    if text.changes:
        read_dml(text.sql)
    elif text.kind is Kind.CREATE:
        read_create(text.sql)
    elif text.kind is Kind.ALTER:
        read_alter(text.sql)
    elif text.kind is Kind.DROP:
        read_drop(text.sql)
    elif text.kind is Kind.CALL:
        read_call(text.sql)


def _used(engine: Engine, sql: str, parameters: Parameters) -> Parameters:
    """The parameters that a text uses: DuckDB refuses others. Those of a list have the names ``1``,
    ``2``, …"""
    if parameters is None:
        return None
    if not isinstance(parameters, Mapping):
        if "?" in sql:
            return parameters
        parameters = {str(number): value for number, value in enumerate(parameters, 1)}
    used = engine.syntax.parameters(sql)
    found = {name: value for name, value in parameters.items() if name in used}
    return found or None


def _outcome(text: Text, name: str, done: Changed) -> Outcome:
    rows = done.rows
    return Outcome(
        statement=text.kind,
        table=name,
        version=rows.version,
        inserted=rows.inserted,
        updated=rows.updated,
        deleted=rows.deleted,
        unchanged=rows.unchanged,
        already=rows.already,
        rows=None if done.returned is None else done.returned.to_reader(),
    )


def _access(table: Table) -> Access:
    return Access(
        bucket=table.bucket,
        world=table.world,
        log=table.log,
        catalog=table.catalog,
        reads=Reads(table.world),
    )


def _operation(dml: Dml) -> Operation:
    match dml:
        case Update():
            return Operation.UPDATE
        case Delete():
            return Operation.DELETE
        case Merge():
            return Operation.MERGE
        case Insert(on_conflict=OnConflict.UPDATE | OnConflict.REPLACE):
            return Operation.UPSERT
    return Operation.APPEND
