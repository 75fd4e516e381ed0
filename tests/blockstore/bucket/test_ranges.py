"""A response to a request for a range holds these bytes, or is none."""

from __future__ import annotations

import pytest

from blockstore.bucket.ranges import FoundRange, checked_range, parse_content_range
from blockstore.errors import Unavailable


def found(start: int, stop: int, size: int | None) -> FoundRange:
    return FoundRange(start=start, stop=stop, size=size)


def test_a_content_range_is_read() -> None:
    assert parse_content_range("bytes 3-6/10") == found(3, 7, 10)
    assert parse_content_range("bytes 0-0/*") == found(0, 1, None)
    for header in ("", "bytes */10", "items 1-2/3", "bytes 6-3", "bytes 3-6/10 x"):
        assert parse_content_range(header) is None


@pytest.mark.parametrize(
    ("data", "said", "start", "length"),
    [
        (b"3456", found(3, 7, 10), 3, 4),
        (b"89", found(8, 10, 10), 8, 4),
        (b"3456", found(3, 7, None), 3, 4),
    ],
)
def test_what_was_requested_is_returned(
    data: bytes, said: FoundRange, start: int, length: int
) -> None:
    assert checked_range(data, said, start, length, "s3://b/a") == data


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"0123", found(0, 4, 10)),
        (b"345", found(3, 6, 10)),
        (b"34567", found(3, 8, 10)),
        (b"345", found(3, 7, 10)),
        (b"345", found(3, 6, None)),
        (b"3456", None),
        (b"", found(3, 3, 10)),
    ],
)
def test_anything_else_is_requested_again(data: bytes, said: FoundRange | None) -> None:
    with pytest.raises(Unavailable, match="bytes 3 to 7 of s3://b/a were requested"):
        checked_range(data, said, 3, 4, "s3://b/a")
