"""A plan of blocks in leaves is the plan of the same blocks, with the same counts of what was left
out."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pytest

from blockstore.format import ChunkFile, ColumnStats, Definition
from blockstore.index.blocks import Blocks
from blockstore.index.rows import LiveBlock
from blockstore.index.tree import grow
from blockstore.index.tree.split import Rule
from blockstore.scan import plan as plan_module
from blockstore.scan.many_chunks import ManyChunks
from blockstore.scan.plan import plan_pass, plan_scan
from blockstore.scan.snapshot import Snapshot
from tests.support.index_data import NOW, block, ulid
from tests.support.trees import empty_bucket, moved, stored

SCHEMA = pa.schema(
    [
        ("time", pa.timestamp("ms", tz="UTC")),
        ("key", pa.int64()),
        ("text", pa.string()),
        ("host", pa.string()),
    ]
)
DEFINITION = Definition.create(SCHEMA, time_column="time", sort_by=["key"])
WHERE = (
    None,
    "key = 50",
    "key > 180",
    "key < 0",
    "key IS NULL",
    "key = 50 OR key IS NULL",
    "key != 50",
    "key IN (3, 199)",
    "NOT (key > 20)",
    "text = 'a'",
    "host = 'h1'",
    "host = 'nobody'",
    "host = 'h1' AND key < 60",
    "time < '2023-11-14T22:13:21Z'",
    "time >= '2023-11-14T22:13:25Z' AND key > 100",
    "time > '2040-01-01T00:00:00Z'",
    "key = 1 AND key = 2",
)


def live(draw: random.Random, number: int) -> LiveBlock:
    low = draw.randint(0, 200)
    stats = {"text": ColumnStats("a", "z", 0)}
    if draw.random() < 0.9:
        stats["key"] = ColumnStats(low, low + draw.randint(0, 20), draw.choice([0, 0, 3]))
    file = ChunkFile(
        path="chunks/000001.parquet", bytes=100, rows=10, sha256="ab" * 32, columns=stats
    )
    at, chunks = NOW + draw.randint(0, 10_000), draw.randint(1, 2)
    meta = block(
        number,
        rows=10 * chunks,
        bytes=100 * chunks,
        min_time=at,
        max_time=at + 1_000,
        time_column="time",
        labels={"host": draw.choice(["h1", "h2"])},
        files=(file, replace(file, path="chunks/000002.parquet"))[:chunks],
    )
    hidden = frozenset([meta.ulid]) if draw.random() < 0.1 else frozenset()
    return LiveBlock(meta=meta, version=2, first_row_id=number, excepted=hidden)


@pytest.mark.parametrize("seed", range(12))
def test_a_plan_of_leaves_is_the_plan_of_their_blocks(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grow, "BLOCKS", Rule(bits=2, most=6))
    draw = random.Random(seed)
    schema = SCHEMA.remove(3)
    definition = Definition.create(
        schema, time_column="time", sort_by=["key"], labels={"host": "h1"}
    )
    every = [live(draw, number) for number in range(100, 180)]
    state = replace(moved(), blocks=Blocks.of(every[:70]), table=definition)
    held = stored(empty_bucket(), state)
    assert held.root is not None
    gone = [one.ulid for one in draw.sample(every[:70], 6)]
    changed = replace(draw.choice(every[:70]), excepted=frozenset())
    put = [*every[70:], *([changed] if changed.ulid not in gone else [])]
    in_leaves = Snapshot.of(replace(held, blocks=held.blocks.changed(gone, put)))
    plain = Snapshot.of(replace(state, blocks=state.blocks.changed(gone, put)))
    assert in_leaves.count() == plain.count()
    assert in_leaves.label_names == plain.label_names
    for where in WHERE:
        for plan in (plan_scan, plan_pass):
            mine, its = plan(in_leaves, where=where), plan(plain, where=where)
            assert list(mine.chunks) == list(its.chunks), where
            assert mine.pruned == its.pruned, where
    assert in_leaves.blocks.totals() == plain.blocks.totals()
    assert ulid(100) < ulid(179)


@pytest.mark.parametrize("hidden", [True, False])
def test_one_pass_over_leaves_says_how_many_chunks_there_are(
    hidden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grow, "BLOCKS", Rule(bits=2, most=6))
    monkeypatch.setattr(plan_module, "MANY", 3)
    draw = random.Random(7)
    every = [live(draw, number) for number in range(100, 180)]
    if not hidden:
        every = [replace(one, excepted=frozenset()) for one in every]
    definition = Definition.create(SCHEMA.remove(3), time_column="time", labels={"host": "h1"})
    held = stored(empty_bucket(), replace(moved(), blocks=Blocks.of(every[:70]), table=definition))
    gone = [every[place].ulid for place in (2, 3, 50)]
    in_leaves = Snapshot.of(replace(held, blocks=held.blocks.changed(gone, every[70:])))
    kept = [one for one in every if one.ulid not in gone]
    plain = Snapshot.of(replace(held, blocks=Blocks.of(kept)))
    mine, its = plan_pass(in_leaves), plan_scan(plain)
    assert isinstance(mine.chunks, ManyChunks)
    assert mine.pruned == its.pruned
    assert tuple(mine.chunks) == its.chunks
    assert len(mine.chunks) == len(its.chunks)
