"""What is still named: against brute force over every version and tag, incrementally and from
nothing."""

from __future__ import annotations

import random

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.metered import Metered
from blockstore.errors import BoundaryLost, Corrupt, NotFound, Unavailable
from blockstore.index.added import AddedBlock
from blockstore.index.change import Append, Change, Draft, Tag, Untag
from blockstore.index.checkpoint_write import ensure_checkpoint
from blockstore.index.entry import Operation
from blockstore.index.log import Log, create
from blockstore.index.reachable import Kept, Named
from blockstore.index.state import State
from blockstore.names import BOUNDARY, checkpoint_key, entry_key
from blockstore.world import World
from tests.blockstore.index.test_read import collect
from tests.support.faulty import Call, FaultyBucket
from tests.support.index_data import DEFINITION, Planned, append, block, merge, ulid


class Story:
    """A table that lives at random, and remembers every state that it had."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.world = World.manual(seed=seed)
        self.bucket = MemoryBucket(self.world.clock)
        self.log = create(self.bucket, self.world, DEFINITION)
        self.states: dict[int, State] = {1: self.log.state}
        self.boundary = 0
        self.number = 1_000

    def step(self) -> None:
        self.number += 10
        if self.draw.random() < 0.15:
            self._collect()
            return
        change = self._change()
        if change is not None:
            self.log.commit(change)
            self.states[self.log.state.version] = self.log.state

    def named(self) -> set[str]:
        """Brute force: every block of every version above the boundary and of every tag."""
        latest = self.log.state
        versions = {*range(self.boundary + 1, latest.version + 1), *latest.tags.values()}
        return {ulid_ for version in versions for ulid_ in self.states[version].blocks.ulids()}

    def ever(self) -> set[str]:
        return {ulid_ for state in self.states.values() for ulid_ in state.blocks.ulids()} | {
            ulid(5)
        }

    def _collect(self) -> None:
        latest = self.log.state
        boundary = self.draw.randint(self.boundary, latest.version - 1)
        if boundary:
            ensure_checkpoint(self.bucket, self.states[boundary])
        self.bucket.put(BOUNDARY, str(boundary).encode())
        self.bucket.delete(entry_key(entry) for entry in range(1, boundary + 1))
        pinned = set(latest.tags.values())
        self.bucket.delete(
            checkpoint_key(version) for version in range(1, boundary) if version not in pinned
        )
        self.boundary = boundary
        self.log.poll()

    def _change(self) -> Change | None:
        state, draw, commit = self.log.state, self.draw, ulid(self.number)
        live = [one.meta for one in state.blocks]
        kind = draw.choice(
            ["append", "append", "merge", "expire", "tag", "untag", "restore", "revert"]
        )
        if kind == "merge" and len(live) > 1:
            parents = draw.sample(live, 2)
            made = AddedBlock(meta=merge(self.number + 1, parents))
            merged = Draft(add=(made,), remove=tuple(one.ulid for one in parents))
            return Planned(operation=Operation.COMPACT, commit=commit, plan=merged)
        if kind == "expire" and live:
            gone = Draft(remove=(draw.choice(live).ulid,))
            return Planned(operation=Operation.EXPIRE, commit=commit, plan=gone)
        if kind == "revert" and live:
            target = draw.choice(live)
            hidden = Draft(excepts={target.ulid: (draw.choice(target.sources),)})
            return Planned(operation=Operation.REVERT, commit=commit, plan=hidden)
        if kind == "tag":
            version = draw.randint(self.boundary + 1, state.version)
            ensure_checkpoint(self.bucket, self.states[version])
            return Tag(commit=commit, name=f"t{draw.randrange(5)}{self.number}", version=version)
        if kind == "untag" and state.tags:
            return Untag(commit=commit, name=draw.choice(sorted(state.tags)))
        if kind == "restore":
            return self._restore(state)
        return Append(commit=commit, blocks=(block(self.number + 1), block(self.number + 2)))

    def _restore(self, state: State) -> Change | None:
        """Back to a version: what it had comes back with its name, what it had not goes."""
        readable = [*range(self.boundary + 1, state.version), *state.tags.values()]
        if not readable:
            return None
        old = self.states[self.draw.choice(readable)]
        back = {one.ulid: one for one in old.blocks}
        now = {one.ulid: one for one in state.blocks}
        same = {
            name for name in back.keys() & now.keys() if back[name].excepted == now[name].excepted
        }
        add = tuple(
            AddedBlock(
                meta=one.meta,
                sources=one.meta.sources,
                version=one.version,
                first_row_id=one.first_row_id,
            )
            for name, one in back.items()
            if name not in same
        )
        excepts = {
            name: tuple(sorted(one.excepted))
            for name, one in back.items()
            if name not in same and one.excepted
        }
        remove = tuple(sorted(now.keys() - same))
        if not add and not remove:
            return None
        return Planned(
            operation=Operation.RESTORE,
            commit=ulid(self.number),
            plan=Draft(add=add, remove=remove, excepts=excepts),
        )


def agree(story: Story, named: Named) -> None:
    assert named.state == story.log.state
    expected, found = story.named(), {one for one in story.ever() if named.names(one)}
    assert found == expected, (story.boundary, story.log.state.version, found ^ expected)
    for one in story.ever():
        assert (named.why(one) is not None) == (one in expected)


@pytest.mark.parametrize("seed", range(25))
def test_it_names_exactly_what_brute_force_over_all_versions_and_tags_names(seed: int) -> None:
    story = Story(seed)
    often, seldom = Kept(Log(story.bucket, story.world)), Kept(Log(story.bucket, story.world))
    for number in range(60):
        story.step()
        if story.draw.random() < 0.5:
            agree(story, often.look())
        if number % 17 == 0:
            agree(story, seldom.look())
    agree(story, often.look())
    agree(story, seldom.look())
    agree(story, Kept(Log(story.bucket, story.world)).look())


def test_a_restored_block_is_named_through_the_time_that_it_was_gone(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    log.commit(append(10))
    old = log.state
    log.commit(
        Planned(operation=Operation.EXPIRE, commit=ulid(900), plan=Draft(remove=(ulid(10),)))
    )
    log.commit(append(11))
    kept = Kept(Log(bucket, world))
    assert kept.look().why(ulid(10)) == "version 2"
    collect(bucket, log, 2)
    assert not kept.look().names(ulid(10)), "entry 3 took it from the boundary's own version"
    one = old.blocks.get(ulid(10))
    assert one is not None
    back = AddedBlock(meta=one.meta, version=one.version, first_row_id=one.first_row_id)
    log.commit(Planned(operation=Operation.RESTORE, commit=ulid(901), plan=Draft(add=(back,))))
    assert kept.look().why(ulid(10)) == "version 5"


def test_a_look_with_nothing_new_costs_three_small_requests(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    for number in range(100, 140):
        log.commit(append(number))
    ensure_checkpoint(bucket, log.at(5))
    log.commit(Tag(commit=ulid(900), name="old", version=5))
    collect(bucket, log, 20)
    metered = Metered(bucket)
    kept = Kept(Log(metered, world))
    kept.look()
    metered.reset()
    kept.look()
    assert metered.counts == {"get": 3}
    assert metered.bytes["get"] == 0


def test_what_was_read_is_not_read_again(bucket: MemoryBucket, world: World, log: Log) -> None:
    for number in range(100, 110):
        log.commit(append(number))
    old = log.state
    ensure_checkpoint(bucket, old)
    log.commit(Tag(commit=ulid(900), name="old", version=old.version))
    for number in range(110, 120):
        log.commit(append(number))
    collect(bucket, log, 15)
    faulty = FaultyBucket(bucket)
    kept = Kept(Log(faulty, world))
    first = kept.look()
    assert all(first.names(ulid(number)) for number in range(100, 120))
    faulty.calls.clear()
    for number in range(120, 125):
        log.commit(append(number))
    kept.look()
    read = {call.key for call in faulty.calls if call.method == "get"}
    known = {checkpoint_key(11), *(entry_key(entry) for entry in range(1, 22))}
    assert read.isdisjoint(known), (
        "neither old entries nor the tag's checkpoint; the last one known is only looked at"
    )
    assert faulty.calls[0].key == BOUNDARY, "the boundary first, then the state"


def test_a_boundary_that_jumps_past_everything_known_is_followed(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    kept = Kept(Log(bucket, world))
    log.commit(append(10))
    log.commit(
        Planned(operation=Operation.EXPIRE, commit=ulid(900), plan=Draft(remove=(ulid(10),)))
    )
    assert kept.look().names(ulid(10))
    for number in range(100, 140):
        log.commit(append(number))
    log.commit(
        Planned(operation=Operation.EXPIRE, commit=ulid(901), plan=Draft(remove=(ulid(139),)))
    )
    collect(bucket, log, 40)
    named = kept.look()
    assert not named.names(ulid(10))
    assert named.names(ulid(139))
    assert named.names(ulid(138))


def test_a_boundary_that_moves_during_a_look_is_looked_at_again(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    for number in range(100, 110):
        log.commit(append(number))
    log.commit(
        Planned(operation=Operation.EXPIRE, commit=ulid(901), plan=Draft(remove=(ulid(100),)))
    )
    log.commit(append(110))
    faulty = FaultyBucket(bucket)
    reader = Log(faulty, world)
    assert reader.state.version == 13
    moved: list[Call] = []

    def move(call: Call) -> None:
        if call.key == entry_key(5) and not moved:
            moved.append(call)
            collect(bucket, log, 12)

    faulty.before.append(move)
    named = Kept(reader).look()
    assert moved
    assert named.boundary == 12
    assert not named.names(ulid(100))
    assert named.names(ulid(110))


def test_a_tag_whose_checkpoint_cannot_be_read_stops_whoever_asks(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    for number in range(100, 110):
        log.commit(append(number))
    ensure_checkpoint(bucket, log.at(5))
    log.commit(Tag(commit=ulid(900), name="q3", version=5))
    collect(bucket, log, 8)
    kept = Kept(Log(bucket, world))
    assert kept.look().why(ulid(100)) == "version 12"
    good = bucket.get(checkpoint_key(5)).data
    bucket.put(checkpoint_key(5), good[:100])
    with pytest.raises(Corrupt, match="checkpoint 5"):
        Kept(Log(bucket, world)).look()
    bucket.delete([checkpoint_key(5)])
    with pytest.raises(Corrupt, match="tag 'q3' pins version 5"):
        Kept(Log(bucket, world)).look()
    kept.look()


def test_a_tag_names_its_version_in_words(bucket: MemoryBucket, world: World, log: Log) -> None:
    log.commit(append(10))
    ensure_checkpoint(bucket, log.state)
    for name in ("b", "a"):
        log.commit(Tag(commit=ulid(900 + ord(name)), name=name, version=2))
    log.commit(
        Planned(operation=Operation.EXPIRE, commit=ulid(902), plan=Draft(remove=(ulid(10),)))
    )
    log.commit(append(11))
    collect(bucket, log, 5)
    assert Kept(Log(bucket, world)).look().why(ulid(10)) == "tag 'a', 'b'"


def test_a_tag_that_is_taken_away_during_a_look_is_not_missed(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    for number in range(100, 105):
        log.commit(append(number))
    ensure_checkpoint(bucket, log.at(3))
    log.commit(Tag(commit=ulid(900), name="q3", version=3))
    log.commit(append(105))
    collect(bucket, log, 7)
    faulty = FaultyBucket(bucket)

    def untag(call: Call) -> None:
        if call.key == checkpoint_key(3):
            faulty.before.remove(untag)
            log.commit(Untag(commit=ulid(901), name="q3"))
            bucket.delete([checkpoint_key(3)])

    faulty.before.append(untag)
    named = Kept(Log(faulty, world)).look()
    assert named.state.tags == {}
    assert named.tagged == {}


def test_nothing_is_named_on_a_guess(bucket: MemoryBucket, world: World, log: Log) -> None:
    for number in range(100, 105):
        log.commit(append(number))
    kept = Kept(Log(bucket, world))
    bucket.delete([entry_key(4)])
    with pytest.raises(Corrupt, match="index entry 4"):
        Kept(log).look()
    with pytest.raises((Corrupt, Unavailable)):
        kept.look()
    bucket.delete([BOUNDARY])
    with pytest.raises((BoundaryLost, NotFound)):
        kept.look()
