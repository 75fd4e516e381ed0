"""What the statistics of all blocks at once leave out is what their chunks one by one would leave
out, at once or later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockstore.format.block import BlockMeta, ChunkFile, ColumnStats
from blockstore.format.bounds import bounds_from_statistics
from blockstore.format.definition import Definition
from blockstore.format.evolution import evolve
from blockstore.format.statistics import collect
from blockstore.ids import ulid_at
from blockstore.index.blocks import Blocks
from blockstore.index.derived import Arrays
from blockstore.index.rows import LiveBlock
from blockstore.predicate import parse
from blockstore.scan import Snapshot, plan_scan
from blockstore.scan import sieve as module
from tests.blockstore.predicate.conditions import SCHEMA, conditions, tables
from tests.support.examples import few

DEFINITION = Definition.create(SCHEMA, sort_by=["i"])
NUMBERS = Definition.create(
    pa.schema([("n", pa.int64()), ("f", pa.float64()), ("s", pa.string())]), sort_by=["n"]
)


def live(
    number: int, chunks: Sequence[tuple[dict[str, ColumnStats], int]], *, schema_id: int = 1
) -> LiveBlock:
    """A block that is nothing but its statistics, the columns and rows of each chunk."""
    ulid = ulid_at(1_000 * (number + 1))
    files = tuple(
        ChunkFile(
            path=f"chunks/{place:06}.parquet", bytes=1, rows=rows, sha256="0" * 64, columns=columns
        )
        for place, (columns, rows) in enumerate(chunks)
    )
    meta = BlockMeta(
        ulid=ulid,
        min_time=0,
        max_time=1,
        rows=sum(rows for _, rows in chunks),
        bytes=len(files),
        level=1,
        sources=(ulid,),
        sort_by=(),
        schema_id=schema_id,
        files=files,
    )
    return LiveBlock(meta=meta, version=number + 1, first_row_id=0)


def of_number(number: int, low: object, high: object, **more: object) -> LiveBlock:
    return live(number, [({"n": ColumnStats(min=low, max=high, nulls=0)}, 5)], **more)  # type: ignore[arg-type]


def planned(snapshot: Snapshot, where: str) -> list[str]:
    return [chunk.key for chunk in plan_scan(snapshot, where=where).chunks]


@settings(max_examples=few(60), deadline=None)
@given(st.lists(st.lists(tables(), min_size=1, max_size=2), max_size=3), conditions())
def test_plans_are_the_same_as_without_a_sieve(
    blocks: list[list[pa.Table]], condition: str
) -> None:
    held = [
        live(number, [(collect(chunk, SCHEMA.names), chunk.num_rows) for chunk in chunks])
        for number, chunks in enumerate(blocks)
    ]
    predicate = parse(condition, SCHEMA)
    plan = plan_scan(Snapshot(definition=DEFINITION, blocks=Blocks.of(held)), where=condition)
    expected = [
        (block.ulid, file.path)
        for block in held
        for file in block.meta.chunks
        if predicate.may(bounds_from_statistics(file.columns, SCHEMA, file.rows))
    ]
    assert [(chunk.block, chunk.file.path) for chunk in plan.chunks] == expected
    total = sum(len(chunks) for chunks in blocks)
    assert (plan.pruned.chunks, plan.pruned.chunks_by_statistics) == (total, total - len(expected))


def test_statistics_are_read_once_a_block_and_column_and_only_where_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[str] = []
    of_blocks, of_rows = module._Maker.of_blocks, module._Maker.of_rows

    def blocks_counted(maker: module._Maker, blocks: Sequence[LiveBlock]) -> Arrays:
        read.extend(block.ulid for block in blocks)
        return of_blocks(maker, blocks)

    def rows_counted(maker: module._Maker, rows: pa.Table) -> Arrays | None:
        read.extend(rows["ulid"].to_pylist())
        return of_rows(maker, rows)

    monkeypatch.setattr(module._Maker, "of_blocks", blocks_counted)
    monkeypatch.setattr(module._Maker, "of_rows", rows_counted)
    stored = [of_number(number, number, number + 1) for number in range(100)]
    blocks = Blocks.of(stored)
    snapshot = Snapshot(definition=NUMBERS, blocks=blocks)
    assert len(planned(snapshot, "n = 7")) == 2
    assert len(read) == 100
    read.clear()
    assert len(planned(snapshot, "n > 98")) == 2
    assert planned(snapshot, "n > 98 AND n < 4") == []
    assert read == []
    # A commit adds its own block, and takes away others: that block alone is read.
    for number in range(100, 103):
        blocks = blocks.changed(
            [stored[number - 100].ulid], [of_number(number, number, number + 1)]
        )
        newest = Snapshot(definition=NUMBERS, blocks=blocks)
        assert len(planned(newest, f"n = {number}")) == 2 if number > 100 else 1
        assert planned(newest, "n = 0") == []
    assert len(read) == 3


def test_only_the_blocks_that_are_left_by_then_are_read() -> None:
    timed = Definition.create(
        pa.schema([("at", pa.timestamp("ms")), ("n", pa.int64()), ("s", pa.string())]),
        time_column="at",
        sort_by=["n"],
    )
    held = []
    for number in range(10):
        columns = {
            "n": ColumnStats(min=0, max=number, nulls=0),
            "s": ColumnStats(min="a", max="b", nulls=0),
        }
        block = live(number, [(columns, 5)])
        held.append(replace(block, meta=replace(block.meta, min_time=number, max_time=number + 1)))
    blocks = Blocks.of(held)
    plan_scan(
        Snapshot(definition=timed, blocks=blocks), where="at = '1970-01-01 00:00:00.004' AND n >= 0"
    )
    assert (
        planned(
            Snapshot(definition=timed, blocks=blocks), "at = '1970-01-01 00:00:00.004' AND s > 'y'"
        )
        == []
    )
    rows = np.zeros(10, dtype=bool)
    kept = blocks.derived("n", timed, _Never(), rows)[-1]
    assert kept.tolist() == [0] * 4 + [1] + [0] * 5


class _Never:
    def of_blocks(self, blocks: Sequence[LiveBlock]) -> Arrays:
        raise AssertionError(f"{len(blocks)} blocks are read")

    def of_rows(self, rows: pa.Table) -> Arrays | None:
        raise AssertionError(f"{len(rows)} blocks are read")


def test_what_cannot_be_held_stays_and_is_judged_by_its_chunks() -> None:
    old = evolve(NUMBERS, add=[pa.field("later", pa.int64())])
    unsigned = Definition.create(pa.schema([("n", pa.uint64())]), sort_by=["n"])
    huge = Snapshot(
        definition=unsigned,
        blocks=Blocks.of([of_number(0, 2**63 + 5, 2**64 - 1), of_number(1, 0, 9)]),
    )
    assert len(planned(huge, f"n > {2**63}")) == 1
    assert len(planned(huge, f"n < {2**63}")) == 1
    without = Snapshot(definition=old, blocks=Blocks.of([of_number(0, 1, 5)]))
    assert planned(without, "later > 0") == []
    assert len(planned(without, "later IS NULL")) == 1
    nan = live(0, [({"f": ColumnStats(min=1.0, max=2.0, nulls=0, nans=1)}, 5)])
    floats = Snapshot(definition=NUMBERS, blocks=Blocks.of([nan]))
    assert len(planned(floats, "f > 5")) == 1
    assert planned(floats, "f < 1") == []
    long = live(0, [({"s": ColumnStats(min="a" * 64, max=None, nulls=0)}, 5)])
    texts = Snapshot(definition=NUMBERS, blocks=Blocks.of([long]))
    assert len(planned(texts, "s = 'zz'")) == 1
    assert planned(texts, "s = 'Z'") == []
