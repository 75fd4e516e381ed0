"""The boundary: strict, only rising, asked at the store."""

from __future__ import annotations

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.metered import Metered
from blockstore.clock import ManualClock
from blockstore.errors import BoundaryLost
from blockstore.index.boundary import Boundary
from blockstore.names import BOUNDARY


@pytest.fixture
def bucket() -> Metered:
    return Metered(MemoryBucket(ManualClock()))


@pytest.mark.parametrize(("data", "value"), [(b"0", 0), (b"42", 42), (b"18446744073709551615", 2**64 - 1)])
def test_ascii_digits_are_its_value(bucket: Metered, data: bytes, value: int) -> None:
    bucket.put(BOUNDARY, data)
    assert Boundary(bucket).read() == value


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" 1",
        b"1\n",
        b"-1",
        b"+1",
        b"1.0",
        b"1_0",
        b"0x1",
        "\u0661".encode(),
        b"18446744073709551616",
        b"1" * 21,
    ],
)
def test_anything_else_is_lost(bucket: Metered, data: bytes) -> None:
    bucket.put(BOUNDARY, data)
    with pytest.raises(BoundaryLost, match="ASCII digits"):
        Boundary(bucket).read()


def test_missing_is_lost_to_whoever_needs_it_and_none_to_whoever_looks(bucket: Metered) -> None:
    assert Boundary(bucket).look() is None
    with pytest.raises(BoundaryLost, match="missing"):
        Boundary(bucket).read()


def test_a_boundary_that_vanished_or_fell_is_lost(bucket: Metered) -> None:
    bucket.put(BOUNDARY, b"7")
    boundary = Boundary(bucket)
    assert boundary.read() == 7
    bucket.put(BOUNDARY, b"6")
    with pytest.raises(BoundaryLost, match="fell from 7 to 6"):
        boundary.read()
    bucket.delete([BOUNDARY])
    with pytest.raises(BoundaryLost, match="vanished, it was 7"):
        boundary.look()


def test_a_check_always_asks_the_store_and_unchanged_bytes_do_not_travel(bucket: Metered) -> None:
    bucket.put(BOUNDARY, b"7")
    boundary = Boundary(bucket)
    assert boundary.check(8)
    bucket.reset()
    assert boundary.check(8)
    assert not boundary.check(7)
    assert (bucket.counts["get"], bucket.bytes["get"]) == (2, 0)
    bucket.inner.put(BOUNDARY, b"8")
    assert not boundary.check(8), "what is cached never accepts"
    assert boundary.seen == 8
