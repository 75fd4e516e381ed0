"""What the compactor, scans and commits find in an index in leaves, of which none is loaded yet, is
what they find in the fold of all entries: of random histories, with changes, hidden sources, marks,
merges, tags and blocks that no entry names."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.care.marks import Marker
from blockstore.clock import ManualClock
from blockstore.compactor.clean.cleaner import plan_cleaning
from blockstore.compactor.clean.due import retention_due_s
from blockstore.compactor.clean.retention import plan_retention
from blockstore.compactor.plan.candidates import LiveCandidates
from blockstore.compactor.plan.observe import observe
from blockstore.compactor.run.once import compact_once, plan_seen, plan_table
from blockstore.compactor.settings import Settings
from blockstore.compactor.simulated import PlainEngine
from blockstore.errors import BlockstoreError, Invalid
from blockstore.format.block import BlockKind, Job
from blockstore.format.definition import Definition
from blockstore.format.properties import Properties
from blockstore.index import derived
from blockstore.index import log as index_log
from blockstore.index.added import AddedBlock
from blockstore.index.change import Append, Change, Draft
from blockstore.index.entry import Operation
from blockstore.index.rules import decide
from blockstore.index.state import State
from blockstore.index.tree import grow
from blockstore.index.tree.blocks import LeafRows
from blockstore.index.tree.open import base_of
from blockstore.index.tree.split import Rule
from blockstore.names import CHECKPOINTS, HINT
from blockstore.operations.tree import move_to_tree
from blockstore.scan.plan import ScanPlan, plan_pass, plan_scan
from blockstore.scan.snapshot import Snapshot
from blockstore.table import Table
from blockstore.world import World
from tests.compactor.lake import START_MS
from tests.support.index_data import Planned
from tests.support.tiers import is_fast

HOUR_S = 3_600
SCHEMA = pa.schema([("id", pa.int64()), ("time", pa.timestamp("ms", tz="UTC")), ("n", pa.int64())])
LABELS = ({}, {}, {"site": "x"}, {"site": "y"})
HISTORIES = 12 if is_fast() else int(os.environ.get("BLOCKSTORE_HISTORIES", "24"))
STEPS = 36
WHERE = (
    None,
    "id = 3",
    "n > 20 AND id < 4",
    "site = 'x'",
    "site = 'y'",
    "site IS NULL OR n = 7",
    "time < '2023-11-15T00:00:00Z'",
    "time >= '2023-11-16T00:00:00Z' AND id IN (1, 5)",
)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves of a few items, and a root after every third entry."""
    monkeypatch.setattr(grow, "BLOCKS", Rule(bits=1, most=4))
    monkeypatch.setattr(grow, "SOURCES", Rule(bits=2, most=8))
    monkeypatch.setattr(index_log, "every", lambda blocks: 3)


class History:
    """A random table, whose index is in leaves."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.world = World.manual(seed=seed, now_ms=START_MS)
        self.bucket = MemoryBucket(self.world.clock)
        self.identity = self.draw.choice([{}, {"key": "id"}, {"key": "id"}, {"row_ids": True}])
        definition = Definition.create(
            SCHEMA,
            time_column="time",
            sort_by=["id"],
            properties=Properties.parse(
                {"retention": self.draw.choice(["2d", "20d"])}
                | ({"row_history": "2d"} if self.identity else {})
            ),
            **self.identity,
        )
        self._folded: tuple[list[str], MemoryBucket] | None = None
        log = index_log.create(self.bucket, self.world, definition)
        move_to_tree(log, self.world)

    def table(self) -> Table:
        return Table.open_bucket(self.bucket, self.world)

    def rows(self) -> pa.Table:
        draw = self.draw
        count = draw.randint(1, 3)
        at = self.world.clock.now_ms() - draw.choice([0, HOUR_S, 30 * HOUR_S, 90 * HOUR_S]) * 1000
        return pa.table(
            {
                "id": draw.sample(range(6), count),
                "time": [at + 1_000 * place for place in range(count)],
                "n": [draw.randrange(40) for _ in range(count)],
            },
            schema=SCHEMA,
        )

    def step(self) -> None:
        """One change, which may be refused."""
        draw, table = self.draw, self.table()
        live = [block.meta for block in table.log.poll().blocks]
        labels = draw.choice(LABELS)
        meta = draw.choice(live) if live else None
        one = "" if meta is None else meta.ulid
        source = "" if meta is None else draw.choice(meta.sources)
        marker = Marker(
            bucket=table.bucket,
            world=self.world,
            log=table.log,
            properties=table.definition.properties,
            catalog=table.catalog,
        )
        where = draw.choice(["id = 2", "n < 9", "id = 5 AND n > 3"])
        upsert: Callable[[], Any] = (
            (lambda: table.upsert(self.rows(), labels=labels))
            if "key" in self.identity
            else (lambda: table.append(self.rows(), labels=labels))
        )
        steps: list[tuple[int, Callable[[], Any]]] = [
            (9, upsert),
            (1, lambda: table.append(self.rows(), publish=False)),
            (2, lambda: table.update({"n": draw.randrange(40)}, where)),
            (2, lambda: table.delete(where)),
            (1, lambda: table.append(self.rows(), job=Job(app="nightly", batch=draw.randrange(9)))),
            (2, lambda: compact_once(table, self.settings(), engine=PlainEngine())),
            (2, lambda: table.revert(source)),
            (1, lambda: marker.delete(one)),
            (2, lambda: marker.keep_from_merges(one)),
            (1, lambda: table.tag(f"t{draw.randrange(5)}")),
        ]
        chosen = draw.choices([do for _, do in steps], [weight for weight, _ in steps])[0]
        try:
            chosen()
        except BlockstoreError:
            pass
        self.world.clock.sleep(draw.choice([1, 600, 3 * HOUR_S, 20 * HOUR_S]))

    @staticmethod
    def settings() -> Settings:
        return Settings(tier_blocks=2, work_dir=Path("/nonexistent"), concurrency=1)

    def both(self) -> tuple[Table, Table]:
        """The table on its newest root, of which no leaf is loaded, and on the fold of all
        entries."""
        in_leaves, folded = self.table(), Table.open_bucket(self._fold(), self.world)
        assert folded.log.state.root is None
        return in_leaves, folded

    def _fold(self) -> MemoryBucket:
        """The bucket without checkpoints, its objects as old as they are."""
        keys = [info.key for info in self.bucket.list()]
        if self._folded is None or self._folded[0] != keys:
            clock = ManualClock(0)
            fold = MemoryBucket(clock)
            for info in sorted(self.bucket.list(), key=lambda info: info.modified_ms):
                clock.advance((info.modified_ms - clock.now_ms()) / 1000)
                if not info.key.startswith(CHECKPOINTS) and info.key != HINT:
                    fold.put(info.key, self.bucket.get(info.key).data)
            clock.advance((self.world.clock.now_ms() - clock.now_ms()) / 1000)
            self._folded = keys, fold
        return self._folded[1]


def asserted(history: History) -> int:
    """Compare the two in everything; returns the number of leaves."""
    in_leaves, folded = history.both()
    settings = history.settings()
    seen, expected = observe(in_leaves), observe(folded)
    assert (seen.read_rows, seen.hidden_rows) == (expected.read_rows, expected.hidden_rows)
    assert seen.damaged == expected.damaged
    assert plan_seen(seen, settings) == plan_seen(expected, settings)
    # So few blocks are all planned; the choice among many must be the same one.
    chosen = [
        replace(one, candidates=replace(one.candidates, few=0))
        for one in (seen, expected)
        if isinstance(one.candidates, LiveCandidates)
    ]
    assert plan_seen(chosen[0], settings) == plan_seen(chosen[1], settings)
    in_leaves, folded = history.both()
    assert _cleaning(in_leaves) == _cleaning(folded)
    assert plan_retention(in_leaves).blocks == plan_retention(folded).blocks
    now_ms = history.world.clock.now_ms()
    in_leaves, folded = history.both()
    assert retention_due_s(in_leaves.log.state, now_ms) == retention_due_s(folded.log.state, now_ms)
    for where in WHERE:
        in_leaves, folded = history.both()
        mine, its = Snapshot.of(in_leaves.log.state), Snapshot.of(folded.log.state)
        for plan in (plan_scan, plan_pass):
            assert _planned(plan, mine, where) == _planned(plan, its, where), where
        assert mine.count() == its.count()
        assert sorted(mine.blocks.streams()) == sorted(its.blocks.streams())
    _decided(history)
    rows = in_leaves.log.state.blocks.base
    return len(rows.leaves) if isinstance(rows, LeafRows) else 0


def _planned(plan: Callable[..., ScanPlan], snapshot: Snapshot, where: str | None) -> object:
    try:
        found = plan(snapshot, where=where)
    except Invalid as error:  # a label that no block has
        return str(error)
    return list(found.chunks), found.changes, found.pruned, found.schemas


def _cleaning(table: Table) -> dict[str, object]:
    shown = plan_cleaning(table).to_json()
    del shown["table"]
    return shown


def _decided(history: History) -> None:
    """Whether a commit has happened already, conflicts, or is made, is the same."""
    draw = history.draw
    every = [one.meta for one in history.both()[1].log.state.blocks]
    if not every:
        return
    of_leaves, of_fold = (table.log.state for table in history.both())
    for meta in every:
        for source in (*meta.sources, history.world.ids.ulid()):
            mine, its = (state.blocks.holding([source]) for state in (of_leaves, of_fold))
            assert mine == its
            assert (source in of_leaves.accounted) == (source in of_fold.accounted)
    one, other = draw.choice(every), draw.choice(every)
    source = draw.choice(one.sources)
    name = history.world.ids.ulid()
    own = replace(
        one, ulid=name, sources=(name,), level=1, revision=0, parents=(), kind=BlockKind.PLAIN
    )
    again = replace(own, ulid=history.world.ids.ulid(), sources=(source,), revision=1, own=False)
    drafts = [
        Draft(remove=(one.ulid, other.ulid) if one is not other else (one.ulid,)),
        Draft(remove=(own.ulid,)),
        Draft(excepts={one.ulid: (source,)}),
        Draft(excepts={one.ulid: (own.ulid,)}),
        Draft(account=(source, own.ulid)),
        Draft(remove=(one.ulid,), read={one.ulid: frozenset()}, add=(AddedBlock(meta=again),)),
    ]
    changes: list[Change] = [
        Planned(operation=operation, commit=history.world.ids.ulid(), plan=draft)
        for draft in drafts
        for operation in (Operation.COMPACT, Operation.EXPIRE, Operation.REVERT)
    ]
    changes += [
        Append(commit=history.world.ids.ulid(), blocks=(block,))
        for block in (one, other, own, again)
    ]
    for place, change in enumerate(changes):
        if place % 4 == 0:
            mine, its = history.both()
        assert _verdict(mine.log.state, change) == _verdict(its.log.state, change)


def _verdict(state: State, change: Change) -> object:
    try:
        return decide(state, change)
    except BlockstoreError as error:
        return type(error), str(error)


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_nothing_differs_between_leaves_and_the_fold(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed % 2:  # stored blocks are read as rows, as large tables are
        monkeypatch.setattr(derived, "_LEAST", 1)
    history = History(seed)
    for _ in range(STEPS):
        history.step()
    asserted(history)


def test_a_plan_goes_on_where_a_leaf_of_the_newest_root_is_lost() -> None:
    """By another root, and what came after it."""
    lost = 0
    for seed in range(3):
        history = History(seed)
        for _ in range(STEPS):
            history.step()
        _, folded = history.both()
        expected = plan_seen(observe(folded), history.settings())
        root = base_of(history.table().log.state)
        assert root is not None
        own = [leaf.key for leaf in root.blocks if leaf.generation == root.version]
        history.bucket.delete(own)
        lost += len(own)
        table = history.table()
        assert plan_seen(observe(table), history.settings()) == expected
        assert plan_table(history.table(), history.settings()) == expected
    assert lost
