"""Plans: the chunks of a snapshot that can hold rows for which a condition is true. Pure: no byte
is read.

Rules:
- No chunk is left out that holds a row of the scan: unknown statistics prune nothing.
- Pruning goes from cheap to expensive: blocks by time range, labels and the ranges of their columns
  (``candidates.py``), then the remaining blocks' chunks by their statistics.
- Chunks are in the order of (block, position in ``files``); the positions of rows count over them.
- A plan with a hidden column needs chunks that all have it; otherwise planning raises Invalid.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.types as pt

from blockstore.errors import Invalid
from blockstore.format.block import BlockKind, BlockMeta
from blockstore.format.bounds import bounds_from_statistics
from blockstore.format.identity import DELETED, ROW_ID, Identity, RowIds, stored_columns
from blockstore.index.rows import KEPT
from blockstore.lazy import once
from blockstore.names import object_key
from blockstore.predicate import Condition, Predicate, between, parse
from blockstore.predicate.literals import Kind, Temporal
from blockstore.predicate.nodes import Column
from blockstore.predicate.prune import Bounds, BoundsOf
from blockstore.scan.candidates import Candidate, candidates, of_changes
from blockstore.scan.chunk import HIDDEN, ColumnRead, ScanChunk, ScanGroup
from blockstore.scan.columns import Columns, Schemas
from blockstore.scan.snapshot import Snapshot, renewed

MANY = 65_536
"""A plan for one pass over more blocks makes their chunks when they are looked at."""

TimeRange = tuple[object, object]
"""``(start, end)``: start inclusive, end exclusive, None = open; datetimes, dates, texts, or
milliseconds as int."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What a plan leaves out, by reason."""

    blocks: int
    """All blocks of the snapshot."""
    blocks_by_time: int
    blocks_by_labels: int
    blocks_excepted: int
    chunks: int
    """All chunks of the blocks that time and labels left."""
    chunks_by_statistics: int


@dataclass(frozen=True, kw_only=True)
class ScanPlan:
    """What to read for one scan; any engine that applies it returns the same rows."""

    chunks: Sequence[ScanChunk]
    """A tuple; in a plan for one pass perhaps a sequence that makes them (``many_chunks.py``)."""
    output_schema: pa.Schema
    predicate: Predicate
    """To be applied to the rows of every chunk that is not ``certain``."""
    columns: Columns
    changes: tuple[ScanChunk, ...] = ()
    """All chunks of changes of the snapshot: whoever reads ``chunks`` first finds which of their
    rows these hide (``resolve.py``)."""
    identity: Identity | None = None
    """What makes two rows versions of one."""
    schemas: Mapping[int, pa.Schema]
    """The schemas of the chunks, by ``schema_id``; a negative id is this plan's own."""
    pruned: Pruned

    @property
    def rows(self) -> int:
        """The rows of all planned chunks: an upper bound of the scan's rows."""
        return sum(chunk.rows for chunk in self.chunks)

    @property
    def bytes(self) -> int:
        """The size of all planned chunks."""
        return sum(chunk.file.bytes for chunk in self.chunks)

    @once
    def needed(self) -> tuple[str, ...]:
        """Every column that must be read: of the output, and of the condition."""
        return tuple(dict.fromkeys((*self.output_schema.names, *self.predicate.columns)))

    def reads(self, schema_id: int) -> Mapping[str, ColumnRead]:
        """Return how each column of the table is read out of chunks of this schema."""
        return self.columns.reads(schema_id, self.schemas[schema_id])

    def groups(self) -> tuple[ScanGroup, ...]:
        """Return the chunks grouped by identical treatment: each group is one ``read_parquet``."""
        groups: dict[object, list[ScanChunk]] = {}
        for chunk in self.chunks:
            groups.setdefault(self._treatment(chunk), []).append(chunk)
        return tuple(ScanGroup(chunks=tuple(chunks)) for chunks in groups.values())

    def _treatment(self, chunk: ScanChunk) -> object:
        """Return what must be equal for two chunks to be read alike; hidden columns count only if
        they are read."""
        needed = self.needed
        return (
            chunk.schema_id,
            chunk.hidden is None,
            tuple(chunk.labels.items()),
            chunk.sources,
            chunk.excepted,
            chunk.source if "_source" in needed else None,
            (chunk.source is None, chunk.version) if "_version" in needed else None,
            (chunk.kind, chunk.source is None, chunk.first_row_id) if "_row_id" in needed else None,
        )


def plan_pass(
    snapshot: Snapshot, *, columns: Iterable[str] | None = None, where: Condition = None
) -> ScanPlan:
    """Return the plan of a scan whose chunks are gone through once: of very many blocks it makes
    them at each pass, where it can (``many_chunks.py``), and so holds few of them.

    Args and errors are those of ``plan_scan``.
    """
    return _plan(snapshot, columns, where, held=MANY)


def plan_scan(
    snapshot: Snapshot,
    *,
    columns: Iterable[str] | None = None,
    where: Condition = None,
    time_range: TimeRange | None = None,
    labels: Iterable[str] = (),
    every_version: bool = False,
) -> ScanPlan:
    """Return the plan of a scan, which holds its chunks.

    Args:
        snapshot: The blocks to read.
        columns: Names of the columns to return; None = all visible ones.
        where: The condition that rows must meet.
        time_range: The range of the time column that rows must be in.
        labels: Labels that may be named although no stream has them yet.
        every_version: Return all versions of rows that are kept, tombstones too, with a last
            column ``_deleted``, instead of the current rows.

    Raises:
        Invalid: The table, or some chunk, does not have a column, or a condition does not fit.
    """
    return _plan(snapshot, columns, where, time_range, labels=labels, every_version=every_version)


def _plan(
    snapshot: Snapshot,
    columns: Iterable[str] | None,
    where: Condition,
    time_range: TimeRange | None = None,
    *,
    labels: Iterable[str] = (),
    every_version: bool = False,
    held: int | None = None,
) -> ScanPlan:
    """The same; ``held`` is the most blocks whose chunks must be held, None = of all."""

    names = columns if columns is None or isinstance(columns, str) else tuple(columns)
    known = frozenset(labels)

    def make(one: Snapshot) -> ScanPlan:
        return _made(one, names, where, time_range, known, every_version, held)

    return renewed(snapshot, make)


def _made(
    snapshot: Snapshot,
    columns: Iterable[str] | None,
    where: Condition,
    time_range: TimeRange | None,
    labels: Iterable[str],
    every_version: bool,
    held: int | None,
) -> ScanPlan:
    known = snapshot.label_names.union(labels)
    offered = (
        snapshot.columns
        if known == snapshot.label_names
        else Columns.of(snapshot.definition, known)
    )
    predicate = parse(where, offered.all)
    if time_range is not None:
        predicate = predicate.also(_time_condition(snapshot, time_range))
    output_schema = offered.select(columns)
    if every_version:
        output_schema = output_schema.append(pa.field(DELETED, pa.bool_()))
    found = candidates(snapshot, predicate, offered.labels)
    schemas = Schemas(snapshot.definition, offered)
    judge = _Judge(
        predicate=predicate,
        columns=offered,
        schemas=schemas,
        identity=snapshot.definition.identity,
        history=every_version,
    )
    kept: Sequence[ScanChunk]
    left_out = found.chunks_by_statistics
    if held is not None and len(found.places) > held and judge.needs_no_look and not found.listed:
        from blockstore.scan.many_chunks import ManyChunks  # few tables are so large

        kept = many = ManyChunks(found, judge.unjudged, snapshot)
        stay = many.stated()
    else:
        kept = judge.kept([chunk for block in found for chunk in judge.chunks(block)])
        stay = len(kept)
        left_out += judge.seen - stay
    changes = () if every_version else judge.changes(snapshot)
    check_given(kept, _hidden(output_schema.names))
    check_given((chunk for chunk in kept if not chunk.certain), _hidden(predicate.columns))
    return ScanPlan(
        chunks=kept,
        output_schema=output_schema,
        predicate=predicate,
        columns=offered,
        changes=changes,
        identity=snapshot.definition.identity,
        schemas=schemas.all(),
        pruned=Pruned(
            blocks=found.total,
            blocks_by_time=found.by_time,
            blocks_by_labels=found.by_labels,
            blocks_excepted=found.excepted,
            chunks=left_out + stay,
            chunks_by_statistics=left_out,
        ),
    )


def check_given(chunks: Iterable[ScanChunk], names: Iterable[str]) -> None:
    """Raise Invalid if one of the chunks does not have one of these hidden columns."""
    wanted = list(names)
    for chunk in chunks if wanted else ():
        name = next((name for name in wanted if not chunk.gives(name)), None)
        if name is not None:
            why = (
                "only a listing shows it"
                if chunk.source is not None
                else "it is a merge or a rewrite"
            )
            raise Invalid(
                f"block {chunk.block} does not have {name}, since {why}: only blocks that the "
                "index names and that no merge or rewrite has changed have it; leave "
                f"{name} out, or select rows of such blocks only"
            )


def carried(meta: BlockMeta, identity: Identity | None) -> tuple[str, ...]:
    """Return the reserved columns that the chunks of a block hold."""
    deleted = () if meta.kind is BlockKind.PLAIN else (DELETED,)
    if meta.level > 1:
        return ("_source", *(() if identity is None else stored_columns(identity)), *deleted)
    return (*((ROW_ID,) if deleted and isinstance(identity, RowIds) else ()), *deleted)


def _hidden(names: Iterable[str]) -> list[str]:
    return [name for name in names if name in HIDDEN.names]


class _Judge:
    """Turns blocks into chunks, without those that the condition excludes."""

    def __init__(
        self,
        *,
        predicate: Predicate,
        columns: Columns,
        schemas: Schemas,
        identity: Identity | None,
        history: bool,
    ) -> None:
        self._identity = identity
        self._history = history
        self._predicate = predicate
        self._columns = columns
        self._schemas = schemas
        self._everything = predicate.everything
        self.seen = 0
        """The chunks of all blocks so far."""
        self._carries: dict[tuple[BlockKind, bool], frozenset[str]] = {}
        """What blocks of a kind carry, at level 1 or above: one set for all of their chunks."""

    def chunks(self, block: Candidate) -> Iterator[ScanChunk]:
        """Yield the chunks of a block that may hold matching rows."""
        if block.meta.kind is BlockKind.HISTORY and not self._history:
            return
        self.seen += len(block.meta.chunks)
        for chunk in self._chunks(block):
            if self._everything:
                yield chunk
            else:
                yield from self._judged(chunk)

    @property
    def needs_no_look(self) -> bool:
        """Whether every chunk of every block is kept."""
        return self._everything and self._identity is None

    def unjudged(self, block: Candidate) -> Iterator[ScanChunk]:
        """Yield all chunks of a block, whatever the condition is."""
        return self._chunks(block)

    def changes(self, snapshot: Snapshot) -> tuple[ScanChunk, ...]:
        """Return the chunks of all blocks of changes, whatever the condition is."""
        name = f"changes {self._columns.labels}"
        kept = snapshot.made.get(name)
        if kept is not None:
            return kept
        found = tuple(of_changes(snapshot, name, self._kept_or_block))
        chunks = tuple([one for one in found if isinstance(one, ScanChunk)])
        if len(chunks) == len(found) <= KEPT:
            snapshot.made[name] = chunks
            return chunks
        # The id of a schema that only the block has is of one plan.
        return tuple(
            [
                chunk
                for one in found
                for chunk in ((one,) if isinstance(one, ScanChunk) else self._chunks(one))
            ]
        )

    def _kept_or_block(self, block: Candidate) -> Sequence[ScanChunk | Candidate]:
        """The chunks, which hold for every plan; if they do not, the block."""
        known = self._schemas.is_of_table(block.meta.schema_id, block.meta.schema)
        return [replace(one, certain=True) for one in self._chunks(block)] if known else [block]

    def _chunks(self, block: Candidate) -> Iterator[ScanChunk]:
        meta = block.meta
        schema_id = self._schemas.id_of(meta.schema_id, meta.schema, meta.ulid)
        labels = {name: meta.labels.get(name) for name in self._columns.labels}
        level_1 = meta.level == 1
        first = block.first_row_id if level_1 else None
        carries = self._carries.get((meta.kind, level_1))
        if carries is None:
            carries = frozenset(carried(meta, self._identity))
            self._carries[meta.kind, level_1] = carries
        identified_by = self._identified_by(schema_id)
        for file in meta.chunks:
            yield ScanChunk(
                block=meta.ulid,
                key=object_key(meta.ulid, file.path),
                file=file,
                segments=meta.segments,
                schema_id=schema_id,
                labels=labels,
                source=meta.sources[0] if level_1 else None,
                sources=None if level_1 else block.sources,
                excepted=None if level_1 else block.excepted,
                version=block.version if level_1 else None,
                first_row_id=first,
                stream=meta.stream,
                kind=meta.kind,
                carries=carries,
                identity_stats=None if identified_by is None else file.columns.get(identified_by),
                certain=self._everything,
            )
            if first is not None:
                first += file.rows

    def _identified_by(self, schema_id: int) -> str | None:
        """The name that chunks of this schema have for the only column that identifies a row; None
        if its bounds cannot be compared as they are stored."""
        columns = () if self._identity is None else self._identity.columns
        if len(columns) != 1:
            return None
        at = self._columns.table.get_field_index(columns[0])
        if at >= 0 and pt.is_decimal(self._columns.table.field(at).type):
            return None
        return self._schemas.stored_names(schema_id).get(columns[0], columns[0])

    def _judged(self, chunk: ScanChunk) -> Iterator[ScanChunk]:
        bounds_of = self._bounds_of(chunk)
        if self._predicate.may(bounds_of):
            certain = self._predicate.must(bounds_of)
            yield replace(chunk, certain=True) if certain else chunk

    def kept(self, chunks: Sequence[ScanChunk]) -> tuple[ScanChunk, ...]:
        """Those of judged chunks of which a pyarrow expression may keep rows as well."""
        extra = self._predicate.extra
        if extra is None:
            return tuple(chunks)
        from blockstore.predicate.guarantees import may_keep  # pyarrow's datasets, seldom needed

        schema = self._columns.all
        columns = [Column(name, schema.field(name).type) for name in self._predicate.extra_columns]
        bounds = []
        for chunk in chunks:
            bounds_of = self._bounds_of(chunk)
            bounds.append({column.name: bounds_of(column) for column in columns})
        return tuple([chunks[place] for place in may_keep(extra, schema, bounds)])

    def _bounds_of(self, chunk: ScanChunk) -> BoundsOf:
        rows = chunk.file.rows
        stored = bounds_from_statistics(
            chunk.file.columns,
            self._schemas.schema(chunk.schema_id),
            rows,
            names=self._schemas.stored_names(chunk.schema_id),
        )

        def bounds_of(column: Column) -> Bounds:
            name = column.name
            if name in chunk.labels:
                return Bounds.constant(chunk.labels[name], rows)
            if name == "_source":
                return (
                    Bounds(rows=rows)
                    if chunk.source is None
                    else Bounds.constant(chunk.source, rows)
                )
            if name == "_version":
                low, high = chunk.versions
                nulls = None if low is None else 0
                return Bounds(rows=rows, low=low, high=high, nulls=nulls)
            if name == "_row_id":
                first = chunk.first_row_id
                if first is None or chunk.kind is not BlockKind.PLAIN:
                    return Bounds(rows=rows)
                return Bounds(low=first, high=first + rows - 1, nulls=0, rows=rows)
            return stored(column)

        return bounds_of


def _time_condition(snapshot: Snapshot, time_range: TimeRange) -> Predicate:
    name = snapshot.definition.time_column
    if name is None:
        raise Invalid(
            "the scan has a time range, but the table has no time column: use a condition instead"
        )
    start, end = (
        Temporal(Kind.TIMESTAMP, time * 1_000_000) if isinstance(time, int) else time
        for time in time_range
    )
    return between(name, snapshot.definition.schema, start, end)
