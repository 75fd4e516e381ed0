"""Fetched bytes are read as they are in the file, and a hole is never read."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockstore.scan.fetch.held import Held, HeldFile

DATA = bytes(range(256)) * 4
PARTS = [(0, 100), (100, 150), (300, 400), (400, 1024)]


def held() -> Held:
    return Held(len(DATA), [(a, DATA[a:b]) for a, b in reversed(PARTS)])


@given(st.integers(0, 1_100), st.integers(0, 1_100))
def test_bytes_are_those_of_the_file_or_the_read_fails(start: int, length: int) -> None:
    end = min(start + length, len(DATA))
    whole = start >= end or (end <= 150) or start >= 300
    if whole:
        assert held().read_at(length, start) == DATA[start : start + length]
    else:
        with pytest.raises(LookupError, match="not fetched"):
            held().read_at(length, start)


def test_a_hole_at_the_beginning_or_at_the_end_is_not_read() -> None:
    for parts in ([], [(10, b"x")], [(0, b"")]):
        with pytest.raises(LookupError, match="not fetched"):
            Held(20, parts).read_at(20, 0)


def test_arrow_reads_it_as_a_file() -> None:
    with pa.PythonFile(HeldFile(held()), mode="r") as file:
        assert file.size() == len(DATA)
        assert file.seek(120) == 120
        assert file.read(30) == DATA[120:150]
        assert file.tell() == 150
        with pytest.raises(LookupError, match="not fetched"):
            file.read(1)
        assert file.seek(-4, 2) == len(DATA) - 4
        assert file.read() == DATA[-4:]
