"""Crash enumeration of index GC, with writers, taggers and a second collector in between; and every
order of two.

Every call of a pass is a crash point: the collector dies before it, or after it took effect, or
lives on without its response. At the same point a neighbor acts: a stalled writer wakes up, others
write, a version is tagged, a second collector runs a complete pass of a later hour. Then a fresh
collector runs. Whatever happened: the boundary never fell, every version above it and every tag
reads as it was, every acknowledged block is accounted exactly once, nothing that may go stays.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import pytest

from blockstore.bucket.api import Bucket, ObjectInfo
from blockstore.bucket.memory import MemoryBucket
from blockstore.errors import BlockstoreError, Indeterminate, Unavailable, VersionExpired
from blockstore.index import gc, same_history
from blockstore.index.boundary import Boundary
from blockstore.index.change import Change, Tag
from blockstore.index.checkpoint_write import ensure_checkpoint, write_checkpoint
from blockstore.index.gc import Collected, collect
from blockstore.index.log import Log, create
from blockstore.index.state import State
from blockstore.index.tags import tag
from blockstore.names import (
    BOUNDARY,
    CHECKPOINTS,
    INDEX,
    checkpoint_key,
    entry_key,
    parse_checkpoint,
    parse_entry,
)
from blockstore.world import World
from tests.support.faulty import Call, FaultyBucket, Killed
from tests.support.index_data import DEFINITION, append, block, compaction, merge, ulid
from tests.support.interleave import interleave, requests_of, schedules
from tests.support.tally import tally

pytestmark = pytest.mark.usefixtures("decoded_once")

OLD = 49 * 3600


@dataclass(frozen=True)
class Filled:
    """A table that runs begin with."""

    objects: list[tuple[ObjectInfo, bytes]]
    states: dict[int, State]


def fill(begin: Iterable[Change] = (append(10, 11), append(12))) -> Filled:
    """A table whose versions 1 to 6 are old enough to go, 7 to 9 not; a merge, a tag, checkpoints
    at 3 and 5. Its versions 2 and 3 append blocks 10, 11 and 12."""
    world = World.manual()
    bucket = MemoryBucket(world.clock)
    log = create(bucket, world, DEFINITION)
    states = {1: log.state}
    for change in (
        *begin,
        compaction(900, merge(20, [block(10), block(11)]), [block(10), block(11)]),
        append(13),
        append(14),
        append(15),
    ):
        log.commit(change)
        states[log.state.version] = log.state
        if log.state.version in (3, 5):
            write_checkpoint(bucket, log.state)
    log.commit(Tag(commit=ulid(901), name="q3", version=3))
    states[8] = log.state
    world.clock.sleep(OLD)
    log.commit(append(16))
    states[9] = log.state
    return Filled([(info, bucket.get(info.key).data) for info in bucket.list()], states)


Look = tuple[object, ...]


def look(state: State) -> Look:
    """What must be the same whenever a version is read."""
    return (
        state.version,
        tuple(state.blocks.ulids()),
        state.accounted.array().tobytes(),
        tuple(sorted(state.tags.items())),
        state.next_row_id,
    )


PLAIN = fill()
WANTED = 7
"""The boundary that a pass wants: entry 8 is old, entry 9 is new."""


@dataclass
class Run:
    """A copy of a filled table, what was acknowledged in it, and a collector that may be
    disturbed at one call."""

    neighbor: str = "nobody"
    at: int = 0
    world: World = field(default_factory=World.manual)
    numbers: set[int] = field(default_factory=lambda: {10, 11, 12, 13, 14, 15, 16})
    states: dict[int, Look] = field(default_factory=dict)
    """Those that were acknowledged beyond the ones of the filled table."""
    tags: dict[str, int] = field(default_factory=lambda: {"q3": 3})
    highest: int = 0
    filled: Filled = field(default_factory=lambda: PLAIN)

    def __post_init__(self) -> None:
        before = {version: look(state) for version, state in self.filled.states.items()}
        self.states = before | self.states
        self.bucket = MemoryBucket(self.world.clock)
        for info, data in sorted(self.filled.objects, key=lambda one: one[0].modified_ms):
            self.world.clock.sleep((info.modified_ms - self.world.clock.now_ms()) / 1000)
            self.bucket.put(info.key, data)
        self.stalled = Log(self.bucket, self.world)
        self.stalled._state = self.filled.states[4]
        self.stalled.boundary.read()

    def interfere(self, call: Call) -> None:
        self.watch()
        if call.number == self.at:
            NEIGHBORS[self.neighbor](self)

    def watch(self) -> None:
        value = int(self.bucket.get(BOUNDARY).data)
        assert value >= self.highest, f"the boundary fell from {self.highest} to {value}"
        self.highest = value

    def write(self, log: Log, number: int) -> None:
        committed = log.commit(append(number))
        assert committed.version is not None
        self.numbers.add(number)
        self.states[committed.version] = look(log.at(committed.version))

    def collector(self, **faults: object) -> FaultyBucket:
        faulty = FaultyBucket(self.bucket, **faults)  # type: ignore[arg-type]
        faulty.before.append(self.interfere)
        return faulty

    def work(self, faulty: FaultyBucket) -> None:
        """One pass; what is not certain is tried again by the same process."""
        log = Log(faulty, self.world)
        for _ in range(3):
            try:
                collect(log, self.world)
            except (Unavailable, Indeterminate):
                continue
            break

    def recover(self) -> None:
        """A fresh collector runs a pass."""
        collect(Log(self.bucket, self.world), self.world)

    def check(self, *, collected: bool = True) -> None:
        """The invariants."""
        self.watch()
        log = Log(self.bucket, self.world)
        state, boundary = log.state, log.boundary.seen
        self.check_rows(state)
        for version, found in self.history(log, boundary):
            assert self.states.get(version, found) == found, (
                f"version {version} reads otherwise than it was"
            )
        assert look(log.at(boundary + 1)) == self.states[boundary + 1]
        for name, version in self.tags.items():
            assert look(log.tagged(name)) == self.states[version], f"tag {name} is lost"
        if collected:
            assert boundary >= WANTED
            assert [one for one in entries(self.bucket) if one <= boundary] == [], (
                "an old entry stays"
            )
            pinned = {*state.tags.values(), boundary}
            assert {one for one in checkpoints(self.bucket) if one <= boundary} <= pinned, (
                "an old checkpoint stays"
            )

    def check_rows(self, state: State) -> None:
        """Every acknowledged block is accounted exactly once, and nothing else is."""
        sources = [source for one in state.blocks for source in one.meta.sources]
        assert sorted(sources) == sorted(map(ulid, self.numbers)), (
            "a block is lost, doubled, or not acknowledged"
        )

    def history(self, log: Log, boundary: int) -> Iterator[tuple[int, Look]]:
        """Every version above the boundary by its entry, each checkpoint on the way compared with
        the fold."""
        stored = {
            version: self.bucket.get(checkpoint_key(version)).data
            for version in checkpoints(self.bucket)
        }
        assert not boundary or boundary in stored, "the boundary has no checkpoint"
        state = log.reader.checkpoint(stored[boundary], boundary) if boundary else State.EMPTY
        above = [one for one in entries(self.bucket) if one > boundary]
        assert above == list(range(boundary + 1, log.state.version + 1)), "the history has a hole"
        for version in above:
            state = log.reader.follow(state, self.bucket.get(entry_key(version)).data)
            if version in stored:
                assert log.reader.checkpoint(stored[version], version) == state, (
                    f"checkpoint {version} is not the fold"
                )
            yield version, look(state)
        assert look(state) == look(log.state)


def entries(bucket: Bucket) -> list[int]:
    found = (parse_entry(info.key) for info in bucket.list(INDEX, recursive=False))
    return sorted(one for one in found if one is not None)


def checkpoints(bucket: Bucket) -> list[int]:
    found = (parse_checkpoint(info.key) for info in bucket.list(CHECKPOINTS))
    return sorted(one for one in found if one is not None)


def wakes(run: Run) -> None:
    """A writer that knows version 4 only continues."""
    run.write(run.stalled, 30)


def writes(run: Run) -> None:
    log = Log(run.bucket, run.world)
    for number in (40, 41, 42):
        run.write(log, number)


def tags(run: Run) -> None:
    """A version that is about to be collected gets a tag, or does not."""
    log = Log(run.bucket, run.world)
    try:
        tag(log, run.world, "late", 5)
    except VersionExpired:
        assert "late" not in log.poll().tags
    else:
        run.tags["late"] = 5


def collects(run: Run) -> None:
    """Two days later a second collector takes all but the newest."""
    run.world.clock.sleep(OLD)
    run.write(Log(run.bucket, run.world), 50)
    collect(Log(run.bucket, run.world), run.world)


def collects_and_wakes(run: Run) -> None:
    collects(run)
    wakes(run)


NEIGHBORS: dict[str, Callable[[Run], None]] = {
    "nobody": lambda run: None,
    "wakes": wakes,
    "writes": writes,
    "tags": tags,
    "collects": collects,
    "collects and wakes": collects_and_wakes,
}

FAULTS: dict[str, Callable[[int], dict[str, object]]] = {
    "dies before": lambda k: {"kill_before": k},
    "dies after": lambda k: {"kill_after": k},
    "hears nothing of": lambda k: {"lose_answer": {k}},
    "hears nothing from": lambda k: {"lose_answer": range(k, k + 30)},
    "meets a neighbor at": lambda k: {},
}
MEETINGS = {
    "dies before": ("nobody", "collects"),
    "dies after": tuple(NEIGHBORS),
    "hears nothing of": ("nobody", "collects"),
    "hears nothing from": ("nobody",),
    "meets a neighbor at": tuple(NEIGHBORS),
}


@functools.cache
def calls() -> int:
    """The calls of an undisturbed pass."""
    plain = Run()
    faulty = plain.collector()
    plain.work(faulty)
    plain.check()
    return len(faulty.calls)


def points() -> Iterator[tuple[str, str, int]]:
    """Every call, and every fault and neighbor there."""
    assert calls() > 20
    for k in range(1, calls() + 1):
        for fault, neighbors in MEETINGS.items():
            for neighbor in neighbors:
                yield fault, neighbor, k


def attempt(fault: str, neighbor: str, k: int) -> None:
    """One pass to its end, another by a fresh process, checked.

    A neighbor acts before the last call that is made.
    """
    run = Run(neighbor, k - 1 if fault == "dies before" else k)
    try:
        run.work(run.collector(**FAULTS[fault](k)))
    except Killed:
        pass
    run.check(collected=False)
    run.recover()
    run.check()
    run.write(Log(run.bucket, run.world), 60)
    run.write(run.stalled, 61)
    run.check_rows(Log(run.bucket, run.world).state)


@pytest.mark.slow
def test_every_crash_of_a_collector_leaves_what_may_still_be_read_and_nothing_else() -> None:
    tried = 0
    for fault, neighbor, k in points():
        try:
            attempt(fault, neighbor, k)
        except (AssertionError, BlockstoreError) as error:
            raise AssertionError(
                f"the collector {fault} call {k}, and the neighbor: {neighbor}"
            ) from error
        tried += 1
    tally("crash points", tried)


def caught(met: str) -> str | None:
    """The first point at which a planted fault is seen, where the collector meets this neighbor."""
    for fault, neighbor, k in points():
        if neighbor != met:
            continue
        try:
            attempt(fault, neighbor, k)
        except (AssertionError, BlockstoreError) as error:
            return f"the collector {fault} call {k}, and the neighbor {neighbor}: {error}"
    return None


def advance_after_delete(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries go first, and then the boundary says so."""
    delete = gc._delete
    late: dict[int, tuple[Log, int]] = {}

    def later(log: Log, bucket: Bucket, seen: gc._Seen) -> tuple[int, int | None]:
        state = gc._own_fold(log.reader, seen)
        assert state is not None
        ensure_checkpoint(bucket, state)
        late[id(bucket)] = (log, seen.wanted)
        return seen.wanted, None

    def first(log: Log, bucket: Bucket, world: World, keys: list[str]) -> None:
        delete(log, bucket, world, keys)
        if id(bucket) in late:
            own, wanted = late.pop(id(bucket))
            own.boundary.advance(wanted)

    monkeypatch.setattr(gc, "_advance", later)
    monkeypatch.setattr(gc, "_delete", first)


def no_second_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the tags pin is what the state said before the advance."""
    monkeypatch.setattr(gc, "_latest", lambda log: log.state)


def no_boundary_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Step 5 of a commit accepts whatever was created."""
    monkeypatch.setattr(same_history.Looks, "look", lambda self, state: same_history.Look.SAME)
    monkeypatch.setattr(Boundary, "check", lambda self, entry: True)


def check_before_create(monkeypatch: pytest.MonkeyPatch) -> None:
    """Step 5 accepts by what was read before."""
    monkeypatch.setattr(same_history.Looks, "look", lambda self, state: same_history.Look.SAME)
    monkeypatch.setattr(Boundary, "check", lambda self, entry: entry > self.seen)


def no_compare_and_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """The boundary is overwritten by every process."""
    monkeypatch.setattr(
        MemoryBucket, "put_if_match", lambda self, key, data, etag: self.put(key, data)
    )


def pins_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tags pin nothing."""
    doomed = gc.doomed_checkpoints
    monkeypatch.setattr(
        gc, "doomed_checkpoints", lambda found, boundary, pinned: doomed(found, boundary, ())
    )


PLANTS: list[tuple[Callable[[pytest.MonkeyPatch], None], str]] = [
    (advance_after_delete, "wakes"),
    (no_second_read, "tags"),
    (no_boundary_check, "wakes"),
    (check_before_create, "wakes"),
    (no_compare_and_set, "collects"),
    (pins_forgotten, "nobody"),
]
"""Each fault, and the neighbor that suffers from it."""


@pytest.mark.parametrize(("plant", "neighbor"), PLANTS, ids=[plant.__name__ for plant, _ in PLANTS])
def test_a_planted_fault_is_caught(
    monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None], neighbor: str
) -> None:
    calls()
    plant(monkeypatch)
    point = caught(neighbor)
    print(f"{plant.__name__}: {point}")
    assert point


def pass_of(run: Run) -> Callable[[Bucket], object]:
    """A collector that knows the newest version already."""

    def work(bucket: Bucket) -> object:
        log = Log(bucket, run.world)
        log._state = Log(run.bucket, run.world).state
        return collect(log, run.world)

    return work


def stalled(run: Run) -> Callable[[Bucket], object]:
    """A writer that knows version 4 only."""

    def work(bucket: Bucket) -> object:
        log = Log(bucket, run.world)
        log._state = run.filled.states[4]
        return log.commit(append(30))

    return work


def two_days_later(first: Run | None = None) -> Run:
    """A table written to two days later; or a copy of such a one, at the same time."""
    if first is None:
        run = Run()
        run.world.clock.sleep(OLD)
        run.write(Log(run.bucket, run.world), 50)
        return run
    run = Run(
        numbers=set(first.numbers),
        states=dict(first.states),
        filled=Filled(
            [(info, first.bucket.get(info.key).data) for info in first.bucket.list()],
            first.filled.states,
        ),
    )
    run.world.clock.sleep((first.world.clock.now_ms() - run.world.clock.now_ms()) / 1000)
    return run


@pytest.mark.slow
def test_two_collectors_in_every_order_of_two_switches_do_no_harm() -> None:
    first = two_days_later()
    run = two_days_later(first)
    length = len(requests_of(run.bucket, pass_of(run)))
    tried = 0
    for schedule in schedules(("one", length), ("two", length), 2, alike=True):
        run = two_days_later(first)
        answers = interleave(run.bucket, {"one": pass_of(run), "two": pass_of(run)}, schedule)
        try:
            assert all(isinstance(answer, Collected) for answer in answers.values()), answers
            run.check()
        except AssertionError as error:
            raise AssertionError(f"two collectors under {schedule}") from error
        tried += 1
    tally("schedules", tried)


@pytest.mark.slow
def test_a_stalled_writer_and_a_collector_in_every_order_of_two_switches_lose_nothing() -> None:
    lengths = [len(requests_of((run := Run()).bucket, work(run))) for work in (stalled, pass_of)]
    tried = 0
    for schedule in schedules(("writer", lengths[0] + 6), ("collector", lengths[1]), 2):
        run = Run()
        answers = interleave(
            run.bucket, {"writer": stalled(run), "collector": pass_of(run)}, schedule
        )
        run.numbers.add(30)
        try:
            assert not any(isinstance(answer, BaseException) for answer in answers.values()), (
                answers
            )
            run.check_rows(Log(run.bucket, run.world).state)
            run.recover()
            run.check()
        except AssertionError as error:
            raise AssertionError(f"a stalled writer and a collector under {schedule}") from error
        tried += 1
    tally("schedules", tried)
