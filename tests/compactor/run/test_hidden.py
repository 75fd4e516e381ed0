"""A person hides a block of a table without an index while it is being merged: its rows do not
reappear.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from blockstore.bucket.api import Bucket, ObjectInfo
from blockstore.bucket.memory import MemoryBucket
from blockstore.care.marks import Marked, Marker, MarkKind
from blockstore.care.marks.hiding import OnWait, Wait
from blockstore.compactor.by_hand import clean_once
from blockstore.errors import Conflict
from blockstore.format.properties import Properties
from blockstore.lifecycle.mark import withdraw_no_compact
from blockstore.lifecycle.second_look import merges_settle_s
from blockstore.names import META, no_compact_mark_key
from blockstore.world import World
from tests.compactor import plain as module
from tests.compactor.plain import DEFINITION, SYNC_S, Plain, plain
from tests.compactor.scene import small_chunks
from tests.support.faulty import Call, FaultyBucket
from tests.support.tally import tally


@pytest.fixture(autouse=True)
def blocks_of_two_chunks() -> Iterator[None]:
    with small_chunks():
        yield


def marker_of(made: Plain, bucket: Bucket | None = None) -> Marker:
    table = made.open(bucket, seed=9)
    lagging = isinstance(made.bucket, Lagging)
    properties = (
        Properties.parse({"consistency": "eventual", "sync_delay": "5m"})
        if lagging
        else DEFINITION.properties
    )
    return Marker(
        bucket=table.bucket,
        world=table.world,
        log=None,
        properties=properties,
        catalog=table.catalog,
    )


def hide(made: Plain, ulid: str, on_wait: OnWait = lambda _: None) -> Marked:
    return marker_of(made).delete(ulid, "not ours", on_wait)


def begin_to_hide(made: Plain, ulid: str) -> None:
    """What is done before the first wait."""
    marker_of(made).keep_from_merges(ulid, "not ours")


def merges_known_ms(made: Plain, ulid: str) -> int:
    placed_ms = made.bucket.head(no_compact_mark_key(ulid)).modified_ms
    return placed_ms + round(merges_settle_s(marker_of(made).properties) * 1000)


def rows_of(made: Plain, writer: str) -> int:
    return sum(count for (its, _), count in made.found().items() if its == writer)


def hidden_at_last(made: Plain, ulid: str) -> bool:
    """Continue; whether the block was hidden, and not refused because of a merge with its
    rows."""
    begin_to_hide(made, ulid)  # it may have begun already
    made.age((merges_known_ms(made, ulid) - made.bucket.now_ms()) / 1000)
    merges = [meta.ulid for meta in made.merges() if ulid in meta.sources]
    if not merges:
        hide(made, ulid)
        return True
    with pytest.raises(Conflict, match=f"{merges[0]} --deletion"):
        hide(made, ulid)
    return False


def at_call(number: int, act: Callable[[], object]) -> Callable[[Call], None]:
    def at(call: Call) -> None:
        if call.number == number:
            act()

    return at


def merged_with(made: Plain, number: int, act: Callable[[], object]) -> FaultyBucket:
    """A pass of a compactor, behind whose call ``number`` somebody acts; 0 for before the first."""
    faulty = FaultyBucket(made.bucket)
    if number:
        faulty.after.append(at_call(number, act))
    else:
        faulty.before.append(at_call(1, act))
    made.compact(faulty)
    return faulty


def test_one_call_waits_twice_and_says_so(tmp_path: Path) -> None:
    made = plain(tmp_path, "a", "b", "c")
    victim = sorted(made.metas())[0]
    before_ms = made.bucket.now_ms()
    waited: list[tuple[int, float, int]] = []
    hide(
        made,
        victim,
        lambda one: waited.append((one.until_ms - before_ms, one.seconds, rows_of(made, "a"))),
    )
    assert waited == [(15 * 60_000, 15 * 60, 4), (30 * 60_000, 15 * 60, 0)]
    assert made.bucket.now_ms() == before_ms + 30 * 60_000
    assert "marked for deletion already" in hide(made, victim).summary
    assert made.bucket.now_ms() == before_ms + 30 * 60_000


def test_an_interrupted_hiding_continues_where_it_was(tmp_path: Path) -> None:
    made = plain(tmp_path, "a", "b", "c")
    victim = sorted(made.metas())[0]

    def interrupt(_: Wait) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hide(made, victim, interrupt)
    assert "kept out of merges, and is not hidden yet" in marker_of(made).marks_on(victim)
    assert rows_of(made, "a") == 4
    made.age(SYNC_S)
    with pytest.raises(KeyboardInterrupt):
        hide(made, victim, interrupt)
    assert "is hidden by its mark" in marker_of(made).marks_on(victim)
    assert rows_of(made, "a") == 0
    made.age(60)
    left: list[float] = []
    hide(made, victim, lambda one: left.append(one.seconds))
    assert left == [14 * 60]


def test_a_mark_that_is_withdrawn_meanwhile_is_placed_and_waited_for_again(
    tmp_path: Path,
) -> None:
    made = plain(tmp_path, "a", "b")
    victim = sorted(made.metas())[0]
    begin_to_hide(made, victim)
    first = merges_known_ms(made, victim)
    made.age(600)
    withdraw_no_compact(made.bucket, made.world, victim)
    begin_to_hide(made, victim)
    assert merges_known_ms(made, victim) == first + 600_000


def test_a_block_that_was_merged_is_refused_with_the_merge_and_that_one_hides_its_rows(
    tmp_path: Path,
) -> None:
    made = plain(tmp_path, "a", "b", "c")
    victim = sorted(made.metas())[0]
    made.compact()
    with pytest.raises(Conflict, match="has some of its rows by a merge"):
        hide(made, victim)
    [merge] = made.merges()
    hide(made, merge.ulid)
    assert sum(made.found().values()) == 0
    hide(made, victim)
    assert sum(made.found().values()) == 0


def test_a_block_that_is_hidden_while_it_is_merged_stays_hidden_whenever_that_is(
    tmp_path: Path,
) -> None:
    ready = plain(tmp_path, "a", "b", "c")
    victim = sorted(ready.metas())[0]
    calls = len(merged_with(ready.copy(), -1, lambda: None).calls)
    outcomes = set()
    for number in range(calls + 1):
        made = ready.copy()
        tally("crash points")
        merged_with(made, number, lambda made=made: begin_to_hide(made, victim))  # type: ignore[misc]
        hidden = hidden_at_last(made, victim)
        outcomes.add(hidden)
        for _ in range(3):
            assert rows_of(made, "a") == (0 if hidden else 4), number
            made.age()
            made.compact()
    assert outcomes == {True, False}


def test_a_compactor_that_sleeps_while_a_block_is_hidden_shows_it_no_more(tmp_path: Path) -> None:
    ready = plain(tmp_path, "a", "b", "c")
    victim = sorted(ready.metas())[0]
    whole = merged_with(ready.copy(), -1, lambda: None).calls
    [sent] = [
        call.number
        for call in whole
        if call.method.startswith("put") and call.key.endswith(f"/{META}")
    ]
    for number in range(sent):
        made = ready.copy()
        tally("crash points")
        merged_with(made, number, lambda made=made: hide(made, victim))  # type: ignore[misc]
        for _ in range(3):
            assert rows_of(made, "a") == 0, number
            made.age()
            made.compact()


def of_delays(
    work_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    bucket: MemoryBucket | None = None,
    **delays: str,
) -> Plain:
    """The table of compactors that bring these delays; the person's are the usual ones, but for how
    consistent listings are."""
    properties = Properties.parse(delays)
    monkeypatch.setattr(module, "DEFINITION", replace(DEFINITION, properties=properties))
    made = Plain(work_dir)
    if bucket is not None:
        bucket._clock = made.world.clock
        made.bucket = bucket
    for writer in "abc":
        made.append(writer)
        made.world.clock.sleep(1)
    made.age(properties.sync_delay_s + 301)
    return made


@pytest.mark.parametrize("sync_delay", ["0s", "2s", "1h", "12h"])
def test_it_stays_hidden_whatever_delays_the_compactor_brings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync_delay: str
) -> None:
    made = of_delays(tmp_path, monkeypatch, sync_delay=sync_delay)
    victim = sorted(made.metas())[0]
    whole = merged_with(made.copy(), -1, lambda: None).calls
    sent = next(
        call.number for call in whole if call.method.startswith("put") and call.key.endswith(META)
    )
    again = made.copy()
    merged_with(again, sent - 1, lambda: hide(again, victim))
    for _ in range(3):
        assert rows_of(again, "a") == 0
        again.age(13 * 3600)
        again.compact()


class Lagging(MemoryBucket):
    """Listings show an object up to five minutes late, once they lag."""

    lags = False

    def list(
        self,
        prefix: str = "",
        *,
        start_after: str = "",
        recursive: bool = True,
        at_most: int | None = None,
    ) -> Iterator[ObjectInfo]:
        young_ms = self._clock.now_ms() - (5 * 60 * 1000 - 1)
        for found in super().list(
            prefix, start_after=start_after, recursive=recursive, at_most=at_most
        ):
            if not self.lags or found.modified_ms <= young_ms:
                yield found


@pytest.mark.parametrize("sync_delay", ["5m", "15m"])
@pytest.mark.parametrize("pause_s", [0, 299])
def test_it_stays_hidden_where_listings_lag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync_delay: str, pause_s: int
) -> None:
    bucket = Lagging(World.manual().clock)
    made = of_delays(tmp_path, monkeypatch, bucket, sync_delay=sync_delay, consistency="eventual")
    bucket.lags = True
    victim = sorted(made.metas())[0]
    begin_to_hide(made, victim)
    again_ms = merges_known_ms(made, victim)
    # The latest pass that misses the mark, asleep for as long as it may be between its second look
    # and its upload.
    made.age(290)
    faulty = FaultyBucket(made.bucket)
    lists = itertools.count(1)
    faulty.after.append(
        lambda call: made.age(pause_s) if call.method == "list" and next(lists) == 2 else None
    )
    made.compact(faulty)
    made.age(max(0.0, (again_ms - made.bucket.now_ms()) / 1000))
    merges = [meta.ulid for meta in made.merges() if victim in meta.sources]
    if merges:
        with pytest.raises(Conflict, match=f"{merges[0]} --deletion"):
            hide(made, victim)
    else:
        hide(made, victim)
    for _ in range(3):
        made.age(2 * 3600)
        assert rows_of(made, "a") == (4 if merges else 0)
        made.compact()


def test_hiding_again_after_a_cleaning_reports_the_merge_too(tmp_path: Path) -> None:
    made = plain(tmp_path, "a", "b", "c")
    victim = sorted(made.metas())[0]
    made.compact()
    made.age(2 * SYNC_S)
    clean_once(made.open(seed=8))
    [merge] = made.merges()
    with pytest.raises(Conflict, match=f"{merge.ulid} --deletion"):
        hide(made, victim)
    hide(made, merge.ulid)
    assert "marked for deletion already, superseded" in hide(made, victim).summary
    assert rows_of(made, "a") == 0


def test_withdrawing_a_hiding_reports_the_other_mark(tmp_path: Path) -> None:
    made = plain(tmp_path, "a", "b")
    victim = sorted(made.metas())[0]
    begin_to_hide(made, victim)
    assert "--no-compact --remove" in marker_of(made).withdraw(victim, MarkKind.DELETION).summary
    hide(made, victim)
    assert "--no-compact --remove" in marker_of(made).withdraw(victim, MarkKind.DELETION).summary
    marker_of(made).withdraw(victim, MarkKind.NO_COMPACT)
    assert rows_of(made, "a") == 4
