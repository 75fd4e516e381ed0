"""Two compactors that clean one table without an index, each by looks of its own: no source loses
its last copy.

A run is drawn from a seed: merges, uploads that came again, time that passes; and two cleaners,
each of which looks, then carries out one decision at a time whenever it is its turn, however late,
until R8's ``delete_delay``/2 is over. After every step each source must be held by a complete
block. Half of the runs begin where two looks of the same hour disagree about which block holds
which rows; there the planted faults are caught within a few runs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import pytest

from blockstore.format.marks import MarkReason
from blockstore.lifecycle.by_cover import ByCover
from blockstore.lifecycle.decide import Action, Decision, decide_marks, decide_removals
from blockstore.lifecycle.fate import Fate, goes, stays
from blockstore.lifecycle.listing import Found
from blockstore.lifecycle.sight import Sight
from tests.blockstore.lifecycle.sights import Dir, sight
from tests.support.tally import tally

HALF = 1.0
"""Days: ``delete_delay``/2."""

STEPS = 60
SOURCES = 4
"""Few, so that many blocks overlap."""


@dataclass
class Block:
    sources: frozenset[int]
    revision: int
    born: float
    mark: MarkReason | None = None
    marked: float = 0.0


@dataclass
class Cleaner:
    looked: float = 0.0
    todo: list[Decision] = field(default_factory=list)
    seen: dict[int, float] = field(default_factory=dict)
    """When each mark was placed that the look showed."""
    removed: set[str] = field(default_factory=set)


class World:
    """The table, the clock in days, and the two cleaners."""

    def __init__(
        self, seed: int, *, expires: bool = True, obeys: bool = True, disputed: bool = False
    ) -> None:
        self.draw = random.Random(seed)
        self.expires = expires
        self.obeys = obeys
        """Whether a mark is looked at again before it is acted on."""
        self.disputed = disputed
        self.now = 0.0
        self.blocks: dict[int, Block] = {}
        self.number = SOURCES
        self.cleaners = (Cleaner(), Cleaner())
        self.counts = {"removed": 0, "marked": 0, "withdrawn": 0, "dropped": 0}

    def run(self) -> str | None:
        """The step after which a source was lost; None if none was."""
        for number in range(1, SOURCES + 1):
            self.blocks[number] = Block(frozenset({number}), 0, self.now)
        for step, act in enumerate(self.steps()):
            told = act()
            held = set().union(*(block.sources for block in self.blocks.values()), set())
            if lost := set(range(1, SOURCES + 1)) - held:
                return f"source {min(lost)} was lost at step {step}: {told}"
        return None

    def steps(self) -> Iterator[Callable[[], str]]:
        if self.disputed:
            yield from self.dispute()
        for _ in range(STEPS):
            yield self.draw.choices([self.upload, self.wait, self.look, self.act], [2, 4, 4, 12])[0]

    def dispute(self) -> Iterator[Callable[[], str]]:
        """1 and 2 are merged; a look now lets the merge count for 2. Then 1 comes again in a block
        that the cover prefers: a look now lets 2 count for its part of the merge. Both mark, and
        the marks become due."""
        first, second = self.draw.sample(self.cleaners, 2)
        self.blocks[21] = Block(frozenset({1, 2}), 0, self.now)
        self.now += 0.03
        self.look(first)
        self.blocks[22] = Block(frozenset({1, 3}), 1, self.now)
        self.now += 0.03
        self.number = 22
        self.look(second)
        for _ in range(self.draw.randint(6, 12)):
            yield partial(self.act, self.draw.choice(self.cleaners))
        for _ in range(self.draw.randint(1, 2)):
            self.now += self.draw.choice([0.6, 2.0, 2.0])
            for cleaner in self.draw.sample(self.cleaners, 2):
                if self.draw.random() < 0.8:
                    yield partial(self.look, cleaner)
            for _ in range(self.draw.randint(4, 12)):
                yield partial(self.act, self.draw.choice(self.cleaners))

    def upload(self) -> str:
        """A merge of some sources, or a block that comes again."""
        sources = frozenset(self.draw.sample(range(1, SOURCES + 1), self.draw.randint(1, 3)))
        revision = self.draw.choice([0, 0, 0, 1]) or int(len(sources) == 1)
        self.number += 1
        self.blocks[self.number] = Block(sources, revision, self.now)
        return f"{self.number} holds {sorted(sources)}"

    def wait(self) -> str:
        self.now += self.draw.choice([0.011, 0.011, 0.022, 0.022, 0.4, 0.97, 2.0])
        return f"it is day {self.now:.2f}"

    def look(self, cleaner: Cleaner | None = None) -> str:
        cleaner = cleaner or self.draw.choice(self.cleaners)
        look = self.sight()
        cleaner.looked = self.now
        cleaner.seen = {number: block.marked for number, block in self.blocks.items() if block.mark}
        cleaner.removed = set()
        cleaner.todo = [*decide_marks(look), *decide_removals(look).decisions]
        if self.draw.random() < 0.3:
            marks = [one for one in cleaner.todo if one.action is not Action.REMOVE]
            self.draw.shuffle(marks)
            cleaner.todo = marks + [one for one in cleaner.todo if one.action is Action.REMOVE]
        return "a look"

    def sight(self) -> Sight:
        dirs = [
            Dir(
                number=number,
                sources=None if block.sources == {number} else block.sources,
                revision=block.revision,
                age=self.now - block.born,
                mark=block.mark,
                mark_age=self.now - block.marked,
            )
            for number, block in self.blocks.items()
        ]
        return sight(dirs)

    def act(self, cleaner: Cleaner | None = None) -> str:
        cleaner = cleaner or self.draw.choice(self.cleaners)
        if not cleaner.todo:
            return ""
        decision = cleaner.todo.pop(0)
        number = int(decision.ulid[-4:])
        block = self.blocks.get(number)
        if self.expires and self.now - cleaner.looked >= HALF:
            self.counts["dropped"] += 1
            return "an old decision was dropped"
        if block is None:
            return ""
        if decision.action is Action.MARK:
            if block.mark is None:
                block.mark, block.marked = decision.reason, self.now
                self.counts["marked"] += 1
            return f"{number} was marked: {decision.why}"
        if self.obeys and (block.mark is None or block.marked != cleaner.seen.get(number)):
            return "the mark is another"
        if decision.action is Action.WITHDRAW:
            block.mark = None
            self.counts["withdrawn"] += 1
            return f"{number} was withdrawn: {decision.why}"
        if not decision.after <= cleaner.removed:
            return "R7"
        del self.blocks[number]
        cleaner.removed.add(decision.ulid)
        self.counts["removed"] += 1
        return f"{number} was removed: {decision.why}"


@pytest.mark.parametrize("disputed", [True, False])
def test_no_source_loses_its_last_copy(disputed: bool) -> None:
    counts = {"removed": 0, "marked": 0, "withdrawn": 0, "dropped": 0}
    for seed in range(100):
        world = World(seed, disputed=disputed)
        lost = world.run()
        assert lost is None, f"seed {seed}: {lost}"
        counts = {name: counts[name] + world.counts[name] for name in counts}
    for name, count in counts.items():
        assert count > 0, name
        tally(f"two cleaners: {name}", count)


def caught(runs: int = 60, **options: bool) -> str:
    """The first run that sees the fault."""
    for seed in range(runs):
        lost = World(seed, disputed=True, **options).run()
        if lost is not None:
            print(f"caught with seed {seed}: {lost}")
            return lost
    raise AssertionError("a planted fault was not seen")


def test_a_removal_without_a_fresh_listing_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """R8's second look off: the mark decides."""
    honest = ByCover.to_remove

    def by_mark(self: ByCover, one: Found) -> Fate:
        return goes("marked") if one.mark is MarkReason.SUPERSEDED else honest(self, one)

    monkeypatch.setattr(ByCover, "to_remove", by_mark)
    assert caught()


def test_counting_marked_blocks_as_cover_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A removal that is content if any ready block holds the rows, whatever mark is on it."""

    def by_any(self: ByCover, one: Found) -> Fate:
        sources = set(one.meta.sources if one.meta else ())
        others = [other for other in self._sight.found.values() if other is not one and other.meta]
        held = {
            source
            for other in others
            for source in other.meta.sources
            if self._sight.is_ready(other)
        }  # type: ignore[union-attr]
        return goes("held by others") if sources <= held else stays("nobody holds it")

    monkeypatch.setattr(ByCover, "to_remove", by_any)
    assert caught()


@pytest.mark.parametrize(("expires", "obeys"), [(True, False), (False, True), (False, False)])
def test_an_old_decision_is_dropped_by_its_age_and_by_its_mark_and_without_both_a_source_is_lost(
    expires: bool, obeys: bool
) -> None:
    """One plans to remove a merge, whose rows others hold, and stalls; the other sees it needed
    after all, withdraws its mark, and removes one of those others."""
    world = World(0, expires=expires, obeys=obeys)
    stalls, works = world.cleaners
    world.blocks = {number: Block(frozenset({number}), 0, 0.0) for number in (1, 2, 3, 4, 5)}
    for number, sources in ((20, {1, 2}), (21, {2, 4}), (23, {4, 5})):
        world.blocks[number] = Block(frozenset(sources), 0, 0.0)
    world.now = 0.03
    clean(world, works)
    world.now = 2.1
    world.look(stalls)
    while len(stalls.todo) > 1:
        world.act(stalls)
    assert world.blocks.keys() == {3, 20, 21, 23}
    world.blocks[22] = Block(frozenset({1, 3}), 1, world.now)
    for days in (0.03, 0.03, 2.1):
        world.now += days
        clean(world, works)
    assert 20 not in world.blocks
    world.act(stalls)
    assert (21 in world.blocks) is (expires or obeys)


def clean(world: World, cleaner: Cleaner) -> None:
    """A complete pass, undisturbed."""
    world.look(cleaner)
    while cleaner.todo:
        world.act(cleaner)


def test_the_same_seed_is_the_same_run_and_another_seed_another() -> None:
    def end(seed: int) -> object:
        world = World(seed)
        world.run()
        return world.now, world.counts, sorted(world.blocks)

    assert end(1) == end(1) != end(2)
