"""Ours with an index in leaves, and blocks that have no files: for what grows with their number.

One block of a thousand rows is real, so that a query can return some: its ids are below zero.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

import blockstore as bs
from bench import files
from bench.peers.api import Handle, Peer, Unsupported
from blockstore.clock import ManualClock
from blockstore.format.block import BlockMeta
from blockstore.ids import Ids
from blockstore.index.change import Append
from blockstore.index.checkpoint_write import write_checkpoint
from blockstore.scan.plan import plan_pass
from blockstore.scan.snapshot import Snapshot
from blockstore.simulation.large.table import SCHEMA, Numbered, make_tree
from blockstore.table import Table
from blockstore.world import Threads, World

__all__ = ["CONTESTANTS", "REAL_ROWS", "Leaves"]

REAL_ROWS = files.ROWS
"""Rows that can be read: those with the ids from ``-REAL_ROWS`` to -1."""

_REAL_MS = 1_699_000_000_000

# What ours loads at its first use. Other libraries load all that they have when they are imported.
for _module in (
    "pyarrow.compute",
    "blockstore.index.commit",
    "blockstore.index.queue",
    "blockstore.index.tree.open",
    "blockstore.scan.leaves",
    "blockstore.compactor.run.once",
):
    importlib.import_module(_module)


class LeavesHandle(Handle):
    def __init__(self, table: Table) -> None:
        self._table = table
        self._table.snapshot()

    def add_files(self, first: int, count: int) -> None:
        made = Numbered()
        blocks = tuple(made.meta(number) for number in range(first, first + count))
        self._commit(blocks)

    def add_late(self, count: int) -> None:
        made, there = Numbered(), self.blocks()
        far = max(1, there // count)
        self._commit(tuple(made.between(there + n, n * far) for n in range(count)))

    def plan(self, key: int) -> int:
        return len(self._table.snapshot().scan(where=f"id = {key}").plan.chunks)

    def plan_all(self) -> int:
        plan = plan_pass(Snapshot.of(self._table.log.state))
        return sum(1 for chunk in plan.chunks if chunk.key)

    def plan_merges(self, apart_ms: int) -> int:
        from blockstore.compactor.run.once import plan_table
        from blockstore.compactor.settings import Settings

        return len(plan_table(self._table, Settings(ranges_ms=(apart_ms,))))

    def poll(self) -> None:
        self._table.poll()

    def blocks(self) -> int:
        return len(self._table.log.state.blocks)

    def _commit(self, blocks: Sequence[BlockMeta]) -> None:
        self._table.log.commit(Append(commit=self._table.world.ids.ulid(), blocks=tuple(blocks)))


class Leaves(Peer):
    name = "ours-leaves"
    family = "ours"
    distribution = "blocklake"
    settings = "an index in leaves, ?durable=false; Python scans, and the compactor's plan"

    def create(self, directory: Path, schema: pa.Schema, sort_by: Sequence[str]) -> Handle:
        raise Unsupported("its tables are made of blocks without files")

    def make_files(self, directory: Path, count: int) -> None:
        make_tree(self._url(directory), count, World.real())
        # As long ago as its rows: what is committed later is newer, as in any table.
        clock = ManualClock(_REAL_MS)
        world = World(clock=clock, ids=Ids.seeded(clock, 1), pool=Threads(8))
        table = bs.open(self._url(directory), world=world)
        table.append(_real())
        # In leaves from the start: what comes later is newer, and need not be sorted in.
        write_checkpoint(table.bucket, table.log.state)

    def open(self, directory: Path) -> Handle:
        return LeavesHandle(bs.open(self._url(directory)))

    def _url(self, directory: Path) -> str:
        return f"{directory / 'table'}?durable=false"


def _real() -> pa.Table:
    """The rows that are there."""
    ids = np.arange(-REAL_ROWS, 0)
    times = pa.array(_REAL_MS + ids).cast(SCHEMA.field("time").type)
    return pa.table([times, ids, ids / 8], schema=SCHEMA)


CONTESTANTS = (Leaves(),)
