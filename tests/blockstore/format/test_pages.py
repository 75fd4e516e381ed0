"""The pages of a file are what its page index says; an invalid index gives none, and does no
harm."""

from __future__ import annotations

import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockstore.format.pages import column_pages, dictionary_bytes
from tests.support.parquet import ENCODINGS, parquet

ROWS = 50_000
TEXTS = [None if row < 20_000 else f"{row % 7}" * (row % 100) for row in range(ROWS)]
TABLE = pa.table({"k": range(ROWS), "text": TEXTS, "bytes": pa.array([b"xyz"] * ROWS)})


def bytes_of(first: int, end: int) -> int:
    return sum(len(text) for text in TEXTS[first:end] if text is not None)


@pytest.mark.parametrize("encoding", [one for one in ENCODINGS if one != "DELTA_BYTE_ARRAY"])
def test_pages_hold_what_the_file_tells_of_them_however_it_is_encoded(encoding: str) -> None:
    file = parquet(TABLE, encoding, group_rows=30_000)
    found = column_pages(file, [0, 1], [1, 2])
    assert found.keys() == {(0, 1), (0, 2), (1, 1), (1, 2)}
    for (group, place), pages in found.items():
        rows = 30_000 if group == 0 else 20_000
        ends = [*pages.first_rows[1:], rows]
        assert pages.first_rows[0] == 0
        assert len(pages.compressed) == len(ends)
        if place == 1:
            stretches = zip(pages.first_rows, ends, strict=True)
            assert pages.texts == tuple(
                bytes_of(group * 30_000 + a, group * 30_000 + b) for a, b in stretches
            )
    assert sum(found[0, 1].texts or ()) + sum(found[1, 1].texts or ()) == bytes_of(0, ROWS)
    assert sum(found[0, 2].texts or ()) == 3 * 30_000
    assert column_pages(file, [1], [1]) == {(1, 1): found[1, 1]}


def test_numbers_have_pages_without_texts() -> None:
    pages = column_pages(parquet(TABLE), [0], [0])[0, 0]
    assert len(pages.compressed) == len(pages.first_rows)
    assert pages.texts is None


def test_a_dictionary_weighs_what_its_texts_do() -> None:
    words = ["one", "two", "three"]
    file = parquet(pa.table({"word": words * 1_000}), "dictionary")
    offset = pq.read_metadata(file).row_group(0).column(0).dictionary_page_offset
    assert dictionary_bytes(file, offset) == sum(4 + len(word) for word in words)
    pages = pq.read_metadata(file).row_group(0).column(0).data_page_offset
    assert dictionary_bytes(file, pages) is None
    assert dictionary_bytes(pa.BufferReader(b""), 0) is None
    assert dictionary_bytes(pa.BufferReader(b"\xff" * 200), 0) is None


def test_a_file_without_a_page_index_tells_nothing() -> None:
    assert column_pages(parquet(TABLE, index=False), [0], [0, 1]) == {}
    assert column_pages(parquet(TABLE), [], [1]) == {}


def test_a_footer_that_points_nowhere_tells_nothing() -> None:
    assert column_pages(pa.BufferReader(b""), [0], [0]) == {}
    assert (
        column_pages(pa.BufferReader(b"PAR1" + struct.pack("<I", 1 << 30) + b"PAR1"), [0], [0])
        == {}
    )
    assert column_pages(parquet(TABLE), [7], [0]) == {}
    assert column_pages(parquet(TABLE), [0], [7]) == {}


SMALL = parquet(TABLE.slice(0, 25_000)).read()
INDEX_AT = len(SMALL) - 3_000


@given(
    st.lists(
        st.tuples(st.integers(INDEX_AT, len(SMALL) - 1), st.integers(0, 255)),
        min_size=1,
        max_size=20,
    )
)
def test_garbage_is_no_error_and_what_is_told_makes_sense(spots: list[tuple[int, int]]) -> None:
    data = bytearray(SMALL)
    for place, value in spots:
        data[place] = value
    for pages in column_pages(pa.BufferReader(bytes(data)), [0], [0, 1, 2]).values():
        assert pages.first_rows[0] == 0
        assert list(pages.first_rows) == sorted(set(pages.first_rows))
        assert min((*pages.compressed, *(pages.texts or ()))) >= 0


def test_what_pyarrow_writes_by_default_is_understood() -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(TABLE, sink, write_page_index=True, data_page_version="2.0")
    assert column_pages(pa.BufferReader(sink.getvalue()), [0], [1])[0, 1].texts is not None
