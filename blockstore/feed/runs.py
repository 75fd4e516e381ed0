"""The changes of versions that only write, a run of them at once.

Rules:
- Whether a row was there before the run is looked up once for the run: by the ranges of its
  identities, in the identity columns of chunks of the state before.
- A run is some hundred versions, or some million identities. A version that changes more is given
  chunk by chunk: a write has each identity once.
- Rows as they were are read together for many versions, at most some hundred thousand at once, or
  those that one chunk of changes replaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from blockstore.errors import VersionExpired
from blockstore.feed.entries import Moment, Wrote
from blockstore.feed.form import Form, Kind, Kinds
from blockstore.feed.known import Gone, Judged, Known, Mask
from blockstore.format.block import BlockKind, StreamKey
from blockstore.format.identity import DELETED, VERSION, Identity
from blockstore.index.state import State
from blockstore.operations.access import Access
from blockstore.predicate import parse
from blockstore.rows.reading import range_of
from blockstore.scan.chunk import ScanChunk
from blockstore.scan.current import Columns, columns_of, numbers
from blockstore.scan.execute import read_plan
from blockstore.scan.identities import identities
from blockstore.scan.plan import ScanPlan, plan_scan
from blockstore.scan.resolve import columns_reader

RUN_VERSIONS = 256
RUN_ROWS = 1_000_000
IMAGES = 200_000


@dataclass(frozen=True, slots=True)
class _Piece:
    """A chunk that a version added."""

    moment: Moment
    before: State
    chunk: ScanChunk


@dataclass(frozen=True, slots=True)
class _Step:
    """A piece, and what its rows do."""

    piece: _Piece
    judged: Judged | None = None
    """None: all are new."""

    @property
    def chunk(self) -> ScanChunk:
        """What is read of it."""
        if self.judged is None or not len(self.judged.silent):
            return self.piece.chunk
        return replace(self.piece.chunk, hidden=self.judged.silent)

    @property
    def gone(self) -> int:
        """How many rows are given as they were."""
        return 0 if self.judged is None else len(self.judged.gone)


def changes_of(
    access: Access, form: Form, run: Sequence[Wrote], *, images: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the changes of versions, in their order, that only write; with ``images`` also how rows
    that were updated had been."""
    plan = form.plan(block for wrote in run for block in wrote.blocks)
    by_block: dict[str, list[ScanChunk]] = {}
    for chunk in plan.chunks:
        by_block.setdefault(chunk.block, []).append(chunk)
    versions = (
        [
            _Piece(wrote.moment, wrote.before, chunk)
            for block in wrote.blocks
            for chunk in by_block.get(block.ulid, ())
        ]
        for wrote in run
    )
    for some in _limited(versions):
        yield from _Run(access, form, plan, some, images).changes()


def _limited(versions: Iterable[list[_Piece]]) -> Iterator[list[_Piece]]:
    """Versions together; and parts of one that is too large, which no other version joins."""
    held: list[_Piece] = []
    for pieces in versions:
        if held and _rows(held) + _rows(pieces) > RUN_ROWS:
            yield held
            held = []
        if _rows(pieces) > RUN_ROWS:
            yield from _split(pieces)
        else:
            held += pieces
    if held:
        yield held


def _split(pieces: Iterable[_Piece]) -> Iterator[list[_Piece]]:
    held: list[_Piece] = []
    for piece in pieces:
        if held and _rows(held) + piece.chunk.file.rows > RUN_ROWS:
            yield held
            held = []
        held.append(piece)
    if held:
        yield held


def _rows(pieces: Iterable[_Piece]) -> int:
    return sum(piece.chunk.file.rows for piece in pieces)


class _Run:
    """Pieces whose rows are looked up together."""

    def __init__(
        self, access: Access, form: Form, plan: ScanPlan, pieces: Sequence[_Piece], images: bool
    ) -> None:
        self._access = access
        self._form = form
        self._plan = plan
        self._pieces = pieces
        self._images = images
        self._former = form.plan(())
        self._numbered: list[ScanChunk] = []
        """The chunks of the state before, then those of the run, by their numbers."""

    def changes(self) -> Iterator[pa.RecordBatch]:
        """Yield them."""
        group: list[_Step] = []
        gone = 0
        for one in self._steps():
            if group and gone + one.gone > IMAGES:
                yield from self._group(group)
                group, gone = [], 0
            group.append(one)
            gone += one.gone
        if group:
            yield from self._group(group)

    def _steps(self) -> Iterator[_Step]:
        identity = self._form.definition.identity
        changes = [one.chunk for one in self._pieces if one.chunk.kind is BlockKind.CHANGES]
        if identity is None or not changes:
            yield from map(_Step, self._pieces)
            return
        columns = dict(
            zip(
                [chunk.key for chunk in changes],
                self._columns(self._plan, changes, (*identity.columns, DELETED)),
                strict=True,
            )
        )
        named = {key: identities(columns_of(rows, identity)) for key, rows in columns.items()}
        known = self._look(identity, changes, named)
        for piece in self._pieces:
            chunk, stream = piece.chunk, known.get(piece.chunk.stream)
            number = len(self._numbered)
            self._numbered.append(chunk)
            if chunk.kind is BlockKind.PLAIN:
                if stream is not None and chunk.first_row_id is not None:
                    stream.see_new(
                        number, chunk.first_row_id, chunk.file.rows, piece.moment.version
                    )
                yield _Step(piece)
            else:
                assert stream is not None, "each stream with changes was looked at"
                deleted = _flags(columns[chunk.key])
                version = piece.moment.version
                values = named[chunk.key]
                yield _Step(
                    piece,
                    stream.judge(number, values, version, deleted, images=self._images),
                )

    def _look(
        self, identity: Identity, changes: Sequence[ScanChunk], named: dict[str, pa.Array]
    ) -> dict[StreamKey, Known]:
        """What the state before the run has of the rows that it touches."""
        found: dict[StreamKey, Known] = {}
        for stream in dict.fromkeys(chunk.stream for chunk in changes):
            own = [named[chunk.key] for chunk in changes if chunk.stream == stream]
            found[stream] = Known(pc.unique(pa.chunked_array(own)))
        before = self._pieces[0].before
        if before.table is None:
            return found
        if not before.table.identifies_as(self._form.definition):
            raise VersionExpired(
                f"version {before.version} is of a time when rows were not identified as they are "
                "now: read the table as it is, and its changes from then on"
            )
        snapshot = self._form.snapshot(before.blocks)
        self._former = plan_scan(snapshot, columns=self._form.rows.names, labels=self._form.labels)
        self._numbered = list(self._former.chunks)
        for stream, known in found.items():
            where = range_of(snapshot, identity.columns, known.values)
            near = {chunk.key for chunk in plan_scan(snapshot, where=where).chunks}
            self._see(identity, known, stream, near)
        return found

    def _see(self, identity: Identity, known: Known, stream: StreamKey, near: set[str]) -> None:
        to_read: dict[BlockKind, list[int]] = {}
        for number, chunk in enumerate(self._former.chunks):
            if chunk.stream != stream or chunk.key not in near:
                continue
            if chunk.kind is BlockKind.PLAIN and chunk.first_row_id is not None:
                assert chunk.version is not None, "the index gives a write its ids and its version"
                known.see_new(number, chunk.first_row_id, chunk.file.rows, chunk.version)
            else:
                to_read.setdefault(chunk.kind, []).append(number)
        for kind, these in to_read.items():
            more = (DELETED,) if kind is BlockKind.CHANGES else ()
            names = (*identity.columns, VERSION, *more)
            chunks = [self._former.chunks[number] for number in these]
            for number, rows in zip(these, self._columns(self._former, chunks, names), strict=True):
                values = identities(columns_of(rows, identity))
                deleted = _flags(rows) if more else np.zeros(len(values), bool)
                known.see(number, values, numbers([rows[VERSION]]), deleted)

    def _columns(
        self, plan: ScanPlan, chunks: Sequence[ScanChunk], names: Sequence[str]
    ) -> Iterator[Columns]:
        return columns_reader(plan, self._read)(chunks, names)

    def _read(self, plan: ScanPlan) -> pa.RecordBatchReader:
        return read_plan(self._access.bucket, plan, self._access.world, reads=self._access.reads)

    def _group(self, group: Sequence[_Step]) -> Iterator[pa.RecordBatch]:
        """The changes of some pieces, whose former rows are read together."""
        images = self._images_of([one.judged.gone for one in group if one.judged is not None])
        shown = tuple(one.chunk for one in group if one.chunk.rows)
        rows = _Rows(self._read(replace(self._plan, chunks=shown, changes=())))
        first = 0
        for one in group:
            moment = one.piece.moment
            if one.judged is not None and one.gone:
                before = images.slice(first, one.gone)
                first += one.gone
                yield from self._form.batches(before, one.judged.gone.kinds, moment)
            at = 0
            for batch in rows.next(one.chunk.rows):
                kinds = _part(one.judged, at, batch.num_rows)
                at += batch.num_rows
                yield from self._form.batches(batch, kinds, moment)

    def _images_of(self, gone: Sequence[Gone]) -> pa.Table:
        """Rows as they were, in this order."""
        schema = self._form.rows
        if not sum(map(len, gone)):
            return schema.empty_table()
        chunks = np.concatenate([one.chunks for one in gone])
        positions = np.concatenate([one.positions for one in gone])
        values = pa.concat_arrays([one.values for one in gone])
        order = np.lexsort((positions, chunks))
        found = []
        for number in np.unique(chunks).tolist():
            own = np.unique(positions[chunks == number])
            found.append((number, own))
        limit = len(self._former.chunks)
        tables = [
            self._picked(plan, [one for one in found if (one[0] < limit) is former], values)
            for plan, former in ((self._former, True), (self._plan, False))
        ]
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return pa.concat_tables(tables).combine_chunks().take(pa.array(back))

    def _picked(
        self, plan: ScanPlan, found: Sequence[tuple[int, np.ndarray]], values: pa.Array
    ) -> pa.Table:
        """Rows of chunks, by their positions; the ranges of their identities say which parts of the
        files to read."""
        identity = self._form.definition.identity
        assert identity is not None, "only rows with an identity are replaced one by one"
        where = range_of(self._form.snapshot(()), identity.columns, values)
        chunks = tuple(
            replace(chunk, certain=where is None, hidden=np.delete(every, positions))
            for number, positions in found
            for chunk in (self._numbered[number],)
            for every in (np.arange(chunk.file.rows),)
        )
        some = replace(plan, chunks=chunks, changes=(), predicate=parse(where, plan.columns.all))
        return pa.Table.from_batches(self._read(some) if chunks else (), self._form.rows)


class _Rows:
    """Rows of a reader, so many at a time."""

    def __init__(self, reader: Iterable[pa.RecordBatch]) -> None:
        self._reader = iter(reader)
        self._held: pa.RecordBatch | None = None

    def next(self, count: int) -> Iterator[pa.RecordBatch]:
        """Yield the next rows."""
        while count:
            batch = next(self._reader) if self._held is None else self._held
            self._held = batch.slice(count) if batch.num_rows > count else None
            count -= min(count, batch.num_rows)
            yield (
                batch
                if self._held is None
                else batch.slice(0, batch.num_rows - self._held.num_rows)
            )


def _part(judged: Judged | None, first: int, count: int) -> Kinds | Kind:
    return Kind.INSERT if judged is None else judged.kinds[first : first + count]


def _flags(rows: Columns) -> Mask:
    return np.asarray(rows[DELETED].to_numpy(zero_copy_only=False), dtype=bool)
