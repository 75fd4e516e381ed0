"""The statements between BEGIN and COMMIT: one version of one table, or nothing.

Rules:
- A statement reads what those before it have written. Every other table is read in one snapshot,
  taken when the transaction begins, or where it is typed when a statement first names the table.
- Nothing is visible before COMMIT. A transaction that ends otherwise leaves debris, which the
  compactor removes.
- It changes one table. A text that changes another is refused before anything is written.
- If others changed the same rows meanwhile, the transaction of a text is computed again. One that
  is typed is refused: the rows that it has shown are no longer those of the table.
- Where the isolation of its table is ``serializable``, that holds for all rows that it has read.
- After a statement that failed, a transaction that is typed can only be rolled back, or go on as if
  the statement had not been.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from blockstore.errors import Conflict, Fenced, HistoryReplaced, Invalid, RowConflict
from blockstore.index.entry import Operation
from blockstore.reader.errors import BadSql
from blockstore.reader.statements.bound import Bound, access_of, ask, newest
from blockstore.reader.statements.changing import MOST_RETURNED
from blockstore.reader.statements.doing import Doing
from blockstore.reader.statements.outcome import Outcome
from blockstore.reader.statements.reading import read_dml
from blockstore.reader.statements.session import Session
from blockstore.reader.statements.shape import Shape
from blockstore.reader.statements.texts import Kind, Text
from blockstore.reader.statements.together import Together, together
from blockstore.reader.statements.tokens import Misread
from blockstore.reader.tables.names import folded
from blockstore.rows.attempts import already_done
from blockstore.rows.results import RowsChanged
from blockstore.scan.snapshot import Snapshot
from blockstore.scan.view import TableSnapshot
from blockstore.table import Table

_PLANS = 12
"""So often a transaction is computed before the table is said to change too fast."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The statements of one transaction of a text."""

    texts: tuple[Text, ...]
    commits: bool
    """Whether it ends with COMMIT; else with ROLLBACK."""

    @property
    def target(self) -> str | None:
        """The table that it changes, as its first change names it."""
        return next((read_dml(one.sql).target.name for one in self.texts if one.changes), None)


def grouped(texts: Iterable[Text]) -> list[Text | Block]:
    """The statements of a complete text, those of each transaction together. Raises BadSql for a
    transaction that does not end, or that cannot be one version of one table."""
    found: list[Text | Block] = []
    begin: Text | None = None
    held: list[Text] = []
    for text in texts:
        match text.kind:
            case Kind.BEGIN if begin is not None:
                raise _at(text, "a transaction is open already: end it with COMMIT first")
            case Kind.BEGIN:
                begin, held = text, []
            case Kind.COMMIT | Kind.ROLLBACK if begin is None:
                raise _at(text, f"{text.kind} ends nothing: a transaction begins with BEGIN")
            case Kind.COMMIT | Kind.ROLLBACK:
                found.append(Block(texts=tuple(held), commits=text.kind is Kind.COMMIT))
                begin = None
            case _ if begin is not None:
                check_in(text)
                held.append(text)
                _check_one_table(held)
            case _:
                found.append(text)
    if begin is not None:
        raise _at(begin, "this transaction does not end, and nothing was run: add COMMIT")
    return found


def check_in(text: Text) -> None:
    """Raise BadSql for a statement that a transaction cannot have."""
    if not (text.changes or text.kind is Kind.SELECT):
        raise _at(
            text,
            f"{text.kind} is not possible in a transaction, which has SELECT, INSERT, UPDATE, "
            "DELETE, MERGE and TRUNCATE: run it before BEGIN or after COMMIT",
        )


def _check_one_table(texts: Sequence[Text]) -> None:
    *before, last = texts
    first = next((read_dml(one.sql).target.name for one in before if one.changes), None)
    if first is None or not last.changes:
        return
    target = read_dml(last.sql).target
    if folded(target.name) != folded(first):
        raise last.placed(Misread(last.sql, target.at, _two(first, target.name)))


def _two(first: str, second: str) -> str:
    return (
        f"a transaction is one version of one table, and this one changes {first} and "
        f"{second}: give {second} a transaction of its own"
    )


def _at(text: Text, what: str) -> BadSql:
    return text.placed(Misread(text.sql, 0, what))


class Transaction:
    """One that is open."""

    def __init__(self, session: Session, doing: Doing) -> None:
        self._session = session
        self._doing = doing
        self._pinned: dict[str, TableSnapshot] = {}
        self._table: Table | None = None
        self._name = ""
        self._together: Together | None = None
        self._did: list[RowsChanged] = []
        self._texts: list[str] = []
        self._queried: frozenset[str] = frozenset()
        """The tables that its queries have read."""
        self.marks = doing.marks
        """Called with True before the commit."""
        self.failed = False
        """Whether it can only be rolled back, or go on without what failed."""

    def take(self, name: str) -> Outcome | None:
        """Open the table that it changes; return what its job did before, if it did. Raises
        Invalid for a table without an index."""
        name = self._session.engine.source.find(name, self._doing.allowed)
        table, _ = newest(self._session.tables, name)
        if not table.indexed:
            raise Invalid(
                f"table {name} has no index, which a transaction needs to be one version: run its "
                "statements one by one"
            )
        state = table.log.state
        pinned = self._pinned.pop(name, None)
        if pinned is not None and pinned.version not in (None, state.version):
            state = table.log.at(pinned.version)
        said = self._doing.said("")
        done = already_done(state, Operation.MERGE, said)
        if done is not None:
            table.log.confirm()
            return Outcome(statement=Kind.COMMIT, table=name, version=done.version, already=True)
        self._table, self._name = table, name
        self._together = together(access_of(table), state, said)
        return None

    def pin(self, names: Collection[str]) -> None:
        """Take snapshots of tables that it only reads, together, and of each once. A statement that
        names them was admitted before: what its caller sees of them is up to the engine."""
        missing = sorted(set(names) - self._pinned.keys() - {self._name})
        if missing:
            self._pinned |= self._session.engine.source.snapshots(missing, allowed=missing)

    def names_in(self, text: Text) -> frozenset[str]:
        """The tables that a statement reads, but for the one that it changes."""
        if not text.changes:
            return self._session.engine.tables(text.sql, allowed=self._doing.allowed)
        bound = Bound.of(self._session.engine, text, self._doing)
        return bound.others(Shape.of(Snapshot.of(self._open.state)))

    def run(self, text: Text, doing: Doing | None = None) -> Outcome:
        """Run one statement; ``doing`` is for this one and those that follow. Raises as
        ``Session.run``; then nothing of it counts."""
        self._doing = doing or self._doing
        if self.failed:
            raise _at(text, "a statement of this transaction failed: write ROLLBACK")
        try:
            check_in(text)
            return self._change(text) if text.changes else self._select(text)
        except Misread as error:
            self.failed = True
            raise text.placed(error) from None
        except BaseException:
            self.failed = True
            raise

    def go_on(self) -> None:
        """Forget that a statement failed. It has changed nothing, and if it was the first to name
        the table that is changed, another one may be."""
        self.failed = False
        if self._table is not None and not self._did:
            self._pinned = {**self._pinned, self._name: self._own}
            self._table, self._name, self._together = None, "", None

    def commit(self) -> Outcome:
        """Commit all of it as one version. Raises Conflict where others changed the same rows, or
        blocks, meanwhile: then nothing of it is visible."""
        if self.failed:
            raise BadSql(
                "a statement of this transaction failed, so nothing of it was committed: begin it "
                "again"
            )
        if self._together is None:
            return Outcome(statement=Kind.COMMIT)
        assert self._table is not None, "a transaction that changes rows has a table"
        totals = RowsChanged(
            operation=str(Operation.MERGE),
            inserted=_sum(one.inserted for one in self._did),
            updated=_sum(one.updated for one in self._did),
            deleted=_sum(one.deleted for one in self._did),
            unchanged=_sum(one.unchanged for one in self._did),
        )
        self.marks(True)
        if self._name in self._queried:
            self._together.read_all()
        with self._table.log.own_looks():
            rows = self._together.commit(totals, self._doing.said(";\n".join(self._texts)))
        return Outcome(
            statement=Kind.COMMIT,
            table=self._name,
            version=rows.version,
            already=rows.already,
            inserted=rows.inserted,
            updated=rows.updated,
            deleted=rows.deleted,
            unchanged=rows.unchanged,
        )

    @property
    def _own(self) -> TableSnapshot:
        """The table that it changes, as it has changed it."""
        assert self._table is not None, "the table is taken before its rows are read so"
        return TableSnapshot(
            bucket=self._table.bucket,
            world=self._table.world,
            snapshot=Snapshot.of(self._open.state),
        )

    @property
    def _open(self) -> Together:
        assert self._together is not None, "the table is taken before its rows are changed"
        return self._together

    def _select(self, text: Text) -> Outcome:
        taken = self.read(self.names_in(text))
        reader = ask(self._session.engine, text.sql, self._doing, taken).reader
        return Outcome(statement=text.kind, rows=reader)

    def read(self, names: Collection[str]) -> dict[str, TableSnapshot]:
        """Return what a query of these tables reads: the snapshots that were taken, and the table
        that it changes as it has changed it. Where that one is ``serializable``, its commit depends
        on it."""
        self._queried |= frozenset(names)
        self.pin(names)
        if self._table is None:
            return self._pinned
        return {**self._pinned, self._name: self._own}

    def _change(self, text: Text) -> Outcome:
        bound = Bound.of(self._session.engine, text, self._doing)
        if self._table is None:
            self.take(bound.name)
        elif bound.name != self._name:
            raise Misread(text.sql, bound.dml.target.at, _two(self._name, bound.name))
        shape = Shape.of(Snapshot.of(self._open.state))
        names = bound.others(shape)
        self.pin(names)
        others = {name: self._pinned[name] for name in names}
        bound.check(shape, others)
        done = self._open.write(bound, others)
        self._did.append(done.rows)
        self._texts.append(text.sql)
        return bound.outcome(done.rows, done.returned)


def carry_out(session: Session, block: Block, doing: Doing) -> list[Outcome]:
    """Run the transaction of a text; return what each of its statements did, and at last what it
    did as a whole. The rows of its queries are held until then.

    Raises as ``Session.run``, and Conflict if others change the same rows all the time; then
    nothing of it was applied.
    """
    problem: Conflict | None = None
    for _ in range(_PLANS):
        doing.marks(False)
        try:
            return _carried_out(session, block, doing)
        except (Fenced, HistoryReplaced):
            raise
        except Conflict as error:
            if isinstance(error, RowConflict) and error.rows:
                raise
            problem = error
    raise Conflict(
        f"this transaction was computed {_PLANS} times, and each time another process changed its "
        f"rows first; nothing of it was applied, try again: {problem}"
    )


def _carried_out(session: Session, block: Block, doing: Doing) -> list[Outcome]:
    transaction = Transaction(session, doing)
    target = block.target
    done = None if target is None else transaction.take(target)
    if done is not None:
        return [done]
    transaction.pin(frozenset().union(*map(transaction.names_in, block.texts)))
    outcomes = [_held(transaction.run(text)) for text in block.texts]
    if block.commits:
        return [*outcomes, transaction.commit()]
    return [*outcomes, Outcome(statement=Kind.ROLLBACK)]


def _held(outcome: Outcome) -> Outcome:
    """The same with its rows in memory. Raises Invalid for too many."""
    if outcome.rows is None:
        return outcome
    batches: list[pa.RecordBatch] = []
    with outcome.rows as reader:
        for batch in reader:
            batches.append(batch)
            if sum(one.nbytes for one in batches) > MOST_RETURNED:
                raise Invalid(
                    f"a query of the transaction returns more than {MOST_RETURNED >> 20} MiB of "
                    "rows, and they are held until COMMIT; nothing was changed: return fewer, or "
                    "query after COMMIT"
                )
        schema = reader.schema
    return replace(outcome, rows=pa.Table.from_batches(batches, schema).to_reader())


def _sum(counts: Iterable[int | None]) -> int | None:
    found = list(counts)
    return None if None in found else sum(one for one in found if one is not None)
