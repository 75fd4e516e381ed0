"""Tags: names, immutability, and every order of a tag and a collector (protocol 3.5)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

import pytest

from blockstore.bucket.api import Bucket
from blockstore.bucket.memory import MemoryBucket
from blockstore.errors import (
    BlockstoreError,
    Conflict,
    Corrupt,
    Indeterminate,
    Invalid,
    NotFound,
    Unanswered,
    Unavailable,
    VersionExpired,
)
from blockstore.index import checkpoint_write
from blockstore.index import tags as tags_module
from blockstore.index.boundary import Boundary
from blockstore.index.change import Untag
from blockstore.index.checkpoint import encode_checkpoint
from blockstore.index.checkpoint_write import Written, pin_checkpoint
from blockstore.index.gc import collect
from blockstore.index.log import Log, create
from blockstore.index.reachable import Kept
from blockstore.index.state import State
from blockstore.index.tags import MAX_TAG, tag, untag
from blockstore.names import BOUNDARY, HINT, checkpoint_key, entry_key
from blockstore.world import World
from tests.blockstore.index.test_gc_crash import Run, look
from tests.support.faulty import Call, FaultyBucket, Killed
from tests.support.index_data import append, ulid
from tests.support.interleave import interleave, requests_of, schedules
from tests.support.put_back import copy_of, put_back
from tests.support.tally import tally

WHOLE: Callable[[object], str | None] = lambda blocks: None  # noqa: E731


@pytest.fixture
def grown(log: Log) -> Log:
    """Versions 1 to 11."""
    for number in range(100, 110):
        log.commit(append(number))
    return log


def grow_old(world: World, log: Log) -> None:
    """Everything so far grows old, so that the collector may take it."""
    world.clock.sleep(49 * 3600)
    log.commit(append(800))


def age(world: World, log: Log) -> None:
    """Everything so far grows old, and the collector takes it."""
    grow_old(world, log)
    collect(log, world)


def test_a_tagged_version_reads_the_same_after_its_entries_are_gone(
    bucket: MemoryBucket, world: World, grown: Log
) -> None:
    states = {version: grown.at(version) for version in (1, 5, 11)}
    assert tag(grown, world, "first", 1) == 1
    assert tag(grown, world, "Q3 close, §5 – ü", 5, "for the auditors") == 5
    assert tag(grown, world, "newest") == 13
    age(world, grown)
    fresh = Log(bucket, world)
    assert fresh.tagged("first") == fresh.at(1) == states[1]
    assert fresh.tagged("Q3 close, §5 – ü") == fresh.at(5) == states[5]
    assert fresh.tagged("newest").version == 13
    with pytest.raises(
        VersionExpired, match=r"version 11 .* oldest version left is 14, the latest 15"
    ):
        fresh.at(11)


def test_the_message_and_the_operation_stand_in_the_entry(world: World, grown: Log) -> None:
    tag(grown, world, "q3", 5, "for the auditors")
    untag(grown, world, "q3", "done")
    entries = list(grown.entries())[-2:]
    assert [(one.operation, one.message, one.tags) for one in entries] == [
        ("tag", "for the auditors", {"q3": 5}),
        ("untag", "done", {"q3": None}),
    ]


def test_a_tag_costs_a_checkpoint_and_leaves_the_hint_alone(
    bucket: MemoryBucket, world: World, grown: Log
) -> None:
    tag(grown, world, "q3", 5)
    assert checkpoint_key(5) in {info.key for info in bucket.list()}
    assert HINT not in {info.key for info in bucket.list()}


@pytest.mark.parametrize(
    "name",
    ["", "x" * (MAX_TAG + 1), "a/b", "12", "٣", "a\nb", "\x7f", " a", "a ", "\ud800", None, 7],
)
def test_a_name_that_cannot_be_one_is_invalid_and_changes_nothing(
    bucket: MemoryBucket, world: World, grown: Log, name: str
) -> None:
    for act in (lambda: tag(grown, world, name, 5), lambda: untag(grown, world, name)):
        with pytest.raises(Invalid, match="tag"):
            act()
    assert grown.poll().version == 11
    assert checkpoint_key(5) not in {info.key for info in bucket.list()}


@pytest.mark.parametrize("name", ["a", "x" * MAX_TAG, "2024-Q3", "v1.2", "release candidate"])
def test_other_names_are_names(world: World, grown: Log, name: str) -> None:
    assert tag(grown, world, name, 3) == 3


def test_a_message_that_is_too_long_is_invalid(world: World, grown: Log) -> None:
    with pytest.raises(Invalid, match="message"):
        tag(grown, world, "q3", 3, "x" * 10_001)


def test_a_tag_never_moves_and_a_name_is_free_after_untag(world: World, grown: Log) -> None:
    tag(grown, world, "q3", 5)
    with pytest.raises(Conflict, match=r"'q3' names version 5, not 6: untag it first"):
        tag(grown, world, "q3", 6)
    untag(grown, world, "q3")
    assert tag(grown, world, "q3", 6) == 6
    assert grown.tagged("q3").version == 6


def test_the_same_tag_again_changes_nothing(bucket: MemoryBucket, world: World, grown: Log) -> None:
    tag(grown, world, "q3", 5)
    before = grown.state.version
    assert tag(Log(bucket, world), world, "q3", 5) == 5
    assert grown.poll().version == before
    age(world, grown)
    before = grown.state.version
    assert tag(grown, world, "q3", 5) == 5, "also once its entries are gone"
    assert grown.poll().version == before


def test_untag_lets_the_version_go(bucket: MemoryBucket, world: World, grown: Log) -> None:
    tag(grown, world, "q3", 5)
    age(world, grown)
    untag(grown, world, "q3")
    assert grown.state.tags == {}
    with pytest.raises(VersionExpired):
        grown.at(5)
    collect(grown, world)
    assert checkpoint_key(5) not in {info.key for info in bucket.list()}


def test_what_is_not_there_is_not_found_and_named(world: World, grown: Log) -> None:
    with pytest.raises(NotFound, match="no tag 'q3' at version 11, its tags: none"):
        untag(grown, world, "q3")
    tag(grown, world, "b", 5)
    tag(grown, world, "a", 6)
    for act in (lambda: untag(grown, world, "q3"), lambda: grown.tagged("q3")):
        with pytest.raises(NotFound, match="no tag 'q3' at version 13, its tags: 'a', 'b'"):
            act()
    for version in (0, -1, 14):
        with pytest.raises(NotFound, match=f"no version {version}, expected one from 1 to 13"):
            tag(grown, world, "q3", version)


def test_a_tag_that_others_have_set_is_found(
    bucket: MemoryBucket, world: World, grown: Log
) -> None:
    reader = Log(bucket, world)
    assert reader.state.version == 11
    tag(grown, world, "q3", 5)
    assert reader.tagged("q3").version == 5
    stale = Log(bucket, world)
    assert stale.state.tags == {"q3": 5}
    tag(grown, world, "q4", 6)
    age(world, grown)
    assert stale.at(6).version == 6, "its state knows nothing of the tag that keeps it"


def test_an_expired_version_cannot_be_tagged(
    bucket: MemoryBucket, world: World, grown: Log
) -> None:
    age(world, grown)
    with pytest.raises(
        VersionExpired, match="version 5 of memory:// was collected; the oldest version left is 11"
    ):
        tag(grown, world, "q3", 5)
    assert grown.poll().tags == {}
    assert checkpoint_key(5) not in {info.key for info in bucket.list()}


def test_a_version_that_another_tag_pins_can_be_tagged_if_its_blocks_are_whole(
    bucket: MemoryBucket, world: World, grown: Log
) -> None:
    tag(grown, world, "a", 5)
    age(world, grown)
    seen: list[list[str]] = []

    def whole(blocks: object) -> str | None:
        seen.append([meta.ulid for meta in blocks])  # type: ignore[attr-defined]
        assert "b" in Log(bucket, world).state.tags, "they are looked at after the commit"
        return None

    assert tag(grown, world, "b", 5, look=whole) == 5
    assert seen == [grown.tagged("b").blocks.ulids()]
    untag(grown, world, "a")
    collect(grown, world)
    assert Log(bucket, world).tagged("b").version == 5


@pytest.mark.parametrize(
    ("looked", "why"),
    [(lambda blocks: "block X: it is marked for deletion", "marked"), (None, "were not checked")],
)
def test_a_version_that_another_tag_pins_is_not_tagged_if_a_block_may_go(
    bucket: MemoryBucket,
    world: World,
    grown: Log,
    looked: Callable[[object], str | None] | None,
    why: str,
) -> None:
    tag(grown, world, "a", 5)
    age(world, grown)
    with pytest.raises(VersionExpired, match=f"version 5 .*; tag 'b' was not kept: .*{why}"):
        tag(grown, world, "b", 5, look=looked)
    assert Log(bucket, world).state.tags == {"a": 5}
    assert grown.tagged("a").version == 5


def test_a_tag_that_comes_too_late_is_taken_away_again(
    bucket: MemoryBucket, world: World, grown: Log
) -> None:
    grow_old(world, grown)
    faulty = FaultyBucket(bucket)

    def overtake(call: Call) -> None:
        if call.method == "put_if_absent" and call.key == entry_key(13):
            faulty.before.remove(overtake)
            collect(grown, world)

    faulty.before.append(overtake)
    late = Log(faulty, world)
    late.poll()
    with pytest.raises(
        VersionExpired,
        match="the boundary had reached 10, and no tag has pinned the version for half a "
        "delete_delay",
    ):
        tag(late, world, "q3", 5, look=WHOLE)
    fresh = Log(bucket, world)
    assert [one.operation for one in fresh.entries()][-2:] == ["tag", "untag"]
    assert fresh.state.tags == {}


def test_a_tag_that_comes_too_late_leaves_the_one_in_a_copy_that_was_put_back(
    bucket: MemoryBucket, world: World, grown: Log
) -> None:
    tag(grown, world, "q3", 5)
    copy = copy_of(bucket)
    untag(grown, world, "q3")
    faulty = FaultyBucket(bucket)

    def overtake(call: Call) -> None:
        if call.key == BOUNDARY and "q3" in Log(bucket, world).state.tags:
            faulty.before.remove(overtake)
            put_back(bucket, copy)
            age(world, Log(bucket, world))

    faulty.before.append(overtake)
    late = Log(faulty, world)
    late.poll()
    with pytest.raises(Indeterminate, match="history"):
        tag(late, world, "q3", 5, look=lambda blocks: "a block is marked")
    assert not faulty.before
    fresh = Log(bucket, world)
    assert fresh.state.tags == {"q3": 5}
    assert fresh.tagged("q3").version == 5


def test_a_tag_that_was_taken_away_in_between_pins_nothing(
    bucket: MemoryBucket, world: World, grown: Log
) -> None:
    """The first look finds the version pinned; just before the second tag's entry it is not."""
    tag(grown, world, "a", 5)
    age(world, grown)
    faulty = FaultyBucket(bucket)

    def take_away(call: Call) -> None:
        if call.method == "put_if_absent" and call.key.startswith("index/0"):
            faulty.before.remove(take_away)
            untag(grown, world, "a")

    faulty.before.append(take_away)
    with pytest.raises(VersionExpired, match="no tag has pinned the version"):
        tag(Log(faulty, world), world, "b", 5, look=WHOLE)
    assert Log(bucket, world).state.tags == {}


def test_a_tag_whose_boundary_cannot_be_read_is_indeterminate_and_found_out_by_tagging_again(
    bucket: MemoryBucket, world: World, grown: Log
) -> None:
    faulty = FaultyBucket(bucket)
    late = Log(faulty, world)
    late.poll()
    committed: list[Call] = []

    def lose(call: Call) -> None:
        if call.key == BOUNDARY and "q3" in Log(bucket, world).state.tags:
            committed.append(call)
            if len(committed) == 2:
                raise Unavailable("no answer")

    faulty.before.append(lose)
    with pytest.raises(Indeterminate, match=r"'q3' was set on version 5, .* tag it again") as info:
        tag(late, world, "q3", 5)
    assert info.value.entry == 12
    faulty.before.clear()
    assert tag(late, world, "q3", 5) == 5


def test_a_tag_that_cannot_be_taken_away_says_so(
    bucket: MemoryBucket, world: World, grown: Log
) -> None:
    grow_old(world, grown)
    faulty = FaultyBucket(bucket)

    def overtake(call: Call) -> None:
        if call.method == "put_if_absent" and call.key == entry_key(13):
            faulty.before.remove(overtake)
            collect(grown, world)
            faulty.before.append(silent)

    def silent(call: Call) -> None:
        if call.method == "put_if_absent" and "q3" in Log(bucket, world).state.tags:
            raise Unanswered("lost")

    faulty.before.append(overtake)
    late = Log(faulty, world, patience_s=1)
    with pytest.raises(
        Indeterminate, match=r"'q3' is set on version 5, which was collected, .* untag it"
    ):
        tag(late, world, "q3", 5)
    assert Log(bucket, world).state.tags == {"q3": 5}


def test_a_tag_whose_process_died_before_its_check_is_told_so_when_it_is_set_again(
    bucket: MemoryBucket, world: World, grown: Log
) -> None:
    grow_old(world, grown)
    faulty = FaultyBucket(bucket)

    def overtake(call: Call) -> None:
        if call.method == "put_if_absent" and call.key == entry_key(13):
            faulty.before.remove(overtake)
            collect(grown, world)

    def die(call: Call) -> None:
        if call.key == BOUNDARY and "q3" in Log(bucket, world).state.tags:
            raise Killed(call)

    faulty.before += [overtake, die]
    with pytest.raises(Killed):
        tag(Log(faulty, world), world, "q3", 5)
    collect(Log(bucket, world), world)
    grown.poll()
    bucket.delete([checkpoint_key(5)])  # as a collector does that read the state before the tag
    with pytest.raises(Corrupt, match="'q3' pins version 5: restore it from a copy, or untag"):
        grown.tagged("q3")
    with pytest.raises(Corrupt, match="untag"):
        Kept(grown).look()
    with pytest.raises(BlockstoreError, match="untag"):
        tag(grown, world, "q3", 5, look=WHOLE)
    untag(grown, world, "q3")
    Kept(grown).look()


def tagging(run: Run, *, opens: bool = False) -> Callable[[Bucket], object]:
    """Version 5, old enough to be collected, gets a tag; by a handle that knows the newest version,
    or ``opens`` the table itself."""

    def work(bucket: Bucket) -> object:
        log = Log(bucket, run.world)
        if not opens:
            log._state = run.filled.states[9]
        return tag(log, run.world, "late", 5)

    return work


def collecting(run: Run, *, opens: bool = False) -> Callable[[Bucket], object]:
    def work(bucket: Bucket) -> object:
        log = Log(bucket, run.world)
        if not opens:
            log._state = run.filled.states[9]
        return collect(log, run.world)

    return work


def judge(run: Run, answer: object) -> None:
    """A tag that was acknowledged reads as it was, now and after the next pass; one that was not is
    gone."""
    if isinstance(answer, int):
        run.tags["late"] = 5
    else:
        assert isinstance(answer, VersionExpired), answer
        assert "late" not in Log(run.bucket, run.world).state.tags
    run.check(collected=False)
    run.recover()
    run.check()
    named = Kept(Log(run.bucket, run.world)).look()
    if isinstance(answer, int):
        assert all(map(named.names, run.filled.states[5].blocks.ulids()))


def every_order(
    switches: int, begin: Callable[[], Run] = Run, *, opens: bool = False, stride: int = 1
) -> dict[str, int]:
    """Judge each ``stride``-th order of a tag and a collector; count how the tags ended."""
    works = {"tag": partial(tagging, opens=opens), "collect": partial(collecting, opens=opens)}
    lengths = [
        (name, len(requests_of((run := begin()).bucket, work(run)))) for name, work in works.items()
    ]
    counts = {"kept": 0, "expired": 0}
    for schedule in itertools.islice(schedules(*lengths, switches), None, None, stride):
        run = begin()
        answers = interleave(
            run.bucket, {name: work(run) for name, work in works.items()}, schedule
        )
        try:
            assert not isinstance(answers["collect"], BaseException), answers["collect"]
            judge(run, answers["tag"])
        except (AssertionError, BlockstoreError) as error:
            raise AssertionError(f"a tag and a collector under {schedule}") from error
        counts["kept" if answers["tag"] == 5 else "expired"] += 1
    tally("schedules", sum(counts.values()))
    return counts


@pytest.mark.slow
@pytest.mark.usefixtures("decoded_once")
def test_a_tag_and_a_collector_in_every_order_keep_the_version_or_say_that_it_expired() -> None:
    counts = every_order(2)
    assert counts["kept"] > 50
    assert counts["expired"] > 50


@pytest.mark.usefixtures("decoded_once")
@pytest.mark.parametrize("plant", ["no check", "check before"])
def test_a_tag_without_its_check_is_caught(monkeypatch: pytest.MonkeyPatch, plant: str) -> None:
    """Committed and believed; or the boundary is looked at before the commit and not after it."""

    def looking(bucket: Bucket, state: State) -> Written:
        written = pin_checkpoint(bucket, state)
        if Boundary(bucket, World.manual()).read() >= state.version:
            raise VersionExpired("looked before the commit")
        return written

    monkeypatch.setattr(tags_module, "_why_lost", lambda *looked: None)
    if plant == "check before":
        monkeypatch.setattr(checkpoint_write, "pin_checkpoint", looking)
    with pytest.raises(AssertionError, match="a tag and a collector under"):
        every_order(2)


@pytest.mark.usefixtures("decoded_once")
def test_every_crash_of_a_tag_keeps_the_version_or_leaves_a_tag_that_says_so() -> None:
    tried = 0
    calls = len(requests_of((run := Run()).bucket, tagging(run)))
    for fault in ("kill_before", "kill_after", "lose_answer"):
        for overtaken in (False, True):
            for k in range(1, calls + 1):
                run = Run()
                faulty = FaultyBucket(run.bucket, **{fault: {k} if fault == "lose_answer" else k})  # type: ignore[arg-type]

                def overtake(
                    call: Call, run: Run = run, k: int = k, overtaken: bool = overtaken
                ) -> None:
                    if overtaken and call.number == k:
                        run.recover()

                faulty.before.append(overtake)
                answer: object
                try:
                    answer = tagging(run)(faulty)
                except (Killed, Unavailable, Indeterminate) as error:
                    answer = error
                except VersionExpired as error:
                    answer = error
                finish(run, answer)
                tried += 1
    tally("crash points", tried)


def finish(run: Run, answer: object) -> None:
    """What the next process does where no response came: it sets the tag again."""
    log = Log(run.bucket, run.world)
    try:
        again: object = tag(log, run.world, "late", 5, look=WHOLE)
    except (VersionExpired, Corrupt) as error:
        again = error
    if isinstance(answer, int):
        assert again == 5, again
    if not isinstance(again, int) and "late" in log.poll().tags:
        untag(log, run.world, "late")
    judge(run, again if isinstance(again, int) else VersionExpired("expired"))
    assert look(log.at(9)) == look(run.filled.states[9])


def test_untag_takes_away_only_what_it_was_told_to(world: World, grown: Log) -> None:
    tag(grown, world, "q3", 5)
    assert grown.commit(Untag(commit=ulid(900), name="q3", version=6)).version is None
    assert grown.poll().tags == {"q3": 5}


def test_a_checkpoint_that_another_history_left_is_not_tagged(
    bucket: MemoryBucket, world: World, log: Log
) -> None:
    """It would be all that is left of the version, once the entries are collected."""
    former = create(MemoryBucket(world.clock), world, log.state.definition)
    for number in range(3):
        former.commit(append(300 + number))
        log.commit(append(100 + number))
    bucket.put(checkpoint_key(3), encode_checkpoint(former.at(3)))
    with pytest.raises(Corrupt, match="no tag was set: 'blockstore repair"):
        tag(log, world, "q", 3)
    assert log.poll().tags == {}


def test_a_young_pin_proves_nothing_and_an_old_one_does(
    bucket: MemoryBucket, world: World, grown: Log
) -> None:
    """A collector that read the state before the first tag may still delete the checkpoint: it
    stalls no longer than half a delete_delay."""
    grow_old(world, grown)
    faulty = FaultyBucket(bucket)
    stalled = FaultyBucket(bucket)

    def overtake(call: Call) -> None:
        if call.method == "put_if_absent" and call.key == entry_key(13):
            faulty.before.remove(overtake)
            with pytest.raises(Killed):
                collect(Log(stalled, world), world)

    def stall(call: Call) -> None:
        if call.method == "delete":
            raise Killed(call)

    def die(call: Call) -> None:
        if call.key == BOUNDARY and "q3" in Log(bucket, world).state.tags:
            raise Killed(call)

    stalled.before.append(stall)
    faulty.before += [overtake, die]
    with pytest.raises(Killed):
        tag(Log(faulty, world), world, "q3", 5)
    with pytest.raises(
        VersionExpired, match="no tag has pinned the version for half a delete_delay"
    ):
        tag(Log(bucket, world), world, "second", 5, look=WHOLE)
    assert list(Log(bucket, world).state.tags) == ["q3"]
    world.clock.sleep(grown.state.definition.properties.delete_delay_s / 2 + 1)
    assert tag(Log(bucket, world), world, "second", 5, look=WHOLE) == 5
    assert Log(bucket, world).tagged("second").version == 5
