"""The collector is left out for as long as it was asked, and not switched on for whoever wants it
off."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from blockstore.collector import uncollected


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    enabled = gc.isenabled()
    yield
    (gc.enable if enabled else gc.disable)()


def test_nothing_is_collected_until_the_end_even_of_one_that_fails() -> None:
    def fails_at_last() -> None:
        with uncollected():
            before = gc.get_stats()
            kept = [[number] for number in range(100_000)]
            assert gc.get_stats() == before
            raise ValueError(f"after {len(kept)}")

    gc.enable()
    with pytest.raises(ValueError, match="after 100000"):
        fails_at_last()
    assert gc.isenabled()


def test_who_wants_no_collector_has_none_afterwards() -> None:
    gc.disable()
    with uncollected():
        pass
    assert not gc.isenabled()


def test_one_inside_another_ends_with_the_outer_one() -> None:
    gc.enable()
    with uncollected():
        with uncollected():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
