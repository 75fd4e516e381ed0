"""Sizes as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockstore.errors import Invalid
from blockstore.service import kinds
from blockstore.service.kinds import format_size


@given(st.integers(0, 1 << 50))
def test_a_size_that_was_written_reads_the_same(size: int) -> None:
    assert kinds.size(format_size(size), "size") == size


@pytest.mark.parametrize(
    ("text", "size"), [("512MiB", 512 << 20), ("1.5 GiB", 3 << 29), ("2GB", 2 * 10**9), (7, 7)]
)
def test_sizes_read_as_people_write_them(text: str, size: int) -> None:
    assert kinds.size(text, "size") == size


@pytest.mark.parametrize("text", ["", "MiB", "-1", "1 mile", True, None, 1.5])
def test_what_is_no_size_is_refused(text: object) -> None:
    with pytest.raises(Invalid, match="expected a size"):
        kinds.size(text, "size")
