"""A merge that paused between its second look and the arrival of its meta.json, while a person hid
one of its inputs.

No wait of the person ends such a merge. So the merger looks once more, and so does the process that
hid the block.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from blockstore.care.marks.hiding import Wait
from blockstore.compactor.by_hand import clean_once
from blockstore.compactor.run.report import JobResult, Outcome
from blockstore.errors import Conflict, Unanswered
from blockstore.format.block import BlockMeta
from blockstore.format.marks import MarkReason
from blockstore.format.meta import load_meta
from blockstore.lifecycle.catalog import Catalog
from blockstore.lifecycle.mark import place_deletion, withdraw_deletion
from blockstore.lifecycle.undo_merge import take_away
from blockstore.names import META, deletion_mark_key, meta_key
from blockstore.world import World
from tests.compactor.plain import DEFINITION, DELETE_S, SYNC_S, Plain, plain
from tests.compactor.run.test_hidden import Lagging, hide, marker_of, of_delays, rows_of
from tests.compactor.scene import small_chunks
from tests.support.faulty import Call, FaultyBucket
from tests.support.tally import tally

PROPERTIES = DEFINITION.properties


@pytest.fixture(autouse=True)
def blocks_of_two_chunks() -> Iterator[None]:
    with small_chunks():
        yield


def is_completion(call: Call) -> bool:
    return call.method == "put" and call.key.endswith(f"/{META}")


def compacted(
    made: Plain,
    *,
    before: Callable[[], object] | None = None,
    after: Callable[[], object] | None = None,
) -> JobResult:
    """The first merge of a pass that pauses before, or after, the PUT of its meta.json, while
    something happens."""
    faulty = FaultyBucket(made.bucket)
    waiting = [True]

    def stand_still(call: Call, act: Callable[[], object]) -> None:
        if is_completion(call) and waiting:
            waiting.clear()
            act()

    if before is not None:
        faulty.before.append(lambda call: stand_still(call, before))
    if after is not None:
        faulty.after.append(lambda call: stand_still(call, after))
    return made.compact(faulty, seed=7).results[0]


def merges_of(made: Plain, ulid: str) -> list[str]:
    return [meta.ulid for meta in made.merges() if ulid in meta.sources]


class Withheld(FaultyBucket):
    """Takes the first meta.json for the network's to deliver; its writer dies."""

    key = ""
    data = b""

    def put(self, key: str, data: bytes) -> str:
        if not key.endswith(f"/{META}") or self.key:
            return super().put(key, data)
        self.key, self.data = key, data
        raise SystemExit


def on_its_way(made: Plain) -> Callable[[], BlockMeta]:
    """A merge of all blocks whose process died, and whose meta.json arrives when this is called."""
    withheld = Withheld(made.bucket)
    with pytest.raises(SystemExit):
        made.compact(withheld, seed=7)

    def arrive() -> BlockMeta:
        made.bucket.put(withheld.key, withheld.data)
        return load_meta(made.bucket, withheld.key.partition("/")[0])

    return arrive


def stays_hidden(made: Plain, writer: str = "a") -> None:
    """For four days, with passes of compactors in between; no other row is lost."""
    for _ in range(4):
        found = made.found()
        assert sum(count for (its, _), count in found.items() if its == writer) == 0
        assert found == {row: count for row, count in made.expected.items() if row[0] != writer}
        made.compact()
        clean_once(made.open(seed=8))
        made.age(24 * 3600 + 1)


def test_a_merge_that_arrives_once_its_input_is_hidden_is_taken_away_by_its_merger(
    tmp_path: Path,
) -> None:
    made = plain(tmp_path, "a", "b", "c")
    victim = sorted(made.metas())[0]
    result = compacted(made, before=lambda: hide(made, victim))
    assert result.outcome is Outcome.CONFLICT
    assert result.problem is not None
    assert f"rows of source {victim} were hidden or removed while their merge" in result.problem
    assert merges_of(made, victim) == []
    stays_hidden(made)


def test_a_merge_that_arrives_once_its_hidden_input_is_removed_is_taken_away(
    tmp_path: Path,
) -> None:
    made = plain(tmp_path, "a", "b", "c")
    victim = sorted(made.metas())[0]

    def hide_and_remove() -> None:
        hide(made, victim)
        made.age(DELETE_S)
        clean_once(made.open(seed=8))
        assert victim not in made.metas()

    compacted(made, before=hide_and_remove)
    assert merges_of(made, victim) == []
    stays_hidden(made)


def test_a_merge_that_arrives_once_another_of_the_same_rows_is_hidden_is_taken_away(
    tmp_path: Path,
) -> None:
    """Its inputs are not hidden themselves: they are merged."""
    made = plain(tmp_path, "a", "b")

    def merge_and_hide() -> None:
        made.compact(seed=5)
        made.age()
        [other] = made.merges()
        hide(made, other.ulid)

    compacted(made, before=merge_and_hide)
    assert len(made.merges()) == 1
    for _ in range(4):
        assert not made.found()
        made.compact()
        clean_once(made.open(seed=8))
        made.age(24 * 3600 + 1)


def test_a_hidden_block_that_no_reader_would_read_takes_no_merge_away(tmp_path: Path) -> None:
    """A second upload of the same rows, given up and hidden: the first is what is read, before and
    after its merge."""
    made = plain(tmp_path, "a", "b")
    first = sorted(made.metas())[0]
    second = made.merge([first]).block
    assert second is not None
    place_deletion(made.bucket, made.world, second, MarkReason.MANUAL, "a second copy")
    made.age()
    assert made.found() == made.expected
    assert made.compact(seed=5).results[0].outcome is Outcome.UPLOADED
    for _ in range(4):
        made.age(24 * 3600 + 1)
        clean_once(made.open(seed=8))
        assert made.found() == made.expected
    assert sorted(made.metas()) == [one.ulid for one in made.merges()]


def test_where_listings_lag_an_input_is_looked_up_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = Lagging(World.manual().clock)
    made = of_delays(tmp_path, monkeypatch, bucket, consistency="eventual")
    victim = sorted(made.metas())[0]

    def mark_without_a_trace() -> None:
        place_deletion(made.bucket, made.world, victim, MarkReason.MANUAL)
        bucket.lags = True

    assert compacted(made, before=mark_without_a_trace).outcome is Outcome.CONFLICT
    bucket.lags = False
    assert merges_of(made, victim) == []
    stays_hidden(made)


def test_a_merge_by_which_its_inputs_were_removed_stays(tmp_path: Path) -> None:
    """A merge that paused after the PUT finds its inputs gone because of the merge itself."""
    made = plain(tmp_path, "a", "b", "c")

    def outlive() -> None:
        for _ in range(3):
            made.age(DELETE_S)
            clean_once(made.open(seed=8))
        assert [meta.level for meta in made.metas().values()] == [2]

    result = compacted(made, after=outlive)
    assert result.outcome is Outcome.UPLOADED
    assert made.found() == made.expected


def test_a_merge_that_counts_when_its_input_is_hidden_is_named(tmp_path: Path) -> None:
    made = plain(tmp_path, "a", "b", "c")
    victim = sorted(made.metas())[0]

    def stand_still() -> None:
        made.age()
        place_deletion(made.bucket, made.world, victim, MarkReason.MANUAL)

    result = compacted(made, after=stand_still)
    [merge] = made.merges()
    assert result.outcome is Outcome.CONFLICT
    assert f"'blockstore mark memory:// {merge.ulid} --deletion'" in (result.problem or "")
    assert made.found() == made.expected


def test_a_merge_whose_process_died_is_taken_away_by_the_hiding(tmp_path: Path) -> None:
    made = plain(tmp_path, "a", "b", "c")
    victim = sorted(made.metas())[0]
    arrive = on_its_way(made)
    waits = itertools.count(1)
    hide(made, victim, lambda _: arrive() if next(waits) == 2 else None)
    assert next(waits) == 3, "it arrived in the second wait"
    assert merges_of(made, victim) == []
    stays_hidden(made)


def test_a_merge_that_arrives_between_the_look_and_the_mark_is_taken_away(tmp_path: Path) -> None:
    made = plain(tmp_path, "a", "b", "c")
    victim = sorted(made.metas())[0]
    arrive = on_its_way(made)
    faulty = FaultyBucket(made.bucket)
    arrived: list[BlockMeta] = []

    def overtake(call: Call) -> None:
        if call.key == deletion_mark_key(victim) and call.writes and not arrived:
            arrived.append(arrive())

    faulty.before.append(overtake)
    marker_of(made, faulty).delete(victim)
    assert len(arrived) == 1
    assert merges_of(made, victim) == []
    stays_hidden(made)


def test_a_hiding_that_finds_a_merge_that_counts_reports_it(tmp_path: Path) -> None:
    made = plain(tmp_path, "a", "b", "c")
    victim = sorted(made.metas())[0]
    arrive = on_its_way(made)
    waits = itertools.count(1)

    def stand_still(_: Wait) -> None:
        if next(waits) == 2:
            arrive()
            made.age()

    with pytest.raises(Conflict, match=r"it is already read.* --deletion"):
        hide(made, victim, stand_still)
    assert rows_of(made, "a") == 4


def test_a_hiding_reports_a_mark_that_went_meanwhile(tmp_path: Path) -> None:
    """The withdrawal of an older mark is two requests, and its DELETE may come late (R8)."""
    made = plain(tmp_path, "a", "b")
    victim = sorted(made.metas())[0]
    waits = itertools.count(1)

    def withdraw(_: Wait) -> None:
        if next(waits) == 2:
            withdraw_deletion(made.bucket, made.world, victim)

    with pytest.raises(Conflict, match="its mark is gone"):
        hide(made, victim, withdraw)
    assert rows_of(made, "a") == 4
    assert hide(made, victim).changed
    assert rows_of(made, "a") == 0


@pytest.mark.parametrize("reason", [MarkReason.SUPERSEDED, MarkReason.PARTIAL])
def test_a_merge_whose_rows_no_other_block_is_sure_to_keep_stays(
    tmp_path: Path, reason: MarkReason
) -> None:
    made = plain(tmp_path, "a", "b")
    victim, other = sorted(made.metas())
    merge = on_its_way(made)()
    place_deletion(made.bucket, made.world, victim, MarkReason.MANUAL)
    place_deletion(made.bucket, made.world, other, reason)
    why = take_away(
        Catalog(made.bucket, made.world), made.bucket, made.world, PROPERTIES, merge, [victim]
    )
    assert f"source {other} is not accounted for" in (why or "")
    assert [meta.ulid for meta in made.merges()] == [merge.ulid]


def test_a_merge_is_not_taken_away_by_an_old_look(tmp_path: Path) -> None:
    made = plain(tmp_path, "a", "b")
    victim = sorted(made.metas())[0]
    merge = on_its_way(made)()
    place_deletion(made.bucket, made.world, victim, MarkReason.MANUAL)
    faulty = FaultyBucket(made.bucket)
    faulty.after.append(lambda call: made.age(300) if call.method == "list" else None)
    why = take_away(Catalog(faulty, made.world), faulty, made.world, PROPERTIES, merge, [victim])
    assert "more than 300 s after the look" in (why or "")
    assert [meta.ulid for meta in made.merges()] == [merge.ulid]


def test_a_lost_response_at_any_call_of_taking_away_is_looked_up(tmp_path: Path) -> None:
    ready = plain(tmp_path, "a", "b")
    victim = sorted(ready.metas())[0]
    arrive = on_its_way(ready)
    merge = arrive()
    place_deletion(ready.bucket, ready.world, victim, MarkReason.MANUAL)
    for number in range(1, 50):
        made = ready.copy()
        tally("crash points")
        faulty = FaultyBucket(made.bucket, lose_answer=[number])
        why = take_away(
            Catalog(faulty, made.world), faulty, made.world, PROPERTIES, merge, [victim]
        )
        assert (why, made.merges()) == (None, []), number
        if len(faulty.calls) < number:
            return
    raise AssertionError("there are more calls than this")


def test_a_delete_that_was_not_applied_is_sent_again(tmp_path: Path) -> None:
    made = plain(tmp_path, "a", "b")
    victim = sorted(made.metas())[0]
    merge = on_its_way(made)()
    place_deletion(made.bucket, made.world, victim, MarkReason.MANUAL)
    faulty = FaultyBucket(made.bucket)
    refused: list[Call] = []

    def refuse(call: Call) -> None:
        if call.key == meta_key(merge.ulid) and call.writes and not refused:
            refused.append(call)
            raise Unanswered("it never arrived")

    faulty.before.append(refuse)
    assert (
        take_away(Catalog(faulty, made.world), faulty, made.world, PROPERTIES, merge, [victim])
        is None
    )
    assert (len(refused), made.merges()) == (1, [])


def test_at_whatever_call_a_compactor_sleeps_a_block_that_was_hidden_meanwhile_stays_hidden(
    tmp_path: Path,
) -> None:
    ready = plain(tmp_path, "a", "b", "c")
    victim = sorted(ready.metas())[0]
    counting = FaultyBucket(ready.copy().bucket)
    whole = ready.copy()
    whole.compact(counting)
    for number in range(1, len(counting.calls) + 1):
        made = ready.copy()
        tally("crash points")
        faulty = FaultyBucket(made.bucket)
        outcomes: list[bool] = []

        def sleep(
            call: Call, number: int = number, made: Plain = made, outcomes: list[bool] = outcomes
        ) -> None:
            if call.number != number:
                return
            try:
                hide(made, victim)
            except Conflict:
                outcomes.append(False)
            else:
                outcomes.append(True)

        faulty.before.append(sleep)
        made.compact(faulty)
        made.age(SYNC_S)
        assert rows_of(made, "a") == (0 if outcomes == [True] else 4), number
