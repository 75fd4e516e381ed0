"""A pass of remote merges (Spark) does not look like a process that hangs: not while they end one
after the other, not while they report progress, and not while they report nothing.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from io import StringIO
from pathlib import Path

import pytest

from blockstore.bucket import Bucket
from blockstore.clock import ManualClock
from blockstore.compactor.merge import Merged, MergeOptions, MergeTask
from blockstore.compactor.merge.engine import Progress, no_progress
from blockstore.compactor.merge.local import LocalEngine
from blockstore.compactor.plan.jobs import PlannedJob
from blockstore.compactor.plan.observe import Observation
from blockstore.compactor.process.keeper import COMPACT
from blockstore.compactor.process.process import Process
from blockstore.compactor.process.status import JobState
from blockstore.compactor.run.execute import Executor
from blockstore.errors import BlockstoreError, NoSpace, Unavailable
from blockstore.service.logs import LogSettings, set_up
from blockstore.world import World
from tests.compactor.tended import Tended

Before = Callable[[int, Progress], BlockstoreError | None]


class Cluster:
    """An engine whose merges do not use the process's bucket; ``before`` is called before each, and
    may return its error."""

    def __init__(self, lake: Tended, before: Before) -> None:
        self._lake = lake
        self._before = before

    def merge(self, bucket: Bucket, world: World, task: MergeTask, options: MergeOptions) -> Merged:
        return LocalEngine().merge(self._lake.place("a"), world, task, options)

    def merge_all(
        self,
        bucket: Bucket,
        world: World,
        tasks: Sequence[MergeTask],
        options: MergeOptions,
        progress: Progress = no_progress,
    ) -> Iterator[tuple[int, Merged | BlockstoreError]]:
        for place, task in enumerate(tasks):
            failed = self._before(place, progress)
            yield (
                place,
                failed or LocalEngine().merge(self._lake.place("a"), world, task, options),
            )


@pytest.fixture
def lake(tmp_path: Path) -> Tended:
    lake = Tended(tmp_path)
    lake.create("a")
    for number in range(6):
        for one in "xy":
            lake.append("a", f"{one}{number}", labels={"s": str(number)})
    return lake


def advance(lake: Tended, seconds: float) -> None:
    clock = lake.world.clock
    assert isinstance(clock, ManualClock)
    clock.advance(seconds)


def to_restart(process: Process) -> list[str]:
    """Why it should be restarted for a merge that moves nothing."""
    return [one for one in process.status().unhealthy if "no byte" in one]


def silence(process: Process) -> list[str]:
    """What the process says of a merge that moves nothing."""
    return to_restart(process) + [one for one in process.status().not_ready if "no byte" in one]


def test_a_process_whose_merges_end_one_after_the_other_is_healthy_and_ready(lake: Tended) -> None:
    said: list[str] = []

    def before(place: int, progress: Progress) -> None:
        advance(lake, 1500)
        said.extend(silence(process))

    process = lake.process(engine=Cluster(lake, before))
    process.round()
    lake.check()
    assert len(lake.live("a")) == 6
    assert said == []


def test_a_round_of_hours_that_reports_progress_is_ready_and_shows_it(
    lake: Tended,
) -> None:
    said: list[str] = []
    shown: list[float] = []

    def before(place: int, progress: Progress) -> None:
        for number in range(1, 21) if place == 0 else ():
            advance(lake, 1500)
            progress(number / 20)
            said.extend(silence(process))
            shown.append(process.of("a").running[-1].progress)

    process = lake.process(engine=Cluster(lake, before))
    process.round()
    assert said == []
    assert shown == [number / 20 for number in range(1, 20)] + [0.99]
    assert len(lake.live("a")) == 6


def test_a_round_without_reports_is_shown_and_never_a_reason_to_restart(
    lake: Tended,
) -> None:
    unhealthy: list[str] = []
    reasons: list[str] = []

    def before(place: int, progress: Progress) -> None:
        if place == 0:
            advance(lake, 8 * process.config.loops.ready_age_s)
            unhealthy.extend(to_restart(process))
            reasons.extend(silence(process))
            assert process.of("a").idle_s == 0

    process = lake.process(engine=Cluster(lake, before))
    process.round()
    assert unhealthy == []
    (reason,) = reasons
    assert "moved no byte for 14400 s" in reason
    assert "whether its tasks still run" in reason
    assert len(lake.live("a")) == 6
    assert silence(process) == []


def test_a_merge_of_this_process_that_moves_nothing_is_a_reason_to_restart(lake: Tended) -> None:
    unhealthy: list[str] = []
    idle: list[float] = []

    class Hanging(LocalEngine):
        def merge(
            self, bucket: Bucket, world: World, task: MergeTask, options: MergeOptions
        ) -> Merged:
            advance(lake, 8 * process.config.loops.ready_age_s)
            unhealthy.extend(to_restart(process))
            idle.append(process.of("a").idle_s)
            return super().merge(bucket, world, task, options)

    process = lake.process(engine=Hanging())
    process.look()
    process.turn("a", "compact")
    assert unhealthy == ["the running merge has moved no byte for 14400 s: restart the process"]
    assert idle == [14400]
    assert process.of("a").idle_s == 0


def test_each_job_has_its_number_in_the_lines_of_its_begin_and_of_its_end(lake: Tended) -> None:
    def before(place: int, progress: Progress) -> BlockstoreError | None:
        return {1: NoSpace("no room for it"), 2: Unavailable("gave up")}.get(place)

    stream = StringIO()
    level = logging.getLogger().level
    handler = set_up(LogSettings(style="json"), stream)
    try:
        process = lake.process(engine=Cluster(lake, before))
        process.look()
        process.turn("a", "compact")
    finally:
        logging.getLogger().removeHandler(handler)
        logging.getLogger().setLevel(level)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    jobs = process.of("a").finished
    assert sorted(job.state for job in jobs) == [JobState.COMMITTED] * 4 + [JobState.FAILED] * 2

    def numbers(begin: str) -> list[int]:
        return sorted(line.get("job") for line in lines if line["message"].startswith(begin))

    assert numbers("merging ") == [1, 2, 3, 4, 5, 6]
    assert numbers("merged ") == [1, 4, 5, 6]
    assert numbers("not merged: ") == [2, 3]


def test_a_pass_after_a_long_rest_is_healthy_while_its_inputs_are_looked_at(
    lake: Tended, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = lake.process(engine=Cluster(lake, lambda place, progress: None))
    process.look()
    advance(lake, 36_000)
    said: list[str] = []
    look = Executor.task_of

    def task_of(self: Executor, job: PlannedJob, seen: Observation) -> MergeTask:
        said.extend(silence(process))
        said.extend(str(one.progress) for one in process.of("a").running if one.progress)
        return look(self, job, seen)

    monkeypatch.setattr(Executor, "task_of", task_of)
    process.turn("a", COMPACT)
    assert len(lake.live("a")) == 6
    assert said == []


def test_each_merge_that_failed_is_reported_with_its_own_reason_and_done_last_next_time(
    lake: Tended,
) -> None:
    failing = {1: NoSpace("no room for it"), 2: Unavailable("gave up")}
    process = lake.process(engine=Cluster(lake, lambda place, progress: failing.pop(place, None)))
    process.look()
    process.turn("a", COMPACT)
    problems = {
        one.number: one.problem for one in process.of("a").finished if one.state is JobState.FAILED
    }
    assert problems == {2: "no room for it", 3: "gave up"}
    process.turn("a", COMPACT)
    assert len(lake.live("a")) == 6
