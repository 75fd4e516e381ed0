"""The rows of a statement's SELECT become a new version of a table whose rows have no identity: the
blocks that hold affected rows are replaced.

Rules:
- The statement's rows are computed once and written as one new block for each set of labels; of
  each block that holds affected rows the others are written again, with the same sources and
  labels. All other blocks stay.
- One entry does it all. If an affected block was replaced meanwhile, everything is done again on
  the newer version. Rows that others append meanwhile follow the statement, unless the table is
  ``serializable``: then it is done again.
- Each row of an affected block is written once, in one of both blocks, or deleted. Two queries say
  which rows change, and the number and the hashes of these rows must be the same: a statement that
  matches a row twice, or that decides otherwise each time, changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from blockstore.errors import BlockCondemned, Conflict, Fenced, HistoryReplaced, Invalid
from blockstore.format.block import BlockMeta, Parent
from blockstore.format.casting import cast_batch
from blockstore.format.labels import Labels
from blockstore.format.properties import Isolation
from blockstore.format.schema import with_reserved
from blockstore.index.entry import Operation
from blockstore.index.rows import LiveBlock
from blockstore.index.state import State
from blockstore.operations.access import Access
from blockstore.operations.fresh_by_labels import FreshByLabels
from blockstore.operations.kept_rows import Rewriter, parent_of
from blockstore.operations.replacement import Replace
from blockstore.operations.scope import Scope
from blockstore.operations.staging import uploading
from blockstore.operations.view import snapshot_of
from blockstore.predicate import Predicate
from blockstore.reader.statements.changing import Changed, Committing, Returned, images
from blockstore.reader.statements.clauses import Act
from blockstore.reader.statements.images import Selected
from blockstore.reader.statements.kept import block_of
from blockstore.reader.statements.shape import Shape
from blockstore.reader.statements.streams import Streams, those
from blockstore.rows.attempts import Said, already_done
from blockstore.rows.results import RowsChanged
from blockstore.rows.streams import stream_of
from blockstore.scan.snapshot import Snapshot
from blockstore.scan.view import TableSnapshot

_PLANS = 12
"""So often a statement is planned before the table is said to change too fast."""
_SOURCE = "_source"

Query = Callable[[str, Mapping[str, TableSnapshot]], pa.RecordBatchReader]
"""Runs a SELECT over snapshots that were taken before; the query ends with the reader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be computed."""

    table: str
    selected: Selected
    kept: str
    """The SELECT of the rows that stay (``kept.py``)."""


def replace_blocks(
    access: Access,
    operation: Operation,
    plan: Callable[[Shape], Plan],
    query: Query,
    pinned: Callable[[], Mapping[str, TableSnapshot]],
    said: Said,
    committing: Committing = lambda _: None,
) -> Changed:
    """Carry out a statement as one version.

    Args:
        access: The table.
        operation: What the entry calls it.
        plan: Makes the SELECTs, for a shape of the table.
        query: Runs them.
        pinned: Takes the snapshots of the other tables, for each plan.
        said: What the caller says of it.
        committing: As in ``changing.change``.

    Raises:
        Invalid: The rows do not fit, or a row is matched twice.
        Conflict: Others change the same blocks all the time.
    """
    if operation is Operation.APPEND:
        # An entry of that name is no statement's: whether its blocks are there is decided block by
        # block, and a plan that is made again has others.
        operation = Operation.MERGE
    problem: Conflict | None = None
    for _ in range(_PLANS):
        state = access.log.poll()
        already = already_done(state, operation, said)
        if already is not None:
            access.log.confirm()
            return Changed(rows=already)
        committing(False)
        planned = plan(Shape.of(Snapshot.of(state)))
        attempt = Attempt(access, operation, planned, query, pinned(), said, state)
        with access.log.own_looks():
            try:
                written = attempt.write()
                committing(True)
                rows = commit(access, operation, said, state, written)
                return Changed(rows=rows, returned=written.returned)
            except (Fenced, HistoryReplaced):
                raise
            except (Conflict, BlockCondemned) as error:
                problem = error
    raise Conflict(
        f"this {operation} was planned {_PLANS} times, and each time another process was faster; "
        f"nothing of it was applied, try again: {problem}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The blocks of a statement that is not committed."""

    rows: RowsChanged
    returned: pa.Table | None
    """The rows that RETURNING asked for."""
    add: tuple[BlockMeta, ...]
    gone: Mapping[str, frozenset[str]]
    """The blocks in whose place they come, each with the exceptions under which it was read."""

    def change(self, operation: Operation, commit: str, said: Said, read: State) -> Replace:
        """What they are for the index."""
        isolation = read.definition.properties.isolation
        return Replace(
            operation=operation,
            commit=commit,
            read=read,
            add=self.add,
            gone=self.gone,
            scope=Scope(what=str(operation), predicate=Predicate(), isolation=isolation)
            if isolation is Isolation.SERIALIZABLE
            else None,
            job=said.job,
            ordered=said.ordered,
            parameters=said.parameters,
            message=said.message,
        )


def commit(
    access: Access, operation: Operation, said: Said, read: State, written: Written
) -> RowsChanged:
    """Commit the blocks of statements that have read a state; return the counts with the version.
    Raises Conflict where one of the replaced blocks was replaced since, and as any commit."""
    if not (written.add or written.gone or said.job):
        return written.rows
    own = access.world.ids.ulid()
    committed = access.log.commit(written.change(operation, own, said, read))
    if committed.already and access.log.state.commits.find(own) is None:
        return RowsChanged(operation=str(operation), version=committed.version, already=True)
    return replace(written.rows, version=committed.version)


@dataclass(slots=True)
class Rows:
    """Any number of rows, to compare with others: two sums that do not depend on the order."""

    count: int = 0
    hashes: int = 0

    def add(self, hashes: pa.Array) -> None:
        """Add rows by their hashes."""
        self.count += len(hashes)
        values = hashes.to_numpy(zero_copy_only=False).astype(np.uint64)
        self.hashes = (self.hashes + int(values.sum(dtype=np.uint64))) % (1 << 64)


@dataclass
class Attempt:
    """One statement on one state."""

    access: Access
    operation: Operation
    plan: Plan
    query: Query
    others: Mapping[str, TableSnapshot]
    said: Said
    state: State
    base: State | None = None
    """The committed state, where ``state`` has blocks that no entry names."""
    counts: Counter[str] = field(default_factory=Counter)
    sources: set[str] = field(default_factory=set)
    """Those of the rows that change or go."""
    changed: Rows = field(default_factory=lambda: Rows())
    """These rows, by the statement."""
    left: Rows = field(default_factory=lambda: Rows())
    """These rows, by what is not kept of the affected blocks."""
    streams: Streams = field(init=False)

    def write(self) -> Written:
        """Write its blocks. Raises Invalid for rows that do not fit, or that it matches twice."""
        own = stream_of(self.state.definition, self.said.labels)
        self.streams = Streams(self.state, self.plan.selected, own)
        reader = self._run(self.plan.selected.sql)
        returned = Returned(self.plan.selected, reader.schema)
        with uploading(str(self.operation)):
            fresh = FreshByLabels(
                self.access,
                self.state.definition,
                job=self.said.job,
                producer=str(self.operation),
                buffer_bytes=self.said.buffer_bytes,
            )
            with fresh.writing() as put:
                for labels, rows in self._images(reader, returned):
                    put(labels, rows)
            rewrites = {block.ulid: (block, self._rewritten(block)) for block in self._affected()}
            self._check_once()
            gone = [block.meta for block, meta in rewrites.values() if meta is None]
            made = fresh.blocks(gone, self._parents)
        kept = (meta for _, meta in rewrites.values() if meta is not None)
        return Written(
            rows=RowsChanged(
                operation=str(self.operation),
                inserted=self.counts["inserted"],
                updated=self.counts["updated"],
                deleted=self.counts["deleted"],
                unchanged=self.counts["unchanged"],
            ),
            returned=returned.table(),
            add=(*made, *kept),
            gone={ulid: block.excepted for ulid, (block, _) in rewrites.items()},
        )

    def _parents(self, replaced: Iterable[BlockMeta]) -> list[Parent] | None:
        """The committed blocks in whose place a block comes that replaces these; None: these."""
        if self.base is None:
            return None
        found: dict[str, Parent] = {}
        for meta in replaced:
            known = (parent_of(meta),) if meta.ulid in self.base.blocks else meta.parents
            found |= {parent.ulid: parent for parent in known}
        return list(found.values())

    def _run(self, sql: str, block: Snapshot | None = None) -> pa.RecordBatchReader:
        """Run a SELECT over the table, and where it is about one block over this one too."""
        taken = {self.plan.table: self._taken(Snapshot.of(self.state))}
        if block is not None:
            taken[block_of(self.plan.table)] = self._taken(block)
        return self.query(sql, {**self.others, **taken})

    def _taken(self, snapshot: Snapshot) -> TableSnapshot:
        return TableSnapshot(
            bucket=self.access.bucket,
            world=self.access.world,
            snapshot=snapshot,
            reads=self.access.reads,
        )

    def _images(
        self, reader: pa.RecordBatchReader, returned: Returned
    ) -> Iterator[tuple[Labels, pa.RecordBatch]]:
        """The new rows, and those that change, by their labels; counts these and the rows that
        go."""
        definition, first = self.state.definition, 0
        for batch in reader:
            did = batch.column(0)
            for number, act in enumerate(self.plan.selected.acts, 1):
                rows = batch.filter(pc.equal(did, number))
                if not rows.num_rows:
                    continue
                if act not in _COUNTED:
                    self.counts["unchanged"] += rows.num_rows
                    continue
                self.counts[_COUNTED[act]] += rows.num_rows
                returned.take(rows)
                if act is not Act.INSERT:
                    self.sources.update(pc.unique(rows.column(1)).to_pylist())
                    self.changed.add(rows.column(2))
                if act is not Act.DELETE:
                    new = images(rows, self.plan.selected, definition)
                    new = cast_batch(new, definition, first_row=first)
                    first += rows.num_rows
                    find = self.streams.new if act is Act.INSERT else self.streams.existing
                    for stream, which in find(rows):
                        yield stream.labels, those(new, which)

    def _check_once(self) -> None:
        """Raise Invalid unless every row of the affected blocks is in one place."""
        if self.changed == self.left:
            return
        if self.changed.count > self.left.count:
            raise Invalid(
                f"the statement matches {self.left.count:,} rows {self.changed.count:,} times, and "
                "a row changes once: let each match one; nothing was changed"
            )
        raise Invalid(
            "the statement decides otherwise each time that it is computed, so rows cannot be "
            "replaced by it; nothing was changed: leave random values and LIMIT without ORDER BY "
            "out of its conditions"
        )

    def _affected(self) -> list[LiveBlock]:
        """The blocks that hold rows of the sources that changed; some may hold none."""
        return [
            block for block in self.state.blocks if not self.sources.isdisjoint(block.meta.sources)
        ]

    def _rewritten(self, block: LiveBlock) -> BlockMeta | None:
        # With the labels of all blocks: the statement may name one that this block does not have.
        labels = Snapshot.of(self.state).label_names
        alone = replace(snapshot_of(self.state, block), labels=labels)
        reader = self._run(self.plan.kept, alone)
        schema = with_reserved(self.state.definition.schema, (_SOURCE,))

        def rows() -> Iterator[pa.RecordBatch]:
            for batch in reader:
                *columns, stays, hashes = batch.columns
                self.left.add(hashes.filter(pc.invert(stays)))
                own = [
                    column if column.type == one.type else column.cast(one.type)
                    for column, one in zip(columns, schema, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(own, schema=schema).filter(stays)

        rewriter = Rewriter(access=self.access, state=self.state, producer=str(self.operation))
        return rewriter.of_rows(block, rows(), self._parents([block.meta]))


_COUNTED = {Act.INSERT: "inserted", Act.UPDATE: "updated", Act.DELETE: "deleted"}
