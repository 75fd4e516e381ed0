"""What a commit and a checkpoint do for each leaf of a table, counted as calls of the index's own
functions: a generator counts each time that it goes on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from blockstore.bucket import open_bucket
from blockstore.index.change import Append
from blockstore.index.checkpoint import decode_checkpoint, encode_root
from blockstore.index.log import Log
from blockstore.index.tree.leaf import Root
from blockstore.index.tree.open import base_of
from blockstore.names import checkpoint_key
from blockstore.simulation.large.table import Numbered, make_tree
from blockstore.world import World

SIZES = 100, 2_000


@dataclass(frozen=True)
class Large:
    """A table of so many blocks, in leaves of a few."""

    log: Log
    world: World
    blocks: int

    def commit(self, number: int) -> None:
        ulid = self.world.ids.ulid()
        new = Numbered().meta(self.blocks + number)
        self.log.commit(Append(commit=ulid, blocks=(new,)))

    def write(self) -> None:
        """A checkpoint of the state, on which the state then rests."""
        self.log._write_checkpoint(self.log.state)

    @property
    def root(self) -> Root:
        root = base_of(self.log.state)
        assert root is not None
        return root


@pytest.fixture
def tables(tmp_path: Path, small_leaves: None) -> list[Large]:
    found = []
    for blocks in SIZES:
        url, world = f"{tmp_path / str(blocks)}?durable=false", World.real()
        make_tree(url, blocks, world)
        log = Log(open_bucket(url, world), world)
        log.poll()
        found.append(Large(log, world, blocks))
    small, large = (len(one.root.leaves) for one in found)
    assert large > small + 500
    return found


def calls(work: Callable[[], object]) -> int:
    """How often functions of the index are entered."""
    count = 0

    def note(frame: FrameType, event: str, _: Any) -> None:
        nonlocal count
        count += event == "call" and "/blockstore/index/" in frame.f_code.co_filename

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_a_commit_looks_at_no_leaf_by_itself(tables: list[Large]) -> None:
    counted = []
    for table in tables:
        for number in range(2):
            table.commit(number)
        counted.append(calls(lambda table=table: table.commit(2)))
    small, large = counted
    assert large < small + 50, "calls, of few leaves and of many"


def test_a_checkpoint_looks_at_each_leaf_a_few_times(tables: list[Large]) -> None:
    """The first of a handle makes what a root says of each leaf; those after it make that of new
    leaves."""
    counted, leaves = [], []
    for table in tables:
        for number in range(2):
            table.commit(number)
            table.write()
        before = table.root
        table.commit(2)
        counted.append(calls(table.write))
        leaves.append(len(table.root.leaves))
        assert table.root.version == before.version + 1, "it was written and is relied on"
        kept = {id(leaf) for leaf in before.leaves}
        assert sum(id(leaf) not in kept for leaf in table.root.leaves) <= 4
    small, large = counted
    assert (large - small) / (leaves[1] - leaves[0]) < 10


def test_a_handle_reads_the_root_that_it_opened_once(tables: list[Large]) -> None:
    for table in tables:
        data = table.log.bucket.get(checkpoint_key(table.root.version)).data
        assert table.log.reader.leaves.root_in(data, table.root.version) is table.root


def test_a_root_that_shares_leaves_has_the_bytes_of_one_that_was_read(tables: list[Large]) -> None:
    """What a handle keeps of each leaf is not that of another version."""
    table = tables[0]
    for number in range(3):
        table.commit(number)
        table.write()
    root, bucket = table.root, table.log.bucket
    data = bucket.get(checkpoint_key(root.version)).data
    read = base_of(decode_checkpoint(data, version=root.version))
    assert read is not None
    assert read == root
    assert encode_root(table.log.state, read) == data
