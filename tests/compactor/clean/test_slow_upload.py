"""An upload that takes longer than ``partial_delay`` while the compactor runs, in every
interleaving of R3 and R4.

The uploader stalls before each of its requests, the marking pass and, ``delete_delay`` later, the
removing pass before each of their relevant ones (their writes, and what follows a listing); at each
of these moments the uploader continues for any number of requests. Whatever happens, the rows of
its write exist exactly once, in both discovery modes: under the source of the block that was
started, or, if its chunks were reported gone and written again, under that of the second write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from blockstore.compactor.clean.cleaner import Cleaner
from blockstore.errors import BlockCondemned, Indeterminate, Unavailable
from blockstore.format.block import Job
from blockstore.format.marks import MarkReason
from blockstore.index.epochs import COMPACTOR, Held, claim
from blockstore.lifecycle.by_cover import ByCover
from blockstore.lifecycle.fate import Fate, goes
from blockstore.lifecycle.list_path import discover_snapshot
from blockstore.lifecycle.listing import Found, list_directories
from blockstore.lifecycle.sight import Sight
from blockstore.names import META, chunk_path, object_key
from tests.compactor.lake import PER_S, Lake, rows
from tests.support.faulty import Call, FaultyBucket
from tests.support.tally import tally
from tests.support.turns import Turns

pytestmark = pytest.mark.usefixtures("decoded_once")

JOB = Job(app="slow", batch=1)
LAST = 99
"""More steps than there are: to the end."""


def base(work_dir: Path, *, indexed: bool) -> Lake:
    lake = Lake(work_dir, indexed=indexed)
    lake.append("a")
    lake.append("b")
    return lake


class Race:
    """One schedule: a slow uploader against a pass that marks and a pass that removes."""

    def __init__(self, lake: Lake, *, job: Job | None) -> None:
        self.lake = lake
        self.job = job
        self.before = set(lake.directories())
        self.begun: list[str] = []
        self.told: list[str] = []
        """Each request with its time."""
        self.held: Held | None = None
        if lake.indexed:
            self.held = claim(lake.open().log, lake.world, COMPACTOR)
        self.turns = Turns(
            lake.bucket, {"uploader": self.upload, "marker": self.clean, "remover": self.clean}
        )

    def upload(self, bucket: FaultyBucket) -> None:
        """A writer that follows the messages: it resumes what is uncertain and writes again what is
        gone."""
        table, resume = self.lake.open(bucket), None
        for _ in range(6):
            try:
                table.append(rows("slow"), job=self.job, resume=resume)
            except BlockCondemned:
                resume = None
            except (Indeterminate, Unavailable) as error:
                resume = getattr(error, "ulid", None) if self.job is None else None
            else:
                return
        raise AssertionError("the writer was refused six times")

    def clean(self, bucket: FaultyBucket) -> None:
        bucket.calls.clear()
        bucket.list("nothing")  # its turn comes later: nothing of the pass may be older than that
        Cleaner(self.lake.open(bucket), self.held, objects_per_s=PER_S).run()

    def play(
        self, at_mark: int, marked: int, until_mark: int, removed: int, until_remove: int
    ) -> None:
        def script() -> Iterator[str]:
            yield from self.until_meta()
            self.lake.sleep(2.1)
            yield from self.steps("uploader", at_mark)
            yield "marker"
            yield from self.steps("marker", marked)
            yield from self.steps("uploader", until_mark)
            yield from self.steps("marker", LAST)
            self.lake.sleep(2.1)
            yield "remover"
            yield from self.steps("remover", removed)
            yield from self.steps("uploader", until_remove)
            yield from self.steps("remover", LAST)

        def note(name: str, call: Call) -> None:
            self.told.append(f"{self.lake.world.clock.now_ms()} {name} {call.method} {call.key}")

        errors = self.turns.play(script(), note)
        assert errors == {}

    def until_meta(self) -> Iterator[str]:
        while (call := self.turns.pending("uploader")) is not None and not call.key.endswith(META):
            yield "uploader"
        [slow] = self.lake.directories().keys() - self.before
        self.begun.append(slow)

    def steps(self, name: str, count: int) -> Iterator[str]:
        """Let an actor continue until just before its ``count``-th relevant request from
        here, or has ended."""
        for _ in range(count):
            if self.turns.pending(name) is None:
                return
            yield name
            while (call := self.turns.pending(name)) is not None and not self.matters(name, call):
                yield name

    def matters(self, name: str, call: Call) -> bool:
        listed = self.turns.calls[-1][1].method == "list"
        return call.writes or listed or (name == "uploader" and call.method in {"head", "list"})

    def check(self) -> None:
        """The rows of the slow write exactly once, at once and in the end."""
        self.lake.sleep(0.05)
        seen = sources(self.lake)
        assert set(seen.values()) == {1}, "a source counts twice"
        [slow] = seen.keys() - self.before
        assert slow in self.begun or slow in self.lake.directories()
        self.lake.settle(12)
        assert sources(self.lake) == seen
        if self.lake.indexed:
            state = self.lake.open().log.state
            live = Counter(source for block in state.blocks for source in block.meta.sources)
            assert live == seen, "the index sees what the listing shows"
        assert not self.lake.marked()
        state = None if not self.lake.indexed else self.lake.open().log.state
        needed = (
            set(state.blocks.ulids())
            if state is not None
            else {b.meta.ulid for b in self.lake.chosen()}
        )
        wrecks = [
            paths
            for ulid, paths in self.lake.directories().items()
            if ulid not in needed and META in paths
        ]
        assert self.lake.directories().keys() - needed == set() or wrecks, "debris is left"


def sources(lake: Lake) -> Counter[str]:
    """How often each source is seen by a reader of the listing, every file of it there with its
    bytes."""
    table = lake.open()
    log = table.log_or_none
    state, listed = discover_snapshot(
        lake.bucket,
        lake.world,
        (lambda: None) if log is None else log.poll,
        properties=None if log is not None else table.definition.properties,
    )
    directories = list_directories(lake.bucket).directories
    seen: Counter[str] = Counter()
    for chosen in listed.cover.chosen:
        assert directories[chosen.meta.ulid].difference(chosen.meta) is None
        seen.update(chosen.sources)
    for block in () if state is None else state.blocks:
        assert directories[block.ulid].difference(block.meta) is None, "a live block lost a file"
        seen.update(block.meta.sources)
    assert listed.malformed == {} or all(
        META in directories[ulid].objects for ulid in listed.malformed
    )
    return seen


SCHEDULES = [
    (at_mark, marked, until_mark, removed, until_remove)
    for at_mark in (0, 1, 2, 3, 5)
    for marked in (0, 1, 2, 3, LAST)
    for until_mark in (0, 1, 3, LAST)
    for removed in (0, 1, 2, LAST)
    for until_remove in (0, 1, LAST)
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["unindexed", "age", "job"])
def test_its_rows_are_there_exactly_once(kind: str, tmp_path: Path) -> None:
    lake = base(tmp_path, indexed=kind != "unindexed")
    job = JOB if kind == "job" else None
    tried: set[tuple[str, ...]] = set()
    again = 0
    for schedule in SCHEDULES:
        race = Race(lake.copy(seed=3), job=job)
        race.play(*schedule)
        if tuple(race.told) in tried:
            continue
        tried.add(tuple(race.told))
        again += len(race.lake.directories()) > len(race.before) + 1
        try:
            race.check()
        except AssertionError as error:
            trace = "\n".join(race.told)
            raise AssertionError(f"{error} after schedule {schedule}:\n{trace}") from error
    tally("interleavings of a slow upload", len(tried))
    assert again > 10, "some uploads were refused and came again"


def test_a_removal_that_does_not_look_again_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R4's second phase off: what was once marked partial goes, complete by now or not."""
    honest = ByCover.to_remove

    def by_mark(self: ByCover, one: Found) -> Fate:
        return goes("marked partial") if one.mark is MarkReason.PARTIAL else honest(self, one)

    monkeypatch.setattr(ByCover, "to_remove", by_mark)
    monkeypatch.setattr(Sight, "outlived_old_looks", lambda self, one: False)
    lake = base(tmp_path, indexed=False)
    for schedule in SCHEDULES:
        race = Race(lake.copy(seed=3), job=None)
        race.play(*schedule)
        try:
            race.check()
        except (AssertionError, ValueError) as error:
            print(f"caught after schedule {schedule}: {error}")
            return
    raise AssertionError("a planted fault was not seen")


def test_an_upload_of_which_nothing_came_after_its_first_chunk_goes(tmp_path: Path) -> None:
    lake = base(tmp_path, indexed=True)
    slow = lake.world.ids.ulid()
    lake.bucket.put(object_key(slow, chunk_path(1)), b"half")
    lake.settle(12)
    assert slow not in lake.directories()
    lake.check()
