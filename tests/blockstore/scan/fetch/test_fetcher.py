"""Bytes that leave a fetcher are those that were written; what was read is not read again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockstore.bucket.api import Bucket
from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.metered import Metered
from blockstore.errors import Corrupt, ObjectMissing
from blockstore.format.page_file import PageLayout
from blockstore.format.segments import SEGMENT_BYTES
from blockstore.names import object_key, segments_path
from blockstore.scan.fetch import fetcher as fetcher_module
from blockstore.scan.fetch.course import Course, in_turn
from blockstore.scan.fetch.fetcher import Fetcher, Opened
from blockstore.scan.fetch.held import Held
from blockstore.scan.fetch.remote import Remote
from blockstore.scan.fetch.store import MemoryStore
from blockstore.world import Serial, World
from tests.blockstore.scan.fetch.chunks import DAMAGES, Altered, rows, store_chunk
from tests.support.depth import DepthBucket, Time
from tests.support.examples import few

ROWS = rows()


@pytest.fixture
def bucket() -> Metered:
    return Metered(MemoryBucket(World.manual().clock))


def read(fetcher: Fetcher, remote: Remote, ranges: Iterable[tuple[int, int]]) -> list[bytes]:
    """The bytes of these ranges."""
    listed = list(ranges)

    def course() -> Course[Held]:
        opened = yield from fetcher.opening(remote)
        assert isinstance(opened, Opened)
        return (yield from fetcher.filling(opened, listed))

    held = in_turn(fetcher.pool, course())
    return [held.read_at(length, start) for start, length in listed]


@settings(max_examples=few(30), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 700_000), st.integers(1, 300_000)), max_size=5))
def test_ranges_are_read_as_they_were_written(ranges: list[tuple[int, int]]) -> None:
    remote, data = store_chunk(MemoryBucket(World.manual().clock), ROWS)
    inside = [(start, length) for start, length in ranges if start + length <= len(data)]
    fetcher = Fetcher(Serial())
    for _ in range(2):
        assert read(fetcher, remote, inside) == [data[a : a + n] for a, n in inside]


def test_only_the_needed_segments_are_read_and_none_twice(bucket: Metered) -> None:
    remote, data = store_chunk(bucket, ROWS)
    bucket.reset()
    fetcher = Fetcher(Serial())
    read(fetcher, remote, [(10, 5), (SEGMENT_BYTES * 5 - 1, 2)])
    tail = remote.file.bytes % SEGMENT_BYTES + SEGMENT_BYTES
    assert bucket.bytes["get_range"] <= 3 * SEGMENT_BYTES + tail
    assert bucket.counts["get_range"] == 3
    assert bucket.counts["get"] == 1
    bucket.reset()
    assert read(fetcher, remote, [(0, 100), (SEGMENT_BYTES * 4, SEGMENT_BYTES * 2)]) == [
        data[:100],
        data[SEGMENT_BYTES * 4 : SEGMENT_BYTES * 6],
    ]
    assert not bucket.counts
    read(fetcher, remote, [(SEGMENT_BYTES * 4, SEGMENT_BYTES * 3)])
    assert dict(bucket.bytes) == {"get_range": SEGMENT_BYTES}


def test_the_footer_and_the_hashes_are_requested_side_by_side() -> None:
    time = Time()
    store = DepthBucket(MemoryBucket(time), time)
    remote, _ = store_chunk(store, ROWS)
    fetcher = Fetcher(time)
    with store.watch() as seen:
        read(fetcher, remote, [(0, 10), (300_000, 10)])
    seen.expect(2, "footer and hashes, ranges", requests=4)
    with store.watch() as seen:
        read(fetcher, remote, [(200_000, 10)])
    seen.expect(1, "ranges", requests=1)


def test_a_small_chunk_and_an_older_one_cost_one_request(bucket: Metered) -> None:
    for table, segments in ((rows(2_000), True), (ROWS, False)):
        remote, data = store_chunk(bucket, table, segments=segments)
        bucket.reset()
        fetcher = Fetcher(Serial())
        for _ in range(2):
            assert read(fetcher, remote, [(5, 50), (len(data) - 9, 9)]) == [
                data[5:55],
                data[-9:],
            ]
        assert dict(bucket.counts) == {"get_range": 1}


def test_a_footer_of_unknown_length_is_read_too(bucket: Metered) -> None:
    remote, data = store_chunk(bucket, ROWS, footer=False, row_group_size=100)
    assert read(Fetcher(Serial()), remote, [(0, 10)]) == [data[:10]]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("table", [ROWS, rows(2_000)])
def test_bytes_that_are_not_those_written_are_read_once_more_and_then_refused(
    damage: Callable[[bytes], bytes], table: object
) -> None:
    inner = MemoryBucket(World.manual().clock)
    remote, data = store_chunk(inner, table)
    for times in range(1, 7):
        remote = replace(remote, bucket=altered(inner, damage, times))
        found = read_or_refused(remote)
        assert found in ([data[:10], data[9:1_009]], None)
        assert times > 1 or found is not None
    assert read_or_refused(replace(remote, bucket=altered(inner, damage))) is None


def read_or_refused(remote: Remote) -> list[bytes] | None:
    try:
        return read(Fetcher(Serial()), remote, [(0, 10), (9, 1_000)])
    except Corrupt as error:
        if remote.file.path not in str(error) or "restore" not in str(error):
            raise
        return None


def altered(inner: Bucket, damage: Callable[[bytes], bytes], times: int = 10**9) -> Altered:
    """Only the chunk, not the hashes."""
    found = Altered(inner, damage, times)
    found.only = "chunks/"
    return found


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_chunk_whose_hashes_are_damaged_or_lost_is_read_as_an_older_one(
    bucket: Metered, damage: Callable[[bytes], bytes]
) -> None:
    remote, data = store_chunk(bucket, ROWS)
    assert remote.segments is not None
    key = object_key(remote.block, segments_path(remote.segments.sha256))
    bucket.put(key, damage(bucket.get(key).data))
    assert read(Fetcher(Serial()), remote, [(9, 100)]) == [data[9:109]]
    bucket.delete([key])
    assert read(Fetcher(Serial()), remote, [(9, 100)]) == [data[9:109]]


def test_what_a_store_returns_is_compared_again(bucket: Metered) -> None:
    """A disk may damage what it keeps."""

    class Rotten(MemoryStore):
        def load(self, file: object, number: int) -> bytes | None:
            found = super().load(file, number)  # type: ignore[arg-type]
            return found and bytes([found[0] ^ 1]) + found[1:]

    for table in (ROWS, rows(2_000)):
        remote, data = store_chunk(bucket, table)
        fetcher = Fetcher(Serial(), Rotten())
        for _ in range(3):
            assert read(fetcher, remote, [(0, 100), (len(data) - 9, 9)]) == [
                data[:100],
                data[-9:],
            ]


@pytest.mark.parametrize("table", [ROWS, rows(2_000)])
def test_bytes_that_stay_in_memory_are_compared_once(bucket: Metered, table: object) -> None:
    remote, data = store_chunk(bucket, table)
    fetcher = Fetcher(Serial())
    ranges = [(0, 100), (len(data) - 9, 9)]
    with mock.patch.object(fetcher_module, "_check", wraps=fetcher_module._check) as compared:
        read(fetcher, remote, ranges)
        assert compared.call_count
        compared.reset_mock()
        assert read(fetcher, remote, ranges) == [data[:100], data[-9:]]
        assert not compared.call_count


def test_a_block_that_lies_about_its_chunk_does_not_spoil_what_is_read_of_others() -> None:
    """Its segments match, and its meta names the SHA-256 of another block's chunk."""
    clock = World.manual().clock
    remote, data = store_chunk(MemoryBucket(clock), ROWS)
    other, others = store_chunk(MemoryBucket(clock), rows(60_000, seed=1))
    assert len(data) == len(others)
    assert data != others
    liar = replace(other, file=replace(other.file, sha256=remote.file.sha256))
    fetcher = Fetcher(Serial())
    ranges = [(0, len(data))]
    for _ in range(2):
        assert read(fetcher, liar, ranges) == [others]
        assert read(fetcher, remote, ranges) == [data]
    for one, written in ((remote, data), (liar, others)):
        opened = in_turn(fetcher.pool, fetcher.opening(one))
        assert opened is not None
        assert written.endswith(opened.footer.encoded + written[-8:])


def test_what_is_kept_of_pages_is_bounded_and_of_one_file(bucket: Metered) -> None:
    remote, _ = store_chunk(bucket, ROWS)
    fetcher = Fetcher(Serial())
    opened = in_turn(fetcher.pool, fetcher.opening(remote))
    assert opened is not None
    copy = replace(opened, remote=replace(remote, file=replace(remote.file, sha256="f" * 64)))
    made = [
        fetcher.layout(one, (0, ("n",), range(9)), lambda: PageLayout({}))
        for one in (opened, opened, copy)
    ]
    assert made[0] is made[1] is not made[2]

    class Heavy(PageLayout):
        weight = 3 << 20

    for group in range(20):
        fetcher.layout(opened, (group, ("f",), range(9)), lambda: Heavy({}))
    assert fetcher._layouts.weight <= 16 << 20
    again = fetcher.layout(opened, (0, ("n",), range(9)), lambda: PageLayout({}))
    assert again is not made[0]


def test_a_missing_chunk_is_missing(bucket: Metered) -> None:
    remote, _ = store_chunk(bucket, ROWS)
    bucket.delete([remote.key])
    with pytest.raises(ObjectMissing):
        read(Fetcher(Serial()), remote, [(0, 10)])


def test_another_number_of_rows_than_the_meta_says_is_corrupt(bucket: Metered) -> None:
    for table in (ROWS, rows(2_000)):
        remote, _ = store_chunk(bucket, table)
        wrong = replace(remote, file=replace(remote.file, rows=remote.file.rows + 1))
        with pytest.raises(Corrupt, match="rows"):
            read(Fetcher(Serial()), wrong, [(0, 10)])


def test_a_scan_that_must_not_keep_leaves_the_store_empty(bucket: Metered) -> None:
    remote, data = store_chunk(bucket, ROWS)
    fetcher = Fetcher(Serial())

    def course() -> Course[Held]:
        opened = yield from fetcher.opening(remote, keep=False)
        assert opened is not None
        return (yield from fetcher.filling(opened, [(0, 200_000)], keep=False))

    assert in_turn(fetcher.pool, course()).read_at(200_000, 0) == data[:200_000]
    assert fetcher.store.load(remote.file, 0) is None
