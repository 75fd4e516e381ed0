"""A table of very many blocks: it is what its blocks as objects would make, and it can be used."""

from __future__ import annotations

from pathlib import Path

from blockstore.bucket import open_bucket
from blockstore.index.change import Append
from blockstore.index.log import Log
from blockstore.index.rows import LiveBlock, Rows
from blockstore.scan.plan import plan_scan
from blockstore.scan.snapshot import Snapshot
from blockstore.simulation.large.table import BLOCK_ROWS, Numbered, make_table, rows_of
from blockstore.world import World


def test_its_rows_are_those_of_its_blocks() -> None:
    numbered = Numbered()
    blocks = [
        LiveBlock(meta=numbered.meta(number), version=1, first_row_id=number * BLOCK_ROWS)
        for number in range(300)
    ]
    assert rows_of(300).stored().equals(Rows.of(blocks).stored())
    assert list(rows_of(300).take(range(300))) == blocks


def test_it_opens_without_its_history_and_takes_commits(tmp_path: Path) -> None:
    world, url = World.real(), f"{tmp_path}/table?durable=false"
    make_table(url, 500, world)
    log = Log(open_bucket(url, world), world)
    state = log.poll()
    assert (state.version, len(state.blocks), len(state.accounted)) == (1, 500, 500)
    plan = plan_scan(Snapshot.of(state), where=f"id = {77 * BLOCK_ROWS + 5}")
    assert [chunk.first_row_id for chunk in plan.chunks] == [77 * BLOCK_ROWS]
    new = Numbered().meta(500)
    log.commit(Append(commit=world.ids.ulid(), blocks=(new,)))
    state = Log(open_bucket(url, world), world).poll()
    assert (state.version, len(state.blocks), state.next_row_id) == (2, 501, 501 * BLOCK_ROWS)
