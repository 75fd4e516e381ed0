"""A stored object as a file."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockstore.bucket import read_file
from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.metered import Metered
from blockstore.clock import ManualClock
from blockstore.errors import Invalid

DATA = bytes(range(100))


def metered() -> Metered:
    bucket = Metered(MemoryBucket(ManualClock()))
    bucket.put("a", DATA)
    return bucket


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("read"), st.integers(-1, 130)),
        st.tuples(st.just("seek"), st.integers(0, 130)),
        st.tuples(st.just("readinto"), st.integers(0, 130)),
    ),
    max_size=12,
)


@given(STEPS)
def test_it_reads_as_a_file_of_the_same_bytes_does(steps: list[tuple[str, int]]) -> None:
    ours, theirs = read_file(metered(), "a"), io.BytesIO(DATA)
    for step, number in steps:
        if step == "readinto":
            one, other = bytearray(number), bytearray(number)
            assert ours.readinto(one) == theirs.readinto(other)  # type: ignore[attr-defined]
            assert one == other
        else:
            assert getattr(ours, step)(number) == getattr(theirs, step)(number)
        assert ours.tell() == theirs.tell()


def test_seeking_goes_from_the_start_from_here_and_from_the_end() -> None:
    file = read_file(metered(), "a")
    assert file.seek(-10, io.SEEK_END) == 90
    assert file.read(3) == DATA[90:93]
    assert file.seek(2, io.SEEK_CUR) == 95
    assert file.read() == DATA[95:]
    with pytest.raises(Invalid, match="byte 0 or later"):
        file.seek(-1)


def test_each_read_is_one_request_and_opening_with_a_size_is_none() -> None:
    bucket = metered()
    bucket.reset()
    with read_file(bucket, "a", size=100) as file:
        assert not bucket.counts
        file.read(10)
        file.seek(50)
        file.read(10)
        file.seek(100)
        assert file.read(10) == b""
    assert bucket.counts == {"get_range": 2}
    with pytest.raises(ValueError, match="closed"):
        file.read(1)
    read_file(bucket, "a")
    assert bucket.counts == {"get_range": 2, "head": 1}


def test_it_is_a_readable_seekable_file_and_not_a_writable_one(tmp_path: Path) -> None:
    file = read_file(metered(), "a")
    assert file.readable()
    assert file.seekable()
    assert not file.writable()
    assert file.size() == 100  # type: ignore[attr-defined]
    assert file.name == "memory:///a"
