"""A pass of jobs: a job that fails stops no other, and what must stop a process stops it at
once."""

from __future__ import annotations

import errno
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from blockstore.bucket import Bucket
from blockstore.compactor.merge import Merged, MergeEngine, MergeOptions, MergeTask
from blockstore.compactor.merge.local import LocalEngine
from blockstore.compactor.merge.workdir import NoWorkDirectory, WorkDirectory, merge_folder
from blockstore.compactor.run import execute
from blockstore.compactor.run.execute import IN_A_ROW
from blockstore.compactor.run.monitor import Abandoned
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.errors import BlockstoreError, BoundaryLost, Fenced, NoSpace, Unavailable
from blockstore.world import World
from tests.compactor.tended import Tended

JOBS = 6


@pytest.fixture
def lake(tmp_path: Path) -> Tended:
    """A table of six streams, each with one merge to do."""
    lake = Tended(tmp_path)
    lake.create("a")
    for number in range(JOBS):
        lake.fill("a", 2, labels={"stream": str(number)})
    return lake


@dataclass
class Failing:
    """The local engine, which raises the error of each job that has one, by its place."""

    errors: dict[int, Exception]
    asked: int = 0

    def merge(self, bucket: Bucket, world: World, task: MergeTask, options: MergeOptions) -> Merged:
        self.asked += 1
        error = self.errors.get(self.asked - 1)
        if error is not None:
            raise error
        return LocalEngine().merge(bucket, world, task, options)


@dataclass
class Together:
    """An engine that merges many at once, and returns an error for some."""

    errors: dict[int, BlockstoreError]
    answered: list[int] = field(default_factory=list)

    def merge(self, bucket: Bucket, world: World, task: MergeTask, options: MergeOptions) -> Merged:
        raise AssertionError("it is asked for all at once")

    def merge_all(
        self, bucket: Bucket, world: World, tasks: Sequence[MergeTask], options: MergeOptions
    ) -> Iterator[tuple[int, Merged | BlockstoreError]]:
        for place, task in enumerate(tasks):
            self.answered.append(place)
            yield place, self.errors.get(place) or LocalEngine().merge(bucket, world, task, options)


def compact(lake: Tended, engine: MergeEngine) -> None:
    compact_once(lake.table("a"), Settings(tier_blocks=2, work_dir=lake.work_dir), engine=engine)


def merged(lake: Tended) -> int:
    return 2 * JOBS - len(lake.live("a"))


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("out of memory"),
        pa.ArrowMemoryError("malloc failed"),
        OSError(errno.EMFILE, "Too many open files"),
        NoWorkDirectory("a file"),
        NoSpace("full"),
        Unavailable("no answer"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_befalls_one_job_keeps_no_other_from_being_done(
    lake: Tended, error: Exception
) -> None:
    engine = Failing({1: error})
    with pytest.raises(type(error)) as raised:
        compact(lake, engine)
    assert raised.value is error
    assert (engine.asked, merged(lake)) == (JOBS, JOBS - 1)
    lake.check()


def test_a_machine_that_fails_job_after_job_is_left_in_peace(lake: Tended) -> None:
    engine = Failing({number: MemoryError("out of memory") for number in range(JOBS)})
    with pytest.raises(MemoryError):
        compact(lake, engine)
    assert engine.asked == IN_A_ROW


def test_jobs_without_need_of_the_work_disk_are_done_however_many_before_failed_for_it(
    tmp_path: Path, lake: Tended
) -> None:
    """The work directory is a file; all but the last merge would put something there."""
    (tmp_path / "file").touch()

    class Needy(Failing):
        def merge(
            self, bucket: Bucket, world: World, task: MergeTask, options: MergeOptions
        ) -> Merged:
            self.asked += 1
            if self.asked < JOBS:
                WorkDirectory(merge_folder(tmp_path / "file", task.ulid)).open()
            return LocalEngine().merge(bucket, world, task, options)

    with pytest.raises(NoWorkDirectory, match=r"file cannot be used .*set work_dir"):
        compact(lake, Needy({}))
    assert merged(lake) == 1
    lake.check()


def test_a_bug_of_ours_stops_the_table_at_once(lake: Tended) -> None:
    engine = Failing({1: TypeError("a bug")})
    with pytest.raises(TypeError):
        compact(lake, engine)
    assert engine.asked == 2


STOPS = [BoundaryLost("lost"), Fenced("another holds the role"), Abandoned("the process stops")]


@pytest.mark.parametrize("error", STOPS, ids=lambda error: type(error).__name__)
def test_what_must_stop_the_process_stops_it_at_once_whatever_came_before(
    lake: Tended, error: BlockstoreError
) -> None:
    before = Unavailable("no answer")
    engine = Failing({0: before, 2: error})
    with pytest.raises(type(error)) as raised:
        compact(lake, engine)
    assert (raised.value, engine.asked, merged(lake)) == (error, 3, 1)
    together = Together({0: before, 3: error})
    with pytest.raises(type(error)) as raised:
        compact(lake, together)
    assert (raised.value, together.answered) == (error, [0, 1, 2, 3])
    lake.check()


def test_of_many_at_once_the_first_failure_is_raised_when_all_others_are_done(lake: Tended) -> None:
    first = NoWorkDirectory("a file")
    engine = Together({1: first, 2: Unavailable("no answer"), 4: NoSpace("full")})
    with pytest.raises(NoWorkDirectory) as raised:
        compact(lake, engine)
    assert raised.value is first
    assert merged(lake) == JOBS - 3
    lake.check()


def test_a_merge_that_found_too_little_memory_leaves_its_own_to_those_after_it(
    lake: Tended,
) -> None:
    held: list[weakref.ref[Large]] = []
    alive: list[bool] = []

    class Large:
        pass

    class Greedy(LocalEngine):
        def merge(
            self, bucket: Bucket, world: World, task: MergeTask, options: MergeOptions
        ) -> Merged:
            alive.extend(one() is not None for one in held)
            if held:
                return super().merge(bucket, world, task, options)
            large = Large()
            held.append(weakref.ref(large))
            raise MemoryError("too large")

    with pytest.raises(MemoryError):
        compact(lake, Greedy())
    assert alive == [False] * (JOBS - 1)


def test_side_by_side_too_an_input_that_cannot_be_looked_at_ends_its_own_merge_only(
    lake: Tended, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = iter([{}, Unavailable("one meta.json does not answer")])

    def unreadable(*_: object) -> object:
        outcome = next(outcomes, {})
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(execute, "unreadable", unreadable)
    with pytest.raises(Unavailable, match="does not answer"):
        compact(lake, Together({}))
    assert len(lake.live("a")) == JOBS + 1
