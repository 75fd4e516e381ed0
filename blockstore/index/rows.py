"""Live blocks as rows: what a checkpoint stores and what planning scans without making an object a
block.

Owns the columns. ``FRAME`` are the small ones, always in memory: a plan over 10,000 blocks reads
nothing else. ``BULK`` are the large ones (the block's JSON, its sources): decoded when a block is
first used, and for rows that come from a checkpoint not even decompressed before.

Rules:
- Rows are sorted by ULID, each ULID once.
- ``sources`` is null where a block's only source is itself; ``excepted`` is null where no source is
  excepted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import numpy as np
import orjson
import pyarrow as pa

from blockstore.errors import Corrupt
from blockstore.format.block import BlockKind, BlockMeta, StreamKey
from blockstore.format.meta import from_dict, to_dict
from blockstore.index import ulids
from blockstore.index.arrow import flags, integers, numbers, texts
from blockstore.index.derived import Derived, Places
from blockstore.index.ulids import UlidArray
from blockstore.lazy import once

if TYPE_CHECKING:
    from blockstore.index.tree.sums import BlockSums

FRAME = pa.schema(
    [
        ("ulid", pa.string()),
        ("min_time", pa.int64()),
        ("max_time", pa.int64()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("level", pa.int32()),
        ("revision", pa.int32()),
        ("resolution", pa.int64()),
        ("stream", pa.string()),
        ("schema_id", pa.int32()),
        ("visible_by", pa.string()),
        ("own", pa.bool_()),
        ("version", pa.int64()),
        ("first_row_id", pa.int64()),
        ("excepted", pa.list_(pa.string())),
    ]
)
CODED = FRAME.set(
    FRAME.get_field_index("stream"), pa.field("stream", pa.dictionary(pa.int32(), pa.string()))
)
"""The same where some columns alone are read: a million blocks have few streams."""

KEPT = 8_192
"""Blocks whose objects are kept once they were made: about 3 kB each."""

_FEW = 64
PIECE = 4_096
"""Rows of which the large columns, or the blocks, are in memory at once where all are looked at: a
million blocks are 3 GB."""

BULK = pa.schema([("meta", pa.binary()), ("sources", pa.list_(pa.string()))])


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveBlock:
    """A block of the state: its meta, and what the index says of it."""

    meta: BlockMeta
    version: int
    """The entry that committed it."""
    first_row_id: int
    excepted: frozenset[str] = frozenset()
    """Sources whose rows are hidden in this block."""

    @property
    def ulid(self) -> str:
        """The block's ULID."""
        return self.meta.ulid


def visible_rows(blocks: Iterable[LiveBlock]) -> int | None:
    """The rows that readers see of these blocks, by metadata alone; None where those of some must
    be looked at.

    A level-1 block with an exception is hidden completely: its one source is what is excepted.
    Blocks of changes hide rows that must be looked for, and no one sees those of history.
    """
    total = 0
    for block in blocks:
        if block.meta.kind is not BlockKind.PLAIN:
            if block.meta.kind is BlockKind.CHANGES:
                return None
        elif not block.excepted:
            total += block.meta.rows
        elif block.meta.level > 1:
            return None
    return total


class Bulk(Protocol):
    """The large columns of some rows."""

    def take(self, positions: Sequence[int]) -> pa.Table:
        """The columns of ``BULK`` for these rows, in this order."""
        ...

    def pieces(self, positions: Places) -> Iterator[tuple[Places, pa.Table]]:
        """The columns of ``BULK`` for these rows, which are sorted: a few at a time, none kept."""
        ...

    def all(self) -> pa.Table:
        """The columns of ``BULK`` for all rows."""
        ...

    def sources(self) -> pa.ChunkedArray:
        """The column ``sources`` for all rows."""
        ...


class MemoryBulk:
    """Large columns in memory; of blocks that are objects still, encoded on first use."""

    def __init__(self, rows: pa.Table | Sequence[LiveBlock]) -> None:
        self._rows = rows

    @once
    def _table(self) -> pa.Table:
        return self._rows if isinstance(self._rows, pa.Table) else _bulk(self._rows)

    def take(self, positions: Sequence[int]) -> pa.Table:
        return self._table.take(numbers(positions))

    def pieces(self, positions: Places) -> Iterator[tuple[Places, pa.Table]]:
        for start in range(0, len(positions), PIECE):
            some = positions[start : start + PIECE]
            yield some, picked(self._table, some)

    def all(self) -> pa.Table:
        return self._table

    def sources(self) -> pa.ChunkedArray:
        return self._table["sources"]


class Rows:
    """Rows of live blocks, never changed."""

    is_whole = True
    """Whether the frame is in memory; ``tree/blocks.py`` has rows that are loaded where needed."""

    root_version: int | None = None
    """The version of the root that names their leaves."""

    @property
    def is_broken(self) -> bool:
        """Whether a leaf of that root was missed: the state must be read again."""
        return False

    def __init__(self, frame: pa.Table, bulk: Bulk) -> None:
        self.frame = frame
        self._bulk = bulk
        self._made: dict[int, LiveBlock] = {}
        """Blocks made lately, by row: one plan after the other requests the same ones.

        Replaced, never changed.
        """
        self.derived: Derived[LiveBlock] = Derived(len(self), self._make, self.pieces)

    @classmethod
    def of(cls, blocks: Iterable[LiveBlock]) -> Rows:
        """Rows of these blocks, sorted."""
        ordered = sorted(blocks, key=lambda block: block.meta.ulid)
        return cls(_frame(ordered) if ordered else _NO_FRAME, MemoryBulk(ordered))

    def __len__(self) -> int:
        return int(self.frame.num_rows)

    def columns(self, names: Sequence[str]) -> pa.Table:
        """Some of the columns ``CODED``, the ULIDs among them."""
        return coded(self.frame, names)

    @once
    def streams(self) -> Mapping[StreamKey, int]:
        """How many rows each stream has."""
        return counted(self.stream_of_each)

    @property
    def stream_of_each(self) -> pa.ChunkedArray:
        """The column ``stream``, of texts or as ``CODED`` has it."""
        return self.frame["stream"]

    @once
    def ulids(self) -> UlidArray:
        """The ULIDs, sorted, for search."""
        return ulids.from_arrow(self.frame["ulid"])

    @once
    def sources(self) -> UlidArray:
        """The sources of all rows, in no order."""
        listed = self._bulk.sources()
        alone = np.asarray(
            listed.is_null().combine_chunks().to_numpy(zero_copy_only=False), dtype=bool
        )
        return np.concatenate([self.ulids[alone], ulids.from_arrow(_flatten(listed))])

    def position(self, ulid: str) -> int | None:
        """The row of a ULID, or None."""
        return ulids.position(self.ulids, ulid)

    def holding(self, sources: Iterable[str]) -> list[int]:
        """The rows of the blocks that account for any of these sources, sorted."""
        import pyarrow.compute as pc

        wanted = sorted(set(sources))
        listed = self._bulk.sources()
        alone = np.asarray(
            listed.is_null().combine_chunks().to_numpy(zero_copy_only=False), dtype=bool
        )
        found = {
            place
            for source in wanted
            if (place := self.position(source)) is not None and alone[place]
        }
        values, first = texts(wanted), 0
        for chunk in listed.chunks:
            held = pc.is_in(chunk.flatten(), value_set=values)
            found.update(
                first + place for place in pc.list_parent_indices(chunk).filter(held).to_pylist()
            )
            first += len(chunk)
        return sorted(found)

    def take(self, positions: Sequence[int]) -> list[LiveBlock]:
        """The blocks of these rows. Raises Corrupt if a stored block cannot be read."""
        known = self._made
        missing = [place for place in positions if place not in known]
        fresh = dict(zip(missing, self._make(missing), strict=True)) if missing else {}
        if 0 < len(fresh) <= KEPT:
            self._made = {**known, **fresh} if len(known) + len(fresh) <= KEPT else fresh
        return [fresh[place] if place in fresh else known[place] for place in positions]

    def only(self, positions: Sequence[int]) -> Rows:
        """These rows alone, not read."""
        chosen = numbers(sorted(positions))
        return Rows(self.frame.take(chosen), MemoryBulk(self._bulk.take(chosen.to_pylist())))

    def pieces(self, positions: Places) -> Iterator[tuple[Places, pa.Table]]:
        """All columns of these rows, which are sorted: a few rows at a time, none kept."""
        for places, bulk in self._bulk.pieces(positions):
            yield places, _joined(picked(self.frame, places), bulk)

    def each(self, positions: Places) -> Iterator[LiveBlock]:
        """The blocks of these rows, which are sorted; few of them are in memory at once, and none
        is kept. Raises Corrupt if a stored block cannot be read."""
        for _, rows in self.pieces(positions):
            yield from _blocks(rows, rows)

    def sources_to(self, floor: str) -> UlidArray:
        """At least the sources at or below a floor, in no order."""
        return self.sources

    def sift(
        self, known: Callable[[BlockSums], bool], changed: Sequence[int]
    ) -> tuple[tuple[int, ...], Sequence[BlockSums]]:
        """Of rows in leaves: the places of those leaves for which ``known`` is false or that hold a
        row of ``changed``, and the sums over all others."""
        return (), ()

    def part(self, leaves: tuple[int, ...]) -> Rows:
        """The rows of these leaves alone."""
        return self

    def within(self, leaves: tuple[int, ...], positions: Sequence[int]) -> Sequence[int]:
        """Where rows that are in these leaves are in the rows of these alone."""
        return positions

    def is_same(self, other: Rows) -> bool:
        """Whether both hold equal rows, as far as that shows without looking at them."""
        return self is other

    def _make(self, positions: Sequence[int]) -> list[LiveBlock]:
        return _blocks(self.frame.take(numbers(positions)), self._bulk.take(positions))

    def merged(self, gone: Iterable[int], new: Rows) -> Rows:
        """These rows without those at ``gone``, and with ``new``: what an overlay becomes once it
        is large."""
        frame, bulk = self.frame, self._bulk.all()
        lost = np.fromiter(gone, dtype=np.int64)
        if len(lost):
            kept = np.ones(len(self), dtype=bool)
            kept[lost] = False
            mask = flags(kept)
            frame, bulk = frame.filter(mask), bulk.filter(mask)
        sorted_already = (
            not frame.num_rows
            or not len(new)
            or frame["ulid"][-1].as_py() < new.frame["ulid"][0].as_py()
        )
        frame = pa.concat_tables([frame, new.frame])
        bulk = pa.concat_tables([bulk, new._bulk.all()])
        if not sorted_already:
            order = numbers(np.argsort(ulids.from_arrow(frame["ulid"]), kind="stable"))
            frame, bulk = frame.take(order), bulk.take(order)
        return Rows(frame.combine_chunks(), MemoryBulk(_few_chunks(bulk)))

    def stored(self) -> pa.Table:
        """All columns, as a checkpoint stores them."""
        return _joined(self.frame, self._bulk.all())


_NO_FRAME = pa.Table.from_arrays([pa.nulls(0, field.type) for field in FRAME], schema=FRAME)
"""Made of nulls because ``pa.array`` of a list imports pandas, for a second, in every process that
has it."""


def coded(frame: pa.Table, names: Sequence[str]) -> pa.Table:
    """Some columns of a frame, as ``CODED`` has them."""
    chosen = [
        frame[name].dictionary_encode() if name == "stream" else frame[name] for name in names
    ]
    return pa.table(chosen, schema=pa.schema([CODED.field(name) for name in names]))


def picked(table: pa.Table, places: Places) -> pa.Table:
    """These rows, which are sorted and differ; not copied where they follow one another."""
    if len(places) and places[-1] - places[0] == len(places) - 1:
        return table.slice(int(places[0]), len(places))
    return table.take(numbers(places))


def _joined(frame: pa.Table, bulk: pa.Table) -> pa.Table:
    for name in BULK.names:
        frame = frame.append_column(BULK.field(name), bulk[name])
    return frame


def _blocks(frame: pa.Table, bulk: pa.Table) -> list[LiveBlock]:
    return [
        _block(*row)
        for row in zip(
            frame["ulid"].to_pylist(),
            bulk["meta"].to_pylist(),
            bulk["sources"].to_pylist(),
            frame["version"].to_pylist(),
            frame["first_row_id"].to_pylist(),
            frame["excepted"].to_pylist(),
            strict=True,
        )
    ]


def _frame(blocks: Sequence[LiveBlock]) -> pa.Table:
    metas = [block.meta for block in blocks]
    excepted = [sorted(block.excepted) or None for block in blocks]
    lists = FRAME.field("excepted").type
    columns = {
        "ulid": texts([meta.ulid for meta in metas]),
        "min_time": numbers([meta.min_time for meta in metas]),
        "max_time": numbers([meta.max_time for meta in metas]),
        "rows": numbers([meta.rows for meta in metas]),
        "bytes": numbers([meta.bytes for meta in metas]),
        "level": numbers([meta.level for meta in metas], pa.int32()),
        "revision": numbers([meta.revision for meta in metas], pa.int32()),
        "resolution": numbers([meta.resolution for meta in metas]),
        "stream": texts([_stream(meta.stream) for meta in metas]),
        "schema_id": numbers([meta.schema_id for meta in metas], pa.int32()),
        "visible_by": texts([str(meta.visible_by) for meta in metas]),
        "own": flags([meta.own for meta in metas]),
        "version": numbers([block.version for block in blocks]),
        "first_row_id": numbers([block.first_row_id for block in blocks]),
        "excepted": pa.array(excepted, lists) if any(excepted) else pa.nulls(len(blocks), lists),
    }
    return pa.table(columns, schema=FRAME)


def _bulk(blocks: Sequence[LiveBlock]) -> pa.Table:
    return pa.table(
        {
            "meta": [orjson.dumps(to_dict(block.meta)) for block in blocks],
            "sources": [
                None if block.meta.sources == (block.meta.ulid,) else block.meta.sources
                for block in blocks
            ],
        },
        schema=BULK,
    )


def counted(streams: pa.ChunkedArray) -> Mapping[StreamKey, int]:
    """How often each stream is in a column like ``stream_of_each``."""
    counts: Counter[str] = Counter()
    if len(streams) <= _FEW:
        counts.update(streams.to_pylist())
    else:
        for chunk in streams.dictionary_encode().chunks:  # which loads Arrow's functions
            found = np.bincount(integers(chunk.indices), minlength=len(chunk.dictionary))
            counts.update(dict(zip(chunk.dictionary.to_pylist(), found.tolist(), strict=True)))
    return {stream_named(text): rows for text, rows in counts.items() if rows}


@lru_cache(maxsize=1024)
def stream_named(text: str) -> StreamKey:
    """Return the stream of a value of the column ``stream``."""
    found = orjson.loads(text)
    return StreamKey(tuple(sorted(found["labels"].items())), found["resolution"])


def _stream(stream: StreamKey) -> str:
    return orjson.dumps({"labels": dict(stream.labels), "resolution": stream.resolution}).decode()


def _block(
    ulid: str,
    data: bytes,
    sources: list[str] | None,
    version: int,
    first_row_id: int,
    excepted: list[str] | None,
) -> LiveBlock:
    subject = f"block {ulid} in a checkpoint"
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise Corrupt(f"{subject} is not JSON ({error}); expected the block's meta") from None
    if not isinstance(value, dict) or value.get("ulid") != ulid:
        raise Corrupt(
            f"{subject} is another block's meta, or none: restore the checkpoint from a copy"
        )
    meta = from_dict(value, sources=None if sources is None else tuple(sources), subject=subject)
    return LiveBlock(
        meta=meta, version=version, first_row_id=first_row_id, excepted=frozenset(excepted or ())
    )


def _flatten(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays([chunk.flatten() for chunk in column.chunks] or [texts([])])


def _few_chunks(table: pa.Table) -> pa.Table:
    """The table, its chunks joined once there are so many that every read would feel them."""
    return table.combine_chunks() if table["meta"].num_chunks > 64 else table
