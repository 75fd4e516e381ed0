"""How many leaves each kind of work reads of a table of 20,000 blocks, in leaves as long as real
ones."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from blockstore.bucket import open_bucket
from blockstore.bucket.api import Object
from blockstore.bucket.wrapper import Wrapper
from blockstore.compactor.run.once import plan_table
from blockstore.compactor.settings import Settings
from blockstore.index.change import Append
from blockstore.index.checkpoint_name import every
from blockstore.index.log import Log
from blockstore.index.state import State
from blockstore.index.tree import grow, split
from blockstore.index.tree.blocks import LeafRows
from blockstore.names import LEAVES
from blockstore.scan.plan import ScanPlan, plan_pass, plan_scan
from blockstore.scan.snapshot import Snapshot
from blockstore.simulation.large.table import BLOCK_ROWS, Numbered, make_tree
from blockstore.table import Table
from blockstore.world import World

BLOCKS = 20_000


class Counted(Wrapper):
    """Counts the GETs of each leaf."""

    def __init__(self, url: str, world: World) -> None:
        super().__init__(open_bucket(url, world))
        self.leaves: Counter[str] = Counter()

    def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        if key.startswith(LEAVES):
            self.leaves[key] += 1
        return super().get(key, if_none_match=if_none_match)

    def taken(self) -> int:
        """The GETs since the last call."""
        found = self.leaves.total()
        self.leaves.clear()
        return found


@pytest.fixture(autouse=True)
def small_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real ones."""
    monkeypatch.setattr(grow, "BLOCKS", split.BLOCKS)
    monkeypatch.setattr(grow, "SOURCES", split.SOURCES)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    found = f"{tmp_path_factory.mktemp('large')}/table?durable=false"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grow, "BLOCKS", split.BLOCKS)
        patch.setattr(grow, "SOURCES", split.SOURCES)
        make_tree(found, BLOCKS, World.real())
    return found


@pytest.fixture
def world() -> World:
    return World.real()


@pytest.fixture
def bucket(url: str, world: World) -> Counted:
    return Counted(url, world)


def leaves_of(state: State) -> int:
    assert isinstance(state.blocks.base, LeafRows)
    return len(state.blocks.base.leaves)


def test_an_open_reads_none_and_a_plan_of_a_point_query_one(bucket: Counted, world: World) -> None:
    state = Log(bucket, world).poll()
    assert leaves_of(state) > 10
    assert (len(state.blocks), bucket.taken()) == (BLOCKS, 0)
    for number in (77, 10_000, BLOCKS - 5):
        plan = plan_scan(Snapshot.of(state), where=f"id = {number * BLOCK_ROWS + 5}")
        assert (len(plan.chunks), bucket.taken()) == (1, 1)
    assert not plan_scan(Snapshot.of(state), where="id = -1").chunks
    assert Snapshot.of(state).count() == BLOCKS * BLOCK_ROWS
    assert bucket.taken() == 0, "sums say that"


@pytest.mark.parametrize("plan", [plan_scan, plan_pass])
def test_a_plan_of_everything_reads_each_once(
    bucket: Counted, world: World, plan: Callable[[Snapshot], ScanPlan]
) -> None:
    state = Log(bucket, world).poll()
    assert len(plan(Snapshot.of(state)).chunks) == BLOCKS
    assert max(bucket.leaves.values()) == 1
    assert bucket.taken() == leaves_of(state)


def test_a_plan_of_merges_reads_each_once_and_the_next_none(bucket: Counted, world: World) -> None:
    table = Table.open_bucket(bucket, world)
    jobs = plan_table(table, Settings())
    assert jobs
    assert bucket.taken() == leaves_of(table.log.state)
    assert plan_table(table, Settings()) == jobs
    assert bucket.taken() == 0


def test_commits_and_polls_read_none_and_a_root_those_that_change(
    bucket: Counted, world: World
) -> None:
    log, gateway = Log(bucket, world), Log(Counted(bucket.url, world), world)
    start, due = log.poll().version, every(BLOCKS)
    gateway.poll()
    for number in range(BLOCKS, BLOCKS + due + 3):
        log.commit(Append(commit=world.ids.ulid(), blocks=(Numbered().meta(number),)))
        assert bucket.taken() <= (2 if log.state.version % due == 0 else 0)
        assert gateway.poll().version == log.state.version
    assert log.state.root == due > start
    assert isinstance(gateway.reader.bucket, Counted)
    assert gateway.reader.bucket.taken() == 0


PLANS = """
import sys
from blockstore.compactor.run.once import plan_table
from blockstore.compactor.settings import Settings
from blockstore.index.change import Append
from blockstore.scan.plan import plan_pass
from blockstore.scan.snapshot import Snapshot
from blockstore.simulation.large.table import APART_MS, Numbered
from blockstore.table import open as open_table
from blockstore.world import World

world = World.real()
table = open_table(sys.argv[1], world=world)
made, there = Numbered(), int(sys.argv[2])
late = tuple(made.between(there + number, number) for number in range(3))
table.log.commit(Append(commit=world.ids.ulid(), blocks=late))
jobs = plan_table(table, Settings(ranges_ms=(APART_MS,)))
chunks = plan_pass(Snapshot.of(table.log.state)).chunks
print(len(jobs), len(chunks), "pandas" in sys.modules)
"""


def test_plans_do_without_pandas(tmp_path: Path, world: World) -> None:
    """Arrow imports it where it is installed: half a second, and a tenth of the memory of a plan
    over a million blocks."""
    url = f"{tmp_path}/table?durable=false"
    make_tree(url, BLOCKS, world)
    code = [sys.executable, "-c", PLANS, url, str(BLOCKS)]
    done = subprocess.run(code, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == ["3", str(BLOCKS + 3), "False"]
