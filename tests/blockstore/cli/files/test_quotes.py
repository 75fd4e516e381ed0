"""Quotes that do not fit are found as Python's own strict reader finds them, wherever the pieces of
the text are cut."""

from __future__ import annotations

import csv
import io
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from blockstore.cli.files.quotes import Misquoted, Quotes, first_fault, place_of
from tests.support.examples import few


def fault_of(pieces: list[bytes], delimiter: str = ",") -> tuple[int, int | None] | None:
    quotes = Quotes(delimiter)
    try:
        for piece in pieces:
            quotes.take(piece)
        quotes.end()
    except Misquoted as fault:
        return fault.opens, fault.closes
    return None


def strictly_readable(text: str) -> bool:
    try:
        list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error:
        return False
    return True


@given(
    text=st.text(alphabet='",\n\ra', max_size=40),
    cuts=st.lists(st.integers(min_value=0, max_value=40), max_size=4),
)
@example(text='"",""\n"""a"""', cuts=[1, 2, 8])
@settings(max_examples=few(2_000))
def test_what_is_refused_is_what_a_strict_reader_refuses(text: str, cuts: list[int]) -> None:
    data = text.encode()
    edges = [0, *sorted(cuts), len(data)]
    pieces = [data[start:end] for start, end in pairwise(edges)]
    fault = fault_of(pieces)
    assert (fault is None) == strictly_readable(text)
    assert fault == fault_of([data])


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b'a,"b', (2, None)),
        (b'a,"b""', (2, None)),
        (b'\xef\xbb\xbf"b', (3, None)),
        (b'a,"b"c,d', (2, 4)),
        (b'a,""c,d', (2, 3)),
        (b'x,"1\n2\n3"y', (2, 8)),
        (b'1,"a\n2,"b"', (2, 7)),
        (b'\xef\xbb\xbf"b",c', None),
        (b'5" disk,a"b"c', None),
        (b'"5"" disk"\r\n', None),
    ],
)
def test_a_fault_is_told_by_the_places_of_its_quotes(
    text: bytes, fault: tuple[int, int | None] | None
) -> None:
    assert fault_of([text]) == fault
    assert fault_of([text[:5], text[5:]]) == fault


def test_a_fault_is_found_far_behind_the_quote_that_opens(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("n,s\n" + '1,"a, ""b"""\n' * 300_000 + '2,"c\n' + "3,d\n" * 300_000)
    fault = first_fault(str(path), ",")
    assert fault is not None
    assert fault.closes is None
    assert place_of(str(path), ",", fault.opens) == (300_002, 1)
