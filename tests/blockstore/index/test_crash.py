"""Crash enumeration of create, commit and checkpoint, with a second writer and a collector in
between.

Every call of a writer's run is a crash point: the process dies before it, or after it took effect,
or lives on without its response. At the same point another writer commits, or commits and collects
all but the newest entries. Then a fresh process does again what was not acknowledged. Whatever
happened: every acknowledged block is accounted exactly once, nothing is doubled, entries are
contiguous, every checkpoint equals the fold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.errors import BlockstoreError, Conflict, Indeterminate, Unavailable
from blockstore.format import Job
from blockstore.index.boundary import Boundary
from blockstore.index.change import Append, Change, ClaimEpoch
from blockstore.index.checkpoint import decode_checkpoint
from blockstore.index.checkpoint_write import write_checkpoint
from blockstore.index.commit import Attempt, Committer
from blockstore.index.commit_ids import Commits
from blockstore.index.fold import fold
from blockstore.index.log import Log, create
from blockstore.index.read import IndexReader
from blockstore.index.same_history import Look, Looks
from blockstore.index.state import State
from blockstore.names import BOUNDARY, entry_key, parse_checkpoint
from blockstore.world import World
from tests.support.faulty import Call, FaultyBucket, Killed
from tests.support.index_data import DEFINITION, append, block, compaction, merge, ulid
from tests.support.tally import tally

pytestmark = pytest.mark.usefixtures("decoded_once")

EVERY = 4
"""Entries between checkpoints here, so that a short run writes them."""

BEFORE = (1_000, 1_001)
MADE = merge(20, [block(10), block(11)])


def changes() -> list[Change]:
    """What the writer does: appends, a job, a merge, a claim."""
    return [
        append(10),
        append(11, 12),
        append(13, job=Job(app="nightly", batch=1)),
        compaction(900, MADE, [block(10), block(11)]),
        ClaimEpoch(commit=ulid(901), claims="compactor"),
    ]


def again(change: Change, state: State) -> Change | None:
    """What a fresh process does where it knows of no acknowledgement: the same blocks, another
    commit id."""
    if isinstance(change, Append):
        first = change.blocks[0].ulid
        return Append(commit=f"7{first[1:]}", blocks=change.blocks, job=change.job)
    if change.commit == ulid(900) and MADE.ulid not in state.blocks:
        return compaction(902, MADE, [block(10), block(11)])
    return None


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The objects of a table at version 3, with a checkpoint every few entries from now on."""
    monkeypatch.setattr("blockstore.index.log.every", lambda blocks: EVERY)
    world = World.manual()
    bucket = MemoryBucket(world.clock)
    log = create(bucket, world, DEFINITION)
    for number in BEFORE:
        log.commit(append(number))
    write_checkpoint(bucket, log.state)
    return {info.key: bucket.get(info.key).data for info in bucket.list()}


@dataclass
class Run:
    """One run of the writer, with its faults and its neighbor."""

    prepared: dict[str, bytes]
    neighbor: str = "nobody"
    at: int = 0
    world: World = field(default_factory=World.manual)
    acknowledged: list[Change] = field(default_factory=list)
    by_neighbor: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bucket = MemoryBucket(self.world.clock)
        for key, data in self.prepared.items():
            self.bucket.put(key, data)

    def interfere(self, call: Call) -> None:
        if call.number != self.at or self.neighbor == "nobody":
            return
        other = Log(self.bucket, self.world)
        for number in range(5_000, 5_003):
            assert other.commit(append(number)).version is not None
            self.by_neighbor.append(number)
        if self.neighbor == "collects":
            collect(self.bucket, other)

    def writer(self, **faults: object) -> FaultyBucket:
        faulty = FaultyBucket(self.bucket, **faults)  # type: ignore[arg-type]
        faulty.after.append(self.interfere)
        return faulty

    def work(self, faulty: FaultyBucket) -> None:
        """Do all changes; a result that is not certain is requested again, by the same process."""
        log = Log(faulty, self.world, patience_s=1)
        for change in changes():
            for _ in range(4):
                try:
                    log.commit(change)
                except (Indeterminate, Unavailable):
                    continue
                except Conflict:
                    break  # a merge of blocks whose append was given up
                self.acknowledged.append(change)
                break

    def recover(self) -> None:
        """A fresh process does what was not acknowledged."""
        log = Log(self.bucket, self.world)
        done = {change.commit for change in self.acknowledged}
        for change in changes():
            retry = None if change.commit in done else again(change, log.poll())
            if retry is not None:
                log.commit(retry)

    def check(self) -> None:
        """The invariants."""
        state = Log(self.bucket, self.world).state
        expected = {ulid(number) for number in (*BEFORE, *self.by_neighbor, 10, 11, 12, 13)}
        sources = [source for one in state.blocks for source in one.meta.sources]
        assert len(sources) == len(set(sources)), "a source counts twice"
        assert set(sources) == expected, "a block is lost, or was never written"
        assert set(state.accounted.held(expected)) == expected
        assert MADE.ulid in state.blocks
        claims = state.epochs.get("compactor", (0, ""))
        claimed = any(isinstance(change, ClaimEpoch) for change in self.acknowledged)
        assert claims == (1, ulid(901)) or (not claimed and claims == (0, "")), (
            "a claim was applied twice, or lost"
        )
        rows = sorted((one.first_row_id, one.meta.rows) for one in state.blocks)
        assert all(low + count <= high for (low, count), (high, _) in pairwise(rows))
        check_index(self.bucket, state)


def collect(bucket: MemoryBucket, log: Log) -> None:
    """All but the newest entry: the checkpoint, the boundary, the deletion."""
    boundary = log.poll().version - 1
    write_checkpoint(bucket, log.at(boundary))
    bucket.put(BOUNDARY, str(boundary).encode())
    bucket.delete(entry_key(entry) for entry in range(1, boundary + 1))


def check_index(bucket: MemoryBucket, state: State) -> None:
    """Entries are contiguous above the boundary, and every checkpoint equals the fold."""
    reader = IndexReader(bucket, World.manual(), Boundary(bucket, World.manual()))
    boundary = reader.boundary.read()
    entries = reader.entries(boundary)
    assert entries == list(range(boundary + 1, state.version + 1))
    checkpoints = {}
    for info in bucket.list("index/checkpoints/"):
        version = parse_checkpoint(info.key)
        assert version is not None
        checkpoints[version] = decode_checkpoint(bucket.get(info.key).data, version=version)
    folded = checkpoints[boundary] if boundary else State.EMPTY
    for entry in entries:
        data = reader.get(entry)
        assert data is not None
        folded = fold(folded, reader.decode(data, entry))
        assert checkpoints.get(entry, folded) == folded
    assert folded == state


FAULTS: dict[str, Callable[[int], dict[str, object]]] = {
    "dies before": lambda k: {"kill_before": k},
    "dies after": lambda k: {"kill_after": k},
    "hears nothing of": lambda k: {"lose_answer": {k}},
    "hears nothing from": lambda k: {"lose_answer": range(k, k + 30)},
}
NEIGHBORS = ("nobody", "appends", "collects")


def points(prepared: dict[str, bytes]) -> Iterator[tuple[str, str, int]]:
    """Every fault, neighbor and call of an undisturbed run."""
    plain = Run(prepared)
    faulty = plain.writer()
    plain.work(faulty)
    calls = len(faulty.calls)
    assert calls > 10
    for fault in FAULTS:
        for neighbor in NEIGHBORS:
            for k in range(1, calls + 1):
                yield fault, neighbor, k


def attempt(prepared: dict[str, bytes], fault: str, neighbor: str, k: int) -> Run:
    """One run to its end, checked.

    A neighbor acts just before the fault, where it is a crash, else after call k.
    """
    run = Run(prepared, neighbor, k - 1 if "dies" in fault else k)
    faulty = run.writer(**FAULTS[fault](k))
    try:
        run.work(faulty)
    except Killed:
        pass
    run.recover()
    run.check()
    return run


@pytest.mark.slow
def test_every_crash_of_a_writer_leaves_each_block_exactly_once(prepared: dict[str, bytes]) -> None:
    tried = 0
    for fault, neighbor, k in points(prepared):
        try:
            attempt(prepared, fault, neighbor, k)
        except (AssertionError, BlockstoreError) as error:
            raise AssertionError(
                f"the writer {fault} call {k}, and the neighbor {neighbor}"
            ) from error
        tried += 1
    tally("crash points", tried)


def caught(prepared: dict[str, bytes]) -> str | None:
    """The first point at which a planted fault is seen: what it breaks needs a collector in
    between."""
    for fault, neighbor, k in points(prepared):
        if neighbor == "collects":
            try:
                attempt(prepared, fault, neighbor, k)
            except (AssertionError, BlockstoreError):
                return f"the writer {fault} call {k}"
    return None


@pytest.fixture
def blind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The look at the entry below sees what most of these faults do: each must be caught without it
    as well."""
    monkeypatch.setattr(Looks, "look", lambda self, state: Look.SAME)


@pytest.mark.usefixtures("blind")
def test_a_commit_without_step_5_is_caught(
    prepared: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Boundary, "check", lambda self, entry: True)
    assert caught(prepared)


@pytest.mark.usefixtures("blind")
def test_a_commit_that_checks_the_boundary_before_it_creates_is_caught(
    prepared: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Boundary, "check", lambda self, entry: entry > self.seen)
    assert caught(prepared)


@pytest.mark.usefixtures("blind")
def test_a_retry_without_step_1_is_caught(
    prepared: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Commits, "find", lambda self, commit: None)
    assert caught(prepared)


@pytest.mark.usefixtures("blind")
def test_an_unanswered_payload_that_moves_to_another_id_is_caught(
    prepared: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operation forgets where it sent its payload, and starts again from what it can see."""

    def forgetful(self: Committer, attempt: Attempt, deadline: float | None = None) -> None:
        attempt.sent.clear()

    monkeypatch.setattr(Committer, "settle", forgetful)
    monkeypatch.setattr(Commits, "find", lambda self, commit: None)
    assert caught(prepared)


def test_every_crash_of_a_create_can_be_created_again(world: World) -> None:
    tried = 0
    for fault in FAULTS:
        for overtaken in (False, True):
            for k in range(1, 8):
                bucket = MemoryBucket(world.clock)
                faulty = FaultyBucket(bucket, **FAULTS[fault](k))  # type: ignore[arg-type]
                if overtaken:
                    faulty.before.append(
                        lambda call, k=k, bucket=bucket: (
                            create_quietly(bucket, world) if call.number == k else None
                        )
                    )
                mine = create_quietly(faulty, world)
                tried += 1
                theirs = create_quietly(bucket, world)
                state = Log(bucket, world).state
                assert (state.version, state.definition) == (1, DEFINITION)
                assert not (mine and theirs)
                assert int(bucket.get(BOUNDARY).data) == 0
                Log(bucket, world).commit(append(10))
                check_index(bucket, Log(bucket, world).state)
    tally("crash points", tried)


def create_quietly(bucket: MemoryBucket | FaultyBucket, world: World) -> bool:
    """Whether the creation was acknowledged."""
    try:
        create(bucket, world, DEFINITION, patience_s=1)
    except (Killed, Conflict, Indeterminate, Unavailable):
        return False
    return True
