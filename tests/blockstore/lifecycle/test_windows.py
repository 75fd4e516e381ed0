"""Long listings in windows: every key in exactly one, and only where that shortens the wait."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockstore.bucket.api import ObjectInfo
from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.metered import Metered
from blockstore.errors import Unavailable
from blockstore.ids import Ids, ulid_at
from blockstore.lifecycle import windows as windows_module
from blockstore.lifecycle.catalog import Catalog
from blockstore.lifecycle.listing import Directory, Listing, list_directories
from blockstore.lifecycle.windows import Window, list_windows, windows_for
from blockstore.world import World
from tests.support.examples import few

START_MS = 1_700_000_000_000
YEAR_MS = 365 * 86_400_000


def listing(ulids: list[str], objects: int = 3) -> Listing:
    """A listing of directories of so many objects each."""
    inside = {str(path): ObjectInfo(key="", size=1, modified_ms=0) for path in range(objects)}
    directories = {name: Directory(ulid=name, objects=inside) for name in sorted(ulids)}
    return Listing(directories=directories, now_ms=START_MS, objects=objects * len(ulids))


def spread(count: int, over_ms: int, seed: int = 1) -> list[str]:
    """ULIDs of random moments of a span."""
    rng = random.Random(seed)
    return [
        ulid_at(START_MS + rng.randrange(over_ms))[:20] + f"{number:06d}" for number in range(count)
    ]


def holds(window: Window, key: str) -> bool:
    return key.startswith(window.prefix) and key > window.start_after


ULIDS = st.builds(
    lambda time_ms, tail: ulid_at(time_ms)[:10] + tail,
    st.integers(0, 2**48 - 1),
    st.text("0123456789ABCDEFGHJKMNPQRSTVWXYZ", min_size=16, max_size=16),
)


SPANS = (30 * 86_400_000, YEAR_MS, 40 * YEAR_MS)


@cache
def windows_of(span: int) -> tuple[Window, ...]:
    """Not made before a test asks: every process of a run reads this file."""
    return tuple(windows_for(listing(spread(30_000, span))))


@given(ULIDS, st.sampled_from(SPANS))
def test_every_block_that_may_ever_come_lies_in_exactly_one_window(unknown: str, span: int) -> None:
    windows = windows_of(span)
    assert windows
    key = f"{unknown}/chunks/000001.parquet"
    assert sum(holds(window, key) for window in windows) == 1


@settings(max_examples=few(10), deadline=None)
@given(st.lists(ULIDS, max_size=5))
def test_a_block_of_a_wrong_clock_does_not_spoil_the_windows(strange: list[str]) -> None:
    known = spread(30_000, YEAR_MS) + strange
    windows = windows_for(listing(known))
    assert windows
    assert all(
        sum(holds(window, f"{name}/meta.json") for window in windows) == 1 for name in known[-200:]
    )


def test_small_tables_and_those_of_one_moment_are_listed_in_one_go() -> None:
    assert windows_for(listing(spread(1_000, YEAR_MS))) == ()
    assert windows_for(listing([ulid_at(START_MS)[:20] + f"{n:06d}" for n in range(10_000)])) == ()


class Slow(Metered):
    """Every page takes a tenth of a second; notes the windows that were requested."""

    def __init__(self, bucket: MemoryBucket, world: World) -> None:
        super().__init__(bucket)
        self.world = world
        self.asked: list[Window] = []
        self.fail = ""

    def list(
        self,
        prefix: str = "",
        *,
        start_after: str = "",
        recursive: bool = True,
        at_most: int | None = None,
    ) -> Iterator[ObjectInfo]:
        self.asked.append(Window(prefix, start_after))
        if self.fail and prefix == self.fail:
            raise Unavailable("no answer")
        found = [
            *self.inner.list(prefix, start_after=start_after, recursive=recursive, at_most=at_most)
        ]
        self.world.clock.sleep(0.1 * max(1, -(-len(found) // 100)))
        return iter(found)


@pytest.fixture
def world() -> World:
    return World.manual(now_ms=START_MS + YEAR_MS)


@pytest.fixture
def memory(world: World, monkeypatch: pytest.MonkeyPatch) -> MemoryBucket:
    """A table that is large for a store with pages of 100 objects."""
    monkeypatch.setattr(windows_module, "_PAGE", 100)
    bucket = MemoryBucket(world.clock)
    for name in spread(9_000, YEAR_MS):
        bucket.put(f"{name}/chunks/000001.parquet", b"")
    bucket.put("index/00000000000000000001.json", b"")
    return bucket


def test_a_large_table_on_a_slow_store_is_listed_in_windows_from_the_second_time_on(
    memory: MemoryBucket, world: World
) -> None:
    slow = Slow(memory, world)
    catalog = Catalog(slow, world)
    first = catalog.listing()
    assert slow.asked == [Window("")]
    fresh = Ids.seeded(world.clock, 1).ulid()
    for name in (fresh, "7" * 26, "0" * 26):
        memory.put(f"{name}/chunks/000001.parquet", b"")
    again = catalog.listing()
    assert len(slow.asked) > 20
    assert again.directories == list_directories(memory).directories
    assert again.directories.keys() - first.directories.keys() == {fresh, "7" * 26, "0" * 26}


def test_a_quick_store_is_listed_in_one_go(memory: MemoryBucket, world: World) -> None:
    metered = Metered(memory)
    catalog = Catalog(metered, world)
    catalog.listing()
    catalog.listing()
    assert metered.counts["list"] == 2


def test_one_window_that_fails_fails_the_look(memory: MemoryBucket, world: World) -> None:
    slow = Slow(memory, world)
    windows = windows_for(list_directories(memory))
    slow.fail = windows[-3].prefix
    with pytest.raises(Unavailable):
        list_windows(slow, world, windows)
