"""The window of commit ids: the newest 4,096 entries, and the last hour."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from blockstore.index import commit_ids as module
from blockstore.index.commit_ids import WINDOW_ENTRIES, WINDOW_MS, Commits
from tests.support.examples import few
from tests.support.index_data import ulid


def grown(count: int, step_ms: int) -> Commits:
    commits = Commits()
    for entry in range(1, count + 1):
        commits = commits.added(ulid(entry), entry, entry * step_ms)
    return commits


def test_it_keeps_the_newest_entries_however_old_they_are() -> None:
    commits = grown(WINDOW_ENTRIES + 10, WINDOW_MS)
    assert commits.find(ulid(10)) is None
    assert commits.find(ulid(11)) == 11
    assert not commits.covers(10)
    assert commits.covers(11)
    assert not commits.covers(WINDOW_ENTRIES + 11), "it is not written yet"
    assert len(commits) == WINDOW_ENTRIES


def test_it_keeps_the_last_hour_however_many_entries_that_is() -> None:
    commits = grown(2 * WINDOW_ENTRIES, 1)
    assert commits.find(ulid(1)) == 1
    later = commits.added(ulid(99_999), 2 * WINDOW_ENTRIES + 1, WINDOW_MS + 2)
    assert later.find(ulid(1)) is None
    assert later.find(ulid(2)) == 2
    assert commits.find(ulid(1)) == 1, "a value never changes"


@settings(max_examples=few(30), deadline=None)
@given(st.lists(st.integers(0, 40), max_size=60), st.integers(1, 5))
def test_what_it_finds_is_a_function_of_the_entries(gaps: list[int], at: int) -> None:
    kept = module.WINDOW_ENTRIES, module.WINDOW_MS, module._TAIL
    module.WINDOW_ENTRIES, module.WINDOW_MS, module._TAIL = 5, 60, 7
    try:
        commits = reloaded = Commits()
        times, now = {}, 0
        for entry, gap in enumerate(gaps, start=1):
            now += gap
            times[entry] = now
            commits, reloaded = (
                commits.added(ulid(entry), entry, now),
                reloaded.added(ulid(entry), entry, now),
            )
            if entry % at == 0:
                reloaded = Commits(reloaded.window())
            window = {one for one, time in times.items() if one > entry - 5 or time >= now - 60}
            assert {one for one in times if commits.find(ulid(one)) == one} == window
            assert {one for one in times if reloaded.find(ulid(one)) == one} == window
            assert reloaded == commits
    finally:
        module.WINDOW_ENTRIES, module.WINDOW_MS, module._TAIL = kept
