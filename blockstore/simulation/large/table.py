"""Makes the synthetic table: a block a second, of a thousand rows each, sorted by an integer.

Rules:
- The same number of blocks makes the same blocks.
- Blocks are written as rows of a checkpoint, without being objects: those take ten times as long.
  A test compares both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from blockstore.bucket import open_bucket
from blockstore.clock import ManualClock
from blockstore.format.block import BlockMeta, ChunkFile, ColumnStats, SegmentsFile
from blockstore.format.definition import Definition
from blockstore.format.meta import to_dict
from blockstore.ids import Ids
from blockstore.index import ulids
from blockstore.index.blocks import Blocks
from blockstore.index.change import MoveToTree
from blockstore.index.checkpoint import encode_root
from blockstore.index.checkpoint_write import put_checkpoint, raise_hint, write_checkpoint
from blockstore.index.log import create
from blockstore.index.rows import BULK, FRAME, PIECE, LiveBlock, MemoryBulk, Rows
from blockstore.index.sources import Sources
from blockstore.index.tree.grow import cut_blocks, cut_sources
from blockstore.index.tree.leaf import Root
from blockstore.index.tree.write import sent
from blockstore.index.ulids import UlidArray
from blockstore.world import World

BLOCK_ROWS = 1_000
SCHEMA = pa.schema(
    [("time", pa.timestamp("ms", tz="UTC")), ("id", pa.int64()), ("value", pa.float64())]
)
_FIRST_MS = 1_700_000_000_000
APART_MS = 1_000
_BYTES = 20_000
_PIECE = 65_536


def make_table(url: str, blocks: int, world: World) -> None:
    """Make a table at ``url`` whose version 1 has so many blocks.

    Raises Conflict if there is a table.
    """
    bucket = open_bucket(url, world)
    log = create(bucket, world, Definition.create(SCHEMA, time_column="time", sort_by=["id"]))
    rows = rows_of(blocks)
    state = replace(
        log.state,
        blocks=Blocks(rows),
        accounted=Sources(lambda: ulids.unique(rows.sources)),
        next_row_id=blocks * BLOCK_ROWS,
    )
    write_checkpoint(bucket, state)
    log.boundary.advance(state.version)


def make_tree(url: str, blocks: int, world: World) -> None:
    """The same as a tree, whose leaves are made one after the other."""
    bucket = open_bucket(url, world)
    log = create(bucket, world, Definition.create(SCHEMA, time_column="time", sort_by=["id"]))
    log.commit(MoveToTree(commit=world.ids.ulid()))
    state = replace(log.state, next_row_id=blocks * BLOCK_ROWS)
    names: list[UlidArray] = []

    def tables() -> Iterator[pa.Table]:
        for frame, bulk in _pieces(blocks):
            names.append(ulids.from_arrow(frame["ulid"]).copy())
            for name in BULK.names:
                frame = frame.append_column(BULK.field(name), bulk[name])
            for start in range(0, len(frame), PIECE):
                yield frame.slice(start, PIECE)

    held = tuple(sent(bucket, cut_blocks(tables(), {}, state.version)))
    every = ulids.unique(ulids.EMPTY, *names)
    sources = tuple(sent(bucket, cut_sources(every, {}, state.version)))
    root = Root(version=state.version, base=state.version, blocks=held, sources=sources)
    name = put_checkpoint(bucket, state.version, encode_root(state, root))
    assert name is not None, "there was no checkpoint"
    raise_hint(bucket, name)
    log.boundary.advance(state.version)


class Numbered:
    """The metas of the blocks, by number.

    ULIDs are drawn in turn, so two values give equal blocks only if asked for the same ones.
    """

    def __init__(self) -> None:
        self._clock = ManualClock(_FIRST_MS)
        self._ids = Ids.seeded(self._clock, 1)

    def ulid(self, number: int) -> str:
        """A ULID of the block's second, which must not be before that of the one before."""
        self._clock.advance((_FIRST_MS + APART_MS * number - self._clock.now_ms()) / 1000)
        return self._ids.ulid()

    def meta(self, number: int) -> BlockMeta:
        """The block of this number."""
        at_ms, ulid, first = _FIRST_MS + APART_MS * number, self.ulid(number), number * BLOCK_ROWS
        return BlockMeta(
            ulid=ulid,
            min_time=at_ms,
            max_time=at_ms + APART_MS,
            rows=BLOCK_ROWS,
            bytes=_BYTES,
            level=1,
            sources=(ulid,),
            uploaded_time=at_ms,
            producer="blockstore",
            time_column="time",
            sort_by=("id",),
            schema_id=1,
            files=(
                ChunkFile(
                    path="chunks/000001.parquet",
                    bytes=_BYTES,
                    rows=BLOCK_ROWS,
                    sha256=_digest("chunk", number),
                    footer=1_200,
                    columns={
                        "time": ColumnStats(at_ms, at_ms + APART_MS - 1, 0),
                        "id": ColumnStats(first, first + BLOCK_ROWS - 1, 0),
                        "value": ColumnStats(number / 8, number / 8 + 99.5, 0),
                    },
                ),
            ),
            segments=SegmentsFile(bytes=100, sha256=_digest("segments", number)),
        )

    def between(self, number: int, other: int) -> BlockMeta:
        """The block of this number, with rows of the time of another one."""
        at_ms, meta = _FIRST_MS + APART_MS * other, self.meta(number)
        (file,) = meta.files
        time = ColumnStats(at_ms, at_ms + APART_MS - 1, 0)
        return replace(
            meta,
            min_time=at_ms,
            max_time=at_ms + APART_MS,
            files=(replace(file, columns={**file.columns, "time": time}),),
        )


def rows_of(blocks: int) -> Rows:
    """The blocks with the numbers below ``blocks``, committed in version 1."""
    frames, bulks = [FRAME.empty_table()], [BULK.empty_table()]
    for frame, bulk in _pieces(blocks):
        frames.append(frame)
        bulks.append(bulk)
    return Rows(pa.concat_tables(frames).combine_chunks(), MemoryBulk(pa.concat_tables(bulks)))


def _pieces(blocks: int) -> Iterator[tuple[pa.Table, pa.Table]]:
    made, value = Numbered(), to_dict(Numbered().meta(0))
    for start in range(0, blocks, _PIECE):
        numbers = np.arange(start, min(start + _PIECE, blocks), dtype=np.int64)
        names = [made.ulid(number) for number in numbers.tolist()]
        metas = [
            _patched(value, ulid, number)
            for ulid, number in zip(names, numbers.tolist(), strict=True)
        ]
        nothing = pa.nulls(len(metas), BULK.field("sources").type)
        yield _frame(names, numbers), pa.table([pa.array(metas), nothing], BULK)


def _patched(value: dict[str, Any], ulid: str, number: int) -> bytes:
    """The JSON of a block, from that of another one."""
    at_ms, first, block = _FIRST_MS + APART_MS * number, number * BLOCK_ROWS, value["blockstore"]
    value["ulid"] = block["segments"]["ulid"] = ulid
    value["minTime"], value["maxTime"], block["uploaded_time"] = at_ms, at_ms + APART_MS, at_ms
    block["segments"]["sha256"] = _digest("segments", number)
    (file,) = block["files"]
    file["sha256"], columns = _digest("chunk", number), file["columns"]
    columns["time"].update(min=at_ms, max=at_ms + APART_MS - 1)
    columns["id"].update(min=first, max=first + BLOCK_ROWS - 1)
    columns["value"].update(min=number / 8, max=number / 8 + 99.5)
    return orjson.dumps(value)


def _frame(names: list[str], numbers: npt.NDArray[np.int64]) -> pa.Table:
    """The small columns: those of the first block, but for what differs."""
    like = Rows.of([LiveBlock(meta=Numbered().meta(0), version=1, first_row_id=0)]).frame
    every = like.take(pa.array(np.zeros(len(numbers), dtype=np.int64)))
    at_ms = _FIRST_MS + APART_MS * numbers
    for name, values in (
        ("ulid", names),
        ("min_time", at_ms),
        ("max_time", at_ms + APART_MS),
        ("first_row_id", numbers * BLOCK_ROWS),
    ):
        field = FRAME.field(name)
        every = every.set_column(FRAME.get_field_index(name), field, pa.array(values, field.type))
    return every


def _digest(what: str, number: int) -> str:
    """A hash, which compresses as badly as that of a file."""
    return hashlib.sha256(f"{what} {number}".encode()).hexdigest()
