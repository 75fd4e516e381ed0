"""Complete, uncommitted merges: the next run commits them, and merges nothing twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from blockstore.bucket.api import Bucket
from blockstore.compactor.config import Schedule
from blockstore.compactor.merge import Merged, MergeOptions, MergeTask
from blockstore.compactor.merge.local import LocalEngine
from blockstore.compactor.plan.candidates import FewCandidates
from blockstore.compactor.plan.observe import observe
from blockstore.compactor.plan.shards import Shard
from blockstore.compactor.process.keeper import COMPACT
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.run.report import Report
from blockstore.compactor.run.resume import resume
from blockstore.compactor.settings import Settings
from blockstore.errors import BlockstoreError, Fenced
from blockstore.index.epochs import claim
from blockstore.lifecycle.listing import list_directories
from blockstore.names import deletion_mark_key, meta_key
from blockstore.world import World
from tests.compactor.scene import Scene, small_chunks
from tests.compactor.tended import Tended
from tests.support.faulty import Call, FaultyBucket, Killed
from tests.support.tally import tally


@pytest.fixture(autouse=True)
def blocks_of_two_chunks() -> Iterator[None]:
    with small_chunks():
        yield


@dataclass
class Counting:
    """The local engine, and the merges that it was given, by their inputs."""

    asked: list[tuple[str, ...]] = field(default_factory=list)

    def merge(self, bucket: Bucket, world: World, task: MergeTask, options: MergeOptions) -> Merged:
        self.asked.append(tuple(item.meta.ulid for item in task.inputs))
        return LocalEngine().merge(bucket, world, task, options)


def compact(
    made: Scene, bucket: FaultyBucket | None = None, engine: Counting | None = None
) -> Report:
    settings = Settings(tier_blocks=2, work_dir=made.work_dir)
    return compact_once(made.open(bucket), settings, engine=engine or Counting())


def four(tmp_path: Path) -> Scene:
    made = Scene(tmp_path)
    for writer in "abcd":
        made.append(writer)
    return made


def is_entry_put(call: Call) -> bool:
    return call.method == "put_if_absent" and call.key.startswith("index/0")


def uploaded(made: Scene) -> str:
    """Let a compactor die just before its entry; return the block that it had uploaded."""
    before = {info.key for info in made.bucket.list()}
    faulty = FaultyBucket(made.bucket)

    def die(call: Call) -> None:
        if is_entry_put(call):
            raise Killed("before the entry")

    faulty.before.append(die)
    with pytest.raises(Killed):
        compact(made, faulty)
    [meta] = [
        key
        for key in {info.key for info in made.bucket.list()} - before
        if key.endswith("/meta.json")
    ]
    return meta.removesuffix("/meta.json")


def test_a_merge_that_was_uploaded_whole_is_committed_and_not_done_again(tmp_path: Path) -> None:
    made = four(tmp_path)
    left = uploaded(made)
    assert left not in made.live()
    engine = Counting()
    report = compact(made, engine=engine)
    assert engine.asked == []
    assert made.live() == [left]
    assert made.found() == made.expected
    assert [str(result.job.reason) for result in report.results] == ["resume"]
    entry = next(entry for entry in made.open().log.entries() if entry.id == report.version)
    assert len(entry.remove) == 4
    assert (compact(made).results, made.live()) == ((), [left])


def test_no_merge_is_done_twice_wherever_the_process_dies_once_its_meta_is_stored(
    tmp_path: Path,
) -> None:
    origin = four(tmp_path)
    clean = origin.copy()
    counting = FaultyBucket(clean.bucket)
    compact(clean, counting)
    calls = counting.calls
    wrote = next(
        n for n, call in enumerate(calls, 1) if call.writes and call.key.endswith("/meta.json")
    )
    again = 0
    for number in range(1, len(calls) + 1):
        for fault in ("kill_before", "kill_after", "lose_answer"):
            tally("crash points")
            made, engine = origin.copy(), Counting()
            faulty = FaultyBucket(
                made.bucket, **{fault: {number} if fault == "lose_answer" else number}
            )  # type: ignore[arg-type]
            try:
                compact(made, faulty, engine)
            except (Killed, BlockstoreError):
                pass
            before = len(engine.asked)
            compact(made, engine=engine)
            assert made.found() == made.expected, (fault, number)
            assert len(made.live()) == 1, (fault, number)
            if number > wrote or (number == wrote and fault != "kill_before"):
                assert len(engine.asked) == before == 1, (fault, number)
                again += 1
    assert again >= 10


def test_a_merge_is_not_brought_back_once_a_parent_has_an_exception(tmp_path: Path) -> None:
    made = four(tmp_path)
    left = uploaded(made)
    source = made.live()[0]
    table = made.open().snapshot().scan(columns=["writer", "_source"]).to_table()
    writer = next(row["writer"] for row in table.to_pylist() if row["_source"] == source)
    made.hide(source, writer)
    engine = Counting()
    compact(made, engine=engine)
    assert len(engine.asked) == 1
    assert left not in made.live()
    assert made.found() == made.expected


def test_a_merge_whose_parents_are_no_longer_all_live_is_left_as_debris(tmp_path: Path) -> None:
    made = four(tmp_path)
    uploaded(made)
    made.append("e")
    other = made.copy()
    compact(other)
    table = other.open()
    assert resume(table) == ()
    assert other.found() == other.expected


def test_a_merge_that_is_marked_for_deletion_is_not_committed(tmp_path: Path) -> None:
    made = four(tmp_path)
    left = uploaded(made)
    made.bucket.put(deletion_mark_key(left), b"{}")
    assert resume(made.open()) == ()


def test_a_merge_whose_chunks_are_not_all_there_is_not_committed(tmp_path: Path) -> None:
    made = four(tmp_path)
    left = uploaded(made)
    chunk = next(info.key for info in made.bucket.list(f"{left}/chunks/"))
    made.bucket.delete([chunk])
    assert resume(made.open()) == ()
    assert meta_key(left) in {info.key for info in made.bucket.list()}


def test_the_process_that_seemed_dead_and_was_not_commits_nothing_twice(tmp_path: Path) -> None:
    made = four(tmp_path)
    faulty = FaultyBucket(made.bucket)
    waiting = [True]

    def overtake(call: Call) -> None:
        if is_entry_put(call) and waiting:
            waiting.clear()
            assert len(resume(made.open())) == 1

    faulty.before.append(overtake)
    report = compact(made, faulty)
    assert [str(result.outcome) for result in report.results] == ["conflict"]
    assert len(made.live()) == 1
    assert made.found() == made.expected


def test_a_merge_that_lacks_rows_which_a_restore_brought_back_is_not_committed(
    tmp_path: Path,
) -> None:
    made = Scene(tmp_path)
    sources = {writer: made.append(writer) for writer in ("a", "b")}
    compact(made)
    made.append("c", 8)
    whole, version = made.expected.copy(), made.open().log.state.version
    made.hide(sources["b"], "b")
    left = uploaded(made)
    made.open().restore(version=version)
    assert not any(block.excepted for block in made.open().log.state.blocks)
    assert resume(made.open()) == ()
    assert left not in made.live()
    assert made.found() == whole


# In the process, and in shards.


def tended(tmp_path: Path, labels: str) -> Tended:
    """A table of streams with one merge each to do."""
    lake = Tended(tmp_path)
    lake.create("a")
    for label in labels:
        lake.fill("a", 2, labels={"cluster": label})
    return lake


def left_by(lake: Tended, shard: Shard | None, seed: int) -> str:
    """The merge that a process had uploaded whole when it died."""
    faulty = FaultyBucket(lake.bucket)
    process = lake.process(faulty, shard=shard, seed=seed)
    process.look()

    def die(call: Call) -> None:
        if call.method == "put_if_absent" and call.key.startswith("a/index/0"):
            raise Killed(call)

    before = list_directories(lake.place("a")).directories.keys()
    faulty.before.append(die)
    with pytest.raises(Killed):
        process.turn("a", COMPACT)
    [ulid] = list_directories(lake.place("a")).directories.keys() - before
    return ulid


def committed_as(lake: Tended, ulid: str) -> str | None:
    """The role in which the block was committed."""
    entries = lake.table("a").log.entries()
    return next(one.role for one in entries if ulid in {block.meta.ulid for block in one.add})


def test_what_a_dead_shard_had_uploaded_is_committed_by_its_successor_and_by_no_other(
    tmp_path: Path,
) -> None:
    lake = tended(tmp_path, "abcdef")
    shards = [Shard(number=number, count=2) for number in range(2)]
    left = [left_by(lake, shard, seed=50 + shard.number) for shard in shards]
    whole = lake.process(loops=Schedule(merge=False))
    whole.round()
    assert not set(left) & set(lake.live("a")), "the process that merges nothing resumes nothing"
    engines = [Counting(), Counting()]
    for shard in shards:
        other = left[1 - shard.number]
        before = other in lake.live("a")
        process = lake.process(shard=shard, engine=engines[shard.number], seed=60 + shard.number)
        process.round()
        assert left[shard.number] in lake.live("a")
        assert (other in lake.live("a")) is before, "another shard's is left alone"
        assert process.of("a").totals.resumed == 1
        assert committed_as(lake, left[shard.number]) == shard.role
    assert sum(len(engine.asked) for engine in engines) == 4, "two of six merges were done before"
    assert len(lake.live("a")) == 6
    lake.check()


def test_the_process_without_a_shard_commits_what_any_shard_had_uploaded(tmp_path: Path) -> None:
    lake = tended(tmp_path, "abcdef")
    left = {left_by(lake, Shard(number=number, count=2), seed=50 + number) for number in range(2)}
    process = lake.process()
    process.look()
    process.turn("a", COMPACT)
    assert left <= set(lake.live("a"))
    assert process.of("a").totals.resumed == 2
    lake.check()


def test_a_shard_whose_role_is_taken_while_it_resumes_commits_nothing(tmp_path: Path) -> None:
    lake = tended(tmp_path, "a")
    shard = Shard(number=0, count=1)
    left = left_by(lake, shard, seed=50)
    faulty = FaultyBucket(lake.bucket)
    process = lake.process(faulty, shard=shard, seed=60)
    process.look()
    waiting = [True]

    def overtake(call: Call) -> None:
        if call.method == "put_if_absent" and call.key.startswith("a/index/0") and waiting:
            waiting.clear()
            claim(lake.table("a").log, lake.world, shard.role)

    faulty.before.append(overtake)
    process.turn("a", COMPACT)
    assert isinstance(process.fatal, Fenced)
    assert left not in lake.live("a")
    lake.check()


def test_only_what_the_caller_saw_is_resumed(tmp_path: Path) -> None:
    made = four(tmp_path)
    uploaded(made)
    seen = replace(observe(made.open()), candidates=FewCandidates())
    assert resume(made.open(), seen=seen) == ()
