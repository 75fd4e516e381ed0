"""Statements over the tables of a lake, one after the other.

Rules:
- A text is parsed completely before its first statement runs; the statements then run in turn, each
  as one version of one table, or not at all. Those before one that fails stay. Those between BEGIN
  and COMMIT are one version together (``transaction.py``).
- A statement reads one snapshot of each table, taken together when it begins; its own table is read
  at the version on which the change is planned, and all of them again after a conflict.
- Every SELECT that a statement becomes is admitted like a query of a stranger (``query/sql``), and
  runs in the same locked engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

import pyarrow as pa

from blockstore.errors import BlockstoreError, Indeterminate, TableDropped
from blockstore.format.block import Job
from blockstore.format.definition import Definition
from blockstore.format.identity import Key
from blockstore.operations.alter import alter as alter_table
from blockstore.operations.append import AppendedBlock
from blockstore.reader.errors import BadSql, NotAQuery, UnknownTable
from blockstore.reader.query.answer import Answer
from blockstore.reader.query.engine import Engine
from blockstore.reader.statements.altering import Alter, read_alter
from blockstore.reader.statements.bound import Bound, access_of, ask, newest
from blockstore.reader.statements.calling import Call, read_call
from blockstore.reader.statements.changing import Changed, append, change
from blockstore.reader.statements.clauses import Insert
from blockstore.reader.statements.defining import (
    Create,
    constants,
    definition_of,
    read_create,
)
from blockstore.reader.statements.doing import Doing, Tables
from blockstore.reader.statements.dropping import Drop, read_drop
from blockstore.reader.statements.explaining import changes_of, explained, query_of
from blockstore.reader.statements.first_rows import after_all, after_first, append_first
from blockstore.reader.statements.outcome import Outcome
from blockstore.reader.statements.plain import replace_blocks
from blockstore.reader.statements.reading import read_dml
from blockstore.reader.statements.shape import Shape
from blockstore.reader.statements.texts import Kind, Text, split
from blockstore.reader.statements.tokens import Misread
from blockstore.scan.view import TableSnapshot
from blockstore.table import Table


class Session:
    """Runs statements: ``engine`` computes their rows, ``tables`` are what they change."""

    def __init__(self, engine: Engine, tables: Tables) -> None:
        self.engine = engine
        self.tables = tables

    def parse(self, text: str, *, files: bool = False) -> list[Text]:
        """The statements of a text; COPY is one only where ``files`` of the user's machine may be
        read and written, which is the caller's work. Raises BadSql if one of them cannot be run."""
        texts = split(self.engine.syntax, text)
        for one in texts:
            try:
                if one.kind is Kind.COPY and not files:
                    raise Misread(
                        one.sql,
                        0,
                        "COPY reads and writes files of your machine, which only the command "
                        "blockstore sql does, and nothing was run: append rows that your program "
                        "has read",
                    )
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
                return self._change(text, doing)
            case Kind.EXPLAIN:
                return self._explain(text, doing)
            case Kind.CALL | Kind.CREATE | Kind.ALTER | Kind.DROP:
                return self._define(text, doing)
            case Kind.BEGIN | Kind.COMMIT | Kind.ROLLBACK:
                raise Misread(
                    text.sql,
                    0,
                    f"{text.kind} is nothing to run alone: send a transaction up to its COMMIT",
                )
        raise AssertionError(f"{text.kind} has no code")

    def _select(self, text: Text, doing: Doing) -> Outcome:
        return Outcome(statement=text.kind, rows=self._asked(text, doing).reader)

    def _asked(self, text: Text, doing: Doing) -> Answer:
        try:
            return ask(self.engine, text.sql, doing)
        except BadSql as error:
            raise text.shifted(error) from None

    def _change(self, text: Text, doing: Doing) -> Outcome:
        bound = Bound.of(self.engine, text, doing)
        table, now = newest(self.tables, bound.name)
        shape = Shape.of(now.snapshot)
        named = sorted(bound.others(shape))

        def others() -> dict[str, TableSnapshot]:
            return self.engine.source.snapshots(named, allowed=doing.allowed)

        bound.check(shape, others())
        done = self._committed(bound, table, now, others)
        return bound.outcome(done.rows, done.returned)

    def _committed(
        self,
        bound: Bound,
        table: Table,
        now: TableSnapshot,
        others: Callable[[], Mapping[str, TableSnapshot]],
    ) -> Changed:
        identity, doing = table.definition.identity, bound.doing
        said = doing.said(bound.text.sql)
        if isinstance(bound.dml, Insert) and not isinstance(identity, Key):
            first = bound.selected(Shape.of(now.snapshot))
            if not first.says_labels:
                return append(table, bound.name, first, bound.query, now, others, said, doing.marks)
        access = access_of(table)
        if identity is None:
            return replace_blocks(
                access, bound.operation, bound.plan, bound.query, others, said, doing.marks
            )
        return change(
            access,
            bound.name,
            bound.operation,
            bound.selected,
            lambda selected, own: bound.query(selected.sql, {**others(), **own}),
            said,
            committing=doing.marks,
            ignore=bound.ignores,
            reads=bound.reads,
        )

    def _explain(self, text: Text, doing: Doing) -> Outcome:
        inner, analyzes = explained(self.engine.syntax, text)
        if inner.kind is Kind.SELECT:
            with self._asked(inner, doing) as answer:
                facts = query_of(answer, analyzes=analyzes)
        elif inner.changes:
            try:
                facts = self._explained_change(inner, doing)
            except Misread as error:
                raise inner.placed(error) from None
        else:
            raise NotAQuery(
                f"EXPLAIN {inner.kind} says nothing: explain a query or a change of rows"
            )
        return Outcome(statement=text.kind, rows=facts.to_reader())

    def _explained_change(self, text: Text, doing: Doing) -> pa.Table:
        bound = Bound.of(self.engine, text, doing)
        table, now = newest(self.tables, bound.name)
        shape = Shape.of(now.snapshot)
        others = sorted(bound.others(shape))
        bound.check(shape, self.engine.source.snapshots(others, allowed=doing.allowed))
        selected = bound.selected(shape)
        with ask(self.engine, selected.sql, doing) as answer:
            return changes_of(answer, selected, table)

    def _define(self, text: Text, doing: Doing) -> Outcome:
        """What is done to a table, and not to rows that are named one by one."""
        read = _DEFINES[text.kind](text.sql)
        done = None if doing.job is None else self.tables.done(read.name, doing.job)
        if done is not None:
            version = done.version
            return Outcome(statement=text.kind, table=read.name, version=version, already=True)
        match read:
            case Create():
                return self._create(text, read, doing)
            case Alter():
                return self._alter(text, read, doing)
            case Drop():
                return self._drop(text, read, doing)
            case Call():
                return self._call(text, read, doing)

    def _create(self, text: Text, create: Create, doing: Doing) -> Outcome:
        if create.query is None:
            if create.if_not_exists and self._is_there(create.name, doing):
                return Outcome(statement=text.kind, table=create.name)
            definition = self._defined(create, text, None)
            with doing.whole(create.or_replace):
                made = self._made(create, definition, doing, doing.job)
            return Outcome(statement=text.kind, table=create.name, version=made.log.state.version)
        begun = self._begun(create, doing)
        if begun is None and create.if_not_exists and self._is_there(create.name, doing):
            return Outcome(statement=text.kind, table=create.name)
        assert create.rows is not None, "a table of a query has rows"
        with ask(self.engine, create.rows, doing) as answer:
            definition = self._defined(create, text, answer.schema)
            # The first rows come before the table: most of what is wrong with a query shows there.
            # Where a table goes for it, all of them do, and are checked.
            gathered = after_all(answer, definition) if create.or_replace else after_first(answer)
            # What is interrupted between the drop of a table and the rows of its successor would
            # lose both.
            with gathered as rows, doing.whole(create.or_replace):
                table = begun or self._made(create, definition, doing, _making(doing.job))
                written = self._filled(table, rows, doing)
        version = table.log.state.version if written.version is None else written.version
        return Outcome(
            statement=text.kind, table=create.name, version=version, inserted=written.rows
        )

    def _begun(self, create: Create, doing: Doing) -> Table | None:
        """The table that its job has made before, and whose rows it has not written."""
        making = _making(doing.job)
        if making is None or not self._is_there(create.name, doing):
            return None
        table, _ = newest(self.tables, self.engine.source.find(create.name, doing.allowed))
        return table if table.indexed and table.log.state.committed(making) else None

    def _filled(self, table: Table, rows: Iterator[pa.RecordBatch], doing: Doing) -> AppendedBlock:
        """Append the first rows of a table. After an error it is dropped, unless others have
        written to it, or its rows may be there."""
        try:
            return append_first(table, rows, doing.message, doing.job)
        except Indeterminate:
            raise
        except BaseException:
            with suppress(BlockstoreError):
                self.tables.take_away(table, "its first rows were refused")
            raise

    def _made(self, create: Create, definition: Definition, doing: Doing, job: Job | None) -> Table:
        """The new table; with OR REPLACE in the place of the one of its name."""
        if create.or_replace and self._is_there(create.name, doing):
            name = self.engine.source.find(create.name, doing.allowed)
            return self.tables.replace(name, definition, doing.message, job)
        return self.tables.create(create.name, definition, job)

    def _drop(self, text: Text, drop: Drop, doing: Doing) -> Outcome:
        if drop.if_exists and not self._is_there(drop.name, doing):
            return Outcome(statement=text.kind, table=drop.name)
        name = self.engine.source.find(drop.name, doing.allowed)
        version = self.tables.drop(name, doing.message, doing.job)
        return Outcome(statement=text.kind, table=name, version=version)

    def _defined(self, create: Create, text: Text, schema: pa.Schema | None) -> Definition:
        return definition_of(create, self.engine, constants(self.engine), schema, text.comments)

    def _is_there(self, name: str, doing: Doing) -> bool:
        try:
            newest(self.tables, self.engine.source.find(name, doing.allowed))
        except (UnknownTable, TableDropped):
            return False
        return True

    def _call(self, text: Text, call: Call, doing: Doing) -> Outcome:
        if call.undrops:
            version = self.tables.undrop(call.name, doing.message, doing.job)
            return Outcome(statement=text.kind, table=call.name, version=version)
        name = self.engine.source.find(call.name, doing.allowed)
        done = call.run(newest(self.tables, name)[0], doing)
        return Outcome(statement=text.kind, table=name, version=done)

    def _alter(self, text: Text, alter: Alter, doing: Doing) -> Outcome:
        if alter.if_exists and not self._is_there(alter.name, doing):
            return Outcome(statement=text.kind, table=alter.name)
        name = self.engine.source.find(alter.name, doing.allowed)
        table, _ = newest(self.tables, name)
        before = table.log.state.version
        wanted = alter.wanted(self.engine, table.definition)
        if wanted is None:
            return Outcome(statement=text.kind, table=name)
        alter_table(
            table.bucket, table.log, table.world, wanted, message=doing.message, job=doing.job
        )
        after = table.log.state.version
        return Outcome(statement=text.kind, table=name, version=after if after > before else None)


def _making(job: Job | None) -> Job | None:
    """The batch of the table that a job makes for rows of its own."""
    return None if job is None else Job(f"{job.app}#table", job.batch)


def _read(text: Text) -> None:
    """Raise BadSql for a statement whose form Blockstore does not have."""
    if text.changes:
        read_dml(text.sql)
    elif text.kind in _DEFINES:
        _DEFINES[text.kind](text.sql)


_DEFINES: Mapping[Kind, Callable[[str], Create | Alter | Drop | Call]] = {
    Kind.CREATE: read_create,
    Kind.ALTER: read_alter,
    Kind.DROP: read_drop,
    Kind.CALL: read_call,
}
