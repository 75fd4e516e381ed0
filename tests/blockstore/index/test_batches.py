"""The batches of an app: an exact set, as ranges."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from blockstore.index.batches import AppBatches, Written


@given(st.lists(st.integers(0, 40), unique=True, min_size=1))
def test_ranges_hold_exactly_what_was_added(batches: list[int]) -> None:
    app = AppBatches()
    for version, batch in enumerate(batches, start=1):
        app = app.added("backfill", Written(batch, version, (f"block {batch}",)))
    assert {batch for batch in range(45) if batch in app} == set(batches)
    assert app.last == max(batches)
    assert all(
        low - 1 > high for (_, high), (low, _) in zip(app.ranges, app.ranges[1:], strict=False)
    )
    assert app.written(batches[-1]) == Written(batches[-1], len(batches), (f"block {batches[-1]}",))


def test_a_stream_remembers_only_how_far_it_is() -> None:
    app = AppBatches().added("stream/q", Written(5, 2, ())).added("stream/q", Written(9, 3, ()))
    assert app.ranges == ((0, 9),)
    assert 7 in app
    assert 10 not in app


def test_only_the_newest_batches_remember_what_they_wrote() -> None:
    app = AppBatches()
    for batch in range(100):
        app = app.added("daily", Written(batch, batch + 1, ()))
    assert app.ranges == ((0, 99),)
    assert app.written(99) == Written(99, 100, ())
    assert app.written(3) is None
    assert 3 in app
