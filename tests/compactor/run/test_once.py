"""Compaction, once: every row exactly once, whatever else runs and wherever the process dies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from blockstore.bucket import Bucket
from blockstore.compactor.merge import Merged, MergeOptions, MergeTask
from blockstore.compactor.merge.local import LocalEngine
from blockstore.compactor.run.execute import IN_A_ROW
from blockstore.compactor.run.once import compact_once, plan_table
from blockstore.compactor.run.report import Outcome
from blockstore.compactor.settings import Settings
from blockstore.errors import BlockstoreError, Invalid, Unavailable
from blockstore.format.marks import NoCompactMark, NoCompactReason, encode_mark
from blockstore.names import no_compact_mark_key
from blockstore.world import World
from tests.compactor.scene import Scene, small_chunks, worn
from tests.support.faulty import Call, FaultyBucket, Killed, crash_points
from tests.support.tally import tally


@pytest.fixture(autouse=True)
def blocks_of_two_chunks() -> Iterator[None]:
    with small_chunks():
        yield


def is_chunk_put(call: Call) -> bool:
    return call.writes and "/chunks/" in call.key


def is_entry_put(call: Call) -> bool:
    return call.method == "put_if_absent" and call.key.startswith("index/0")


def run(made: Scene, faulty: FaultyBucket) -> None:
    """Compact until done, dead or refused by a fault."""
    try:
        made.compact(faulty)
    except (Killed, BlockstoreError):
        pass


def while_merging(made: Scene, faulty: FaultyBucket) -> None:
    """Let another writer append a block when the first merged chunk is on its way."""
    waiting = [True]

    def append(call: Call) -> None:
        if is_chunk_put(call) and waiting:
            waiting.clear()
            made.append("late")

    faulty.before.append(append)


def test_the_scene_has_blocks_of_two_chunks_a_merge_and_a_reverted_source(tmp_path: Path) -> None:
    made = worn(tmp_path)
    live = list(made.open().log.state.blocks)
    assert [len(block.meta.chunks) for block in live if block.meta.level == 1] == [2, 2, 2]
    assert [len(block.meta.chunks) for block in live if block.meta.level == 2] == [2]
    assert sorted(block.meta.level for block in live) == [1, 1, 1, 2]
    assert sum(bool(block.excepted) for block in live) == 1
    assert made.found() == made.expected


def test_everything_comes_down_to_one_block_and_a_second_run_does_nothing(tmp_path: Path) -> None:
    made = worn(tmp_path)
    report = made.compact()
    assert [result.outcome for result in report.results] == [Outcome.COMMITTED]
    assert report.results[0].dropped_rows == 4
    assert made.live() == [report.results[0].block]
    assert made.found() == made.expected
    again = made.compact()
    assert (again.results, again.version) == ((), report.version)


def test_the_table_is_listed_once_to_merge_all_and_once_to_find_that_nothing_is_left(
    tmp_path: Path,
) -> None:
    made = worn(tmp_path)
    faulty, listed = FaultyBucket(made.bucket), Counter[bool]()
    faulty.before.append(lambda call: listed.update([call.method == "list" and call.key == ""]))
    assert len(made.compact(faulty).results) == 1
    assert listed[True] == 1
    assert not made.compact(faulty).results
    assert listed[True] == 2
    assert made.found() == made.expected


def test_what_others_append_during_a_pass_is_merged_by_the_next(tmp_path: Path) -> None:
    made = worn(tmp_path)
    faulty = FaultyBucket(made.bucket)
    for _ in range(2):
        while_merging(made, faulty)
    report = made.compact(faulty)
    assert [len(result.job.inputs) for result in report.results] == [4, 3]
    assert made.live() == [report.results[-1].block]
    assert made.found() == made.expected


def test_a_merge_waits_for_its_turn_where_writers_win_every_race_for_minutes(
    tmp_path: Path,
) -> None:
    """Thrown away after a minute, it would be made again, and thrown away again: a table that is
    written all the time would never be merged."""
    made = worn(tmp_path)
    faulty, clock = FaultyBucket(made.bucket), made.world.clock
    began = clock.monotonic_s()

    def overtake(call: Call) -> None:
        if is_entry_put(call) and clock.monotonic_s() < began + 300:
            made.append("rival")
            clock.sleep(5)

    faulty.before.append(overtake)
    report = made.compact(faulty)
    assert {result.outcome for result in report.results} == {Outcome.COMMITTED}
    assert clock.monotonic_s() >= began + 300
    assert made.found() == made.expected


def test_the_entry_has_exactly_the_inputs_of_the_plan_printed_before(tmp_path: Path) -> None:
    made = worn(tmp_path)
    [job] = plan_table(made.open(), Settings(tier_blocks=2, work_dir=tmp_path))
    report = made.compact()
    entry = next(entry for entry in made.open().log.entries() if entry.id == report.version)
    assert sorted(entry.remove) == [block.ulid for block in job.inputs]
    assert entry.parameters == {"reason": str(job.reason), "details": job.details}
    assert entry.read_version == report.version - 1


@pytest.mark.slow
def test_every_row_exactly_once_wherever_the_process_dies_or_a_response_is_lost(
    tmp_path: Path,
) -> None:
    origin = worn(tmp_path)
    made = origin.copy()
    counting = FaultyBucket(made.bucket)
    while_merging(made, counting)
    made.compact(counting)
    assert len(counting.calls) >= 25
    for fault, call in crash_points(counting.calls):
        tally("crash points")
        made = origin.copy()
        argument = {call.number} if fault == "lose_answer" else call.number
        faulty = FaultyBucket(made.bucket, **{fault: argument})  # type: ignore[arg-type]
        while_merging(made, faulty)
        run(made, faulty)
        assert made.found() == made.expected, (fault, call)
        made.append("after")
        made.compact()
        assert made.found() == made.expected, (fault, call)
        assert len(made.live()) == 1, (fault, call)


def test_of_two_compactors_one_wins_and_nothing_counts_twice(tmp_path: Path) -> None:
    made = worn(tmp_path)
    faulty = FaultyBucket(made.bucket)
    waiting = [True]

    def overtake(call: Call) -> None:
        if is_entry_put(call) and waiting:
            waiting.clear()
            made.compact()

    faulty.before.append(overtake)
    report = made.compact(faulty)
    assert [result.outcome for result in report.results] == [Outcome.CONFLICT]
    assert made.found() == made.expected
    assert len(made.live()) == 1


def test_a_source_that_is_reverted_during_the_merge_is_not_brought_back(tmp_path: Path) -> None:
    made = worn(tmp_path)
    source = next(block.ulid for block in made.open().log.state.blocks if block.meta.level == 1)
    [writer] = {
        name
        for name in "def"
        if made.open()
        .snapshot()
        .scan(columns=["writer", "_source"])
        .to_table()
        .to_pylist()
        .count({"writer": name, "_source": source})
    }
    faulty = FaultyBucket(made.bucket)
    waiting = [True]

    def revert(call: Call) -> None:
        if is_entry_put(call) and waiting:
            waiting.clear()
            made.hide(source, writer)

    faulty.before.append(revert)
    report = made.compact(faulty)
    assert [result.outcome for result in report.results] == [Outcome.CONFLICT, Outcome.COMMITTED]
    assert report.results[1].dropped_rows == 8
    assert made.found() == made.expected


def test_a_merge_of_which_no_row_is_left_takes_its_inputs_away(tmp_path: Path) -> None:
    made = Scene(tmp_path)
    for writer in ("a", "b"):
        made.hide(made.append(writer), writer)
    report = made.compact()
    assert [(result.outcome, result.block) for result in report.results] == [
        (Outcome.COMMITTED, None)
    ]
    assert made.live() == []
    assert made.found() == Counter()


def test_blocks_with_a_no_compact_mark_stay(tmp_path: Path) -> None:
    made = Scene(tmp_path)
    kept, *_ = sorted(made.append(writer) for writer in ("a", "b", "c"))
    mark = NoCompactMark(ulid=kept, no_compact_time_s=0, reason=NoCompactReason.MANUAL, details="")
    made.bucket.put(no_compact_mark_key(kept), encode_mark(mark))
    made.compact()
    assert kept in made.live()
    assert made.found() == made.expected


def test_skipped_streams_are_left_alone_and_streams_never_meet(tmp_path: Path) -> None:
    made = Scene(tmp_path)
    for label in ("eu", "us"):
        for number in range(3):
            data = {"writer": [f"{label}{number}"], "row": [number]}
            made.open().append(_table(data), labels={"region": label})
    settings = Settings(tier_blocks=2, work_dir=tmp_path, skip=(("region", "us"),))
    jobs = plan_table(made.open(), settings)
    assert [dict(job.stream.labels) for job in jobs] == [{"region": "eu"}]
    made.compact()
    labels = sorted(block.meta.labels["region"] for block in made.open().log.state.blocks)
    assert labels == ["eu", "us"]


def test_a_job_that_fails_keeps_no_other_from_being_done(tmp_path: Path) -> None:
    made = Scene(tmp_path)
    for label in ("asia", "eu", "us"):
        for number in range(3):
            made.open().append(
                _table({"writer": [label], "row": [number]}), labels={"region": label}
            )

    class Refusing(LocalEngine):
        """Merges no rows of one region."""

        def merge(
            self, bucket: Bucket, world: World, task: MergeTask, options: MergeOptions
        ) -> Merged:
            if task.inputs[0].meta.labels["region"] == "asia":
                raise Invalid("these rows cannot be merged")
            return super().merge(bucket, world, task, options)

    with pytest.raises(Invalid, match="cannot be merged"):
        compact_once(made.open(), Settings(tier_blocks=2, work_dir=tmp_path), engine=Refusing())
    left = Counter(block.meta.labels["region"] for block in made.open().log.state.blocks)
    assert left == {"asia": 3, "eu": 1, "us": 1}


def test_after_several_failures_in_a_row_the_rest_is_left(tmp_path: Path) -> None:
    made = Scene(tmp_path)
    for number in range(2 * IN_A_ROW):
        for row in range(3):
            made.open().append(
                _table({"writer": ["a"], "row": [row]}), labels={"region": f"r{number}"}
            )
    asked = []

    class Down(LocalEngine):
        def merge(
            self, bucket: Bucket, world: World, task: MergeTask, options: MergeOptions
        ) -> Merged:
            asked.append(task)
            raise Unavailable("the store does not answer")

    with pytest.raises(Unavailable):
        compact_once(made.open(), Settings(tier_blocks=2, work_dir=tmp_path), engine=Down())
    assert len(asked) == IN_A_ROW


def _table(data: dict[str, list[object]]) -> object:
    import pyarrow as pa

    from tests.compactor.scene import SCHEMA

    return pa.table(data, schema=SCHEMA)
