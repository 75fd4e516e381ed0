"""A person hides a block of a table without an index while it is being merged: its rows do not come back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from blockstore.care.marking import Marked, Marker
from blockstore.errors import Conflict
from blockstore.lifecycle.mark import withdraw_no_compact
from blockstore.names import META
from tests.compactor.plain import DEFINITION, SYNC_S, Plain, plain
from tests.compactor.scene import small_chunks
from tests.support.faulty import Call, FaultyBucket
from tests.support.tally import tally


@pytest.fixture(autouse=True)
def blocks_of_two_chunks() -> Iterator[None]:
    with small_chunks():
        yield


def hide(made: Plain, ulid: str, *, wait: bool = False) -> Marked:
    table = made.open(seed=9)
    marker = Marker(
        bucket=made.bucket,
        world=table.world,
        log=None,
        properties=DEFINITION.properties,
        catalog=table.catalog,
    )
    return marker.delete(ulid, "not ours", wait=wait)


def rows_of(made: Plain, writer: str) -> int:
    return sum(count for (its, _), count in made.found().items() if its == writer)


def hidden_at_last(made: Plain, ulid: str) -> bool:
    """Come back as often as is said; whether the block was hidden, and not refused for the sake of a merge with its rows."""
    again_ms = hide(made, ulid).again_ms
    assert again_ms is not None
    made.age((again_ms - made.bucket.now_ms()) / 1000)
    merges = [meta.ulid for meta in made.merges() if ulid in meta.sources]
    if not merges:
        assert hide(made, ulid).again_ms is None
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


def test_the_first_call_hides_nothing_and_says_when_to_come_back(tmp_path: Path) -> None:
    made = plain(tmp_path, "a", "b", "c")
    victim = sorted(made.metas())[0]
    first = hide(made, victim)
    assert first.again_ms == made.bucket.now_ms() + 15 * 60 * 1000
    assert (first.changed, rows_of(made, "a")) == (True, 4)
    made.age(60)
    second = hide(made, victim)
    assert (second.changed, second.again_ms) == (False, first.again_ms)
    made.age(SYNC_S)
    last = hide(made, victim)
    assert (last.again_ms, rows_of(made, "a")) == (None, 0)
    assert "marked for deletion already" in hide(made, victim).told


def test_who_waits_needs_one_call(tmp_path: Path) -> None:
    made = plain(tmp_path, "a", "b")
    assert hide(made, sorted(made.metas())[0], wait=True).again_ms is None
    assert rows_of(made, "a") == 0


def test_a_mark_that_somebody_withdraws_meanwhile_is_placed_and_waited_for_anew(tmp_path: Path) -> None:
    made = plain(tmp_path, "a", "b")
    victim = sorted(made.metas())[0]
    first = hide(made, victim).again_ms
    made.age(600)
    withdraw_no_compact(made.bucket, victim)
    again = hide(made, victim).again_ms
    assert first is not None
    assert again == first + 600_000


def test_a_block_that_was_merged_is_refused_with_the_merge_and_that_one_hides_its_rows(
    tmp_path: Path,
) -> None:
    made = plain(tmp_path, "a", "b", "c")
    victim = sorted(made.metas())[0]
    made.compact()
    with pytest.raises(Conflict, match="was merged with some of its rows"):
        hide(made, victim, wait=True)
    [merge] = made.merges()
    hide(made, merge.ulid, wait=True)
    assert sum(made.found().values()) == 0
    hide(made, victim, wait=True)
    assert sum(made.found().values()) == 0


def test_a_block_that_is_hidden_while_it_is_merged_stays_hidden_whenever_that_is(tmp_path: Path) -> None:
    ready = plain(tmp_path, "a", "b", "c")
    victim = sorted(ready.metas())[0]
    calls = len(merged_with(ready.copy(), -1, lambda: None).calls)
    outcomes = set()
    for number in range(calls + 1):
        made = ready.copy()
        tally("crash points")
        merged_with(made, number, lambda made=made: hide(made, victim))  # type: ignore[misc]
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
        call.number for call in whole if call.method.startswith("put") and call.key.endswith(f"/{META}")
    ]
    for number in range(sent):
        made = ready.copy()
        tally("crash points")
        merged_with(made, number, lambda made=made: hide(made, victim, wait=True))  # type: ignore[misc]
        for _ in range(3):
            assert rows_of(made, "a") == 0, number
            made.age()
            made.compact()
