"""A statement that changes rows, bound to its table: the SELECTs that it becomes, and how they run.

Rule: every SELECT is admitted like a query of a stranger (``query/sql``), and runs in the same
locked engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from blockstore.errors import HistoryReplaced, TableDropped
from blockstore.index.entry import Operation
from blockstore.index.lives import check_there
from blockstore.operations.access import Access
from blockstore.reader.errors import BadSql
from blockstore.reader.query.answer import Answer
from blockstore.reader.query.engine import Engine
from blockstore.reader.statements import twins
from blockstore.reader.statements.clauses import Delete, Dml, Insert, Merge, OnConflict, Update
from blockstore.reader.statements.doing import Doing, Parameters, Tables
from blockstore.reader.statements.images import Selected
from blockstore.reader.statements.kept import kept
from blockstore.reader.statements.outcome import Outcome
from blockstore.reader.statements.own_reads import own_reads
from blockstore.reader.statements.plain import Plan
from blockstore.reader.statements.reading import read_dml
from blockstore.reader.statements.rows import Selects
from blockstore.reader.statements.shape import Shape
from blockstore.reader.statements.texts import Text
from blockstore.rows.results import RowsChanged
from blockstore.rows.seen import Seen
from blockstore.scan.reads import Reads
from blockstore.scan.snapshot import Snapshot
from blockstore.scan.view import TableSnapshot
from blockstore.table import Table

_NOTHING: Mapping[str, TableSnapshot] = {}


@dataclass(kw_only=True)
class Bound:
    """A statement and the name of its table."""

    engine: Engine
    text: Text
    doing: Doing
    dml: Dml
    name: str
    _last: tuple[Shape, Selected] | None = None

    @classmethod
    def of(cls, engine: Engine, text: Text, doing: Doing) -> Bound:
        """Find the table of a statement. Raises BadSql and UnknownTable."""
        dml = read_dml(text.sql)
        name = engine.source.find(dml.target.name, doing.allowed)
        return cls(engine=engine, text=text, doing=doing, dml=dml, name=name)

    @property
    def operation(self) -> Operation:
        """What an entry calls it."""
        match self.dml:
            case Update():
                return Operation.UPDATE
            case Delete():
                return Operation.DELETE
            case Merge():
                return Operation.MERGE
            case Insert(on_conflict=OnConflict.UPDATE | OnConflict.REPLACE):
                return Operation.UPSERT
        return Operation.APPEND

    @property
    def ignores(self) -> bool:
        """Whether new rows whose key exists are left out."""
        return isinstance(self.dml, Insert) and self.dml.on_conflict is OnConflict.NOTHING

    def selected(self, shape: Shape) -> Selected:
        """The SELECT of its changes. Raises BadSql."""
        if self._last is None or self._last[0] != shape:
            select = Selects(self.dml, self.name, shape, self._probe, self.doing.parameters)
            self._last = shape, select.select()
        return self._last[1]

    def plan(self, shape: Shape) -> Plan:
        """All that is computed where rows have no identity."""
        return Plan(
            table=self.name,
            selected=self.selected(shape),
            kept=kept(self.dml, self.name, shape),
        )

    def others(self, shape: Shape) -> frozenset[str]:
        """The other tables that it reads."""
        sql = self.selected(shape).sql
        try:
            return self.engine.tables(sql, allowed=self.doing.allowed) - {self.name}
        except BadSql as error:
            raise self.text.quoting(error) from None

    def reads(self, seen: Seen, snapshot: Snapshot) -> None:
        """Note what it reads of its own table."""
        own = self.name in self.engine.tables(
            self.selected(Shape.of(snapshot)).sql, allowed=self.doing.allowed
        )
        own_reads(self.dml, self.name, self.engine.syntax, own=own)(seen, snapshot)

    def check(self, shape: Shape, others: Mapping[str, TableSnapshot]) -> None:
        """Raise BadSql, with its place, for what DuckDB would refuse."""
        if isinstance(self.dml, Delete) and self.dml.truncates:
            return
        own = twins.Twin(
            self.name,
            shape,
            self.dml.conflict_columns if isinstance(self.dml, Insert) else None,
            self.selected(shape).says_labels,
        )
        known = {one: Shape.of(taken.snapshot) for one, taken in others.items()}
        parameters = used(self.engine, self.text.sql, self.doing.parameters)
        twins.check(self.engine, self.text, own, known, parameters)

    def query(
        self, sql: str, taken: Mapping[str, TableSnapshot] = _NOTHING
    ) -> pa.RecordBatchReader:
        """Run one of its SELECTs over snapshots that were taken before."""
        try:
            answer = ask(self.engine, sql, self.doing, taken)
        except BadSql as error:
            raise self.text.quoting(error) from None
        if self.doing.advance is None:
            return answer.reader
        rows = _counted(answer, self.doing.advance)
        return pa.RecordBatchReader.from_batches(answer.schema, rows)

    def outcome(self, rows: RowsChanged, returned: pa.Table | None) -> Outcome:
        """What it did."""
        return Outcome(
            statement=self.text.kind,
            table=self.name,
            version=rows.version,
            inserted=rows.inserted,
            updated=rows.updated,
            deleted=rows.deleted,
            unchanged=rows.unchanged,
            already=rows.already,
            rows=None if returned is None else returned.to_reader(),
        )

    def _probe(self, sql: str) -> Sequence[str]:
        with self.query(sql) as reader:
            names: list[str] = reader.schema.names
            return names


def _counted(answer: Answer, advance: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
    with answer:
        for batch in answer:
            advance(batch.num_rows)
            yield batch


def ask(
    engine: Engine, sql: str, doing: Doing, taken: Mapping[str, TableSnapshot] = _NOTHING
) -> Answer:
    """Run a SELECT for a caller."""
    return engine.run(
        sql,
        used(engine, sql, doing.parameters),
        taken=taken,
        allowed=doing.allowed,
        budget=doing.budget,
        began=doing.began,
    )


def used(engine: Engine, sql: str, parameters: Parameters) -> Parameters:
    """The parameters that a text uses: DuckDB refuses others. Those of a list have the names ``1``,
    ``2``, …"""
    if parameters is None:
        return None
    if not isinstance(parameters, Mapping):
        if "?" in sql:
            return parameters
        parameters = {str(number): value for number, value in enumerate(parameters, 1)}
    names = engine.syntax.parameters(sql)
    found = {name: value for name, value in parameters.items() if name in names}
    return found or None


def newest(tables: Tables, name: str) -> tuple[Table, TableSnapshot]:
    """A handle on a table that a statement is about, and its newest version. Raises TableDropped,
    and UnknownTable."""
    table = tables.open(name)
    try:
        return table, _newest(table)
    except (HistoryReplaced, TableDropped):
        # Another process has dropped it since; perhaps it has created another one.
        table = tables.open(name)
        return table, _newest(table)


def _newest(table: Table) -> TableSnapshot:
    if not table.indexed:
        return table.snapshot()
    state = table.log.poll()
    check_there(state, table.url)
    return TableSnapshot(
        bucket=table.bucket,
        world=table.world,
        snapshot=Snapshot.of(state),
        reads=Reads(table.world),
    )


def access_of(table: Table) -> Access:
    """A table, as operations on rows take it."""
    return Access(
        bucket=table.bucket,
        world=table.world,
        log=table.log,
        catalog=table.catalog,
        reads=Reads(table.world),
    )
