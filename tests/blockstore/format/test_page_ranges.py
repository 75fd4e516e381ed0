"""The ranges of pages hold for every value in them; what a file leaves open, or holds invalid bytes
for, has none."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockstore.format import page_ranges as module
from blockstore.format.page_ranges import PageRange, page_ranges
from blockstore.format.statistics import extremes
from blockstore.format.unreadable import UNREADABLE
from tests.blockstore.format.test_chunk_statistics import ROWS, SCHEMA, table
from tests.support.examples import few

BOUNDED = {"i8", "i64", "text.with.dots", "date", "ns"}


def file_of(rows: pa.Table, page_rows: int = 1_000, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    options.setdefault("write_page_index", True)
    pq.write_table(rows, sink, max_rows_per_page=page_rows, write_batch_size=page_rows, **options)
    return bytes(sink.getvalue())


def ranges(data: bytes, column: pa.Field) -> list[tuple[int, PageRange]]:
    file = pa.BufferReader(data)
    return page_ranges(pq.ParquetFile(file), file, column)


@settings(max_examples=few(40), deadline=None)
@given(ROWS, st.integers(1, 2), st.integers(2, 3))
def test_they_are_those_of_every_value_of_the_page(
    rows: list[tuple[object, ...]], page_rows: int, group_rows: int
) -> None:
    whole = table(rows)
    data = file_of(whole, page_rows, row_group_size=group_rows)
    for field in SCHEMA:
        position = 0
        found = ranges(data, field)
        for count, bounds in found:
            assert 0 < count <= page_rows
            assert bounds == (extremes(whole.slice(position, count)[field.name]) or (None, None))
            position += count
        assert position == (len(rows) if field.name in BOUNDED else 0)


def test_nulls_are_in_no_range() -> None:
    found = ranges(
        file_of(pa.table({"n": [1, 2, None, None, None, 6]}), 2), pa.field("n", pa.int64())
    )
    assert found == [(2, (1, 2)), (2, (None, None)), (2, (6, 6))]


def test_without_a_page_index_or_as_another_type_nothing_is_told() -> None:
    rows = pa.table({"n": [1, 2]})
    assert ranges(file_of(rows, write_page_index=False), rows.schema.field("n")) == []
    assert ranges(file_of(rows), pa.field("n", pa.int32())) == []
    assert ranges(file_of(rows), pa.field("m", pa.int64())) == []
    assert ranges(file_of(rows, write_statistics=False), rows.schema.field("n")) == []


def test_a_footer_of_very_many_columns_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({f"c{number}": [1, 2] for number in range(251)})
    assert ranges(file_of(rows), rows.schema.field("c7")) == [(2, (1, 2))]
    halves = file_of(rows, row_group_size=1)
    monkeypatch.setattr(module, "column_pages", lambda *_, **__: pytest.fail("the footer is read"))
    assert ranges(halves, rows.schema.field("c7")) == []


def test_bounds_in_another_unit_than_the_type_s_are_not_told() -> None:
    rows = pa.table({"t": pa.array([1_000, 2_000], pa.timestamp("us"))})
    assert ranges(file_of(rows), rows.schema.field("t")) == [(2, (1_000, 2_000))]
    for options in ({"coerce_timestamps": "ms"}, {"use_deprecated_int96_timestamps": True}):
        assert ranges(file_of(rows, **options), rows.schema.field("t")) == []


WHOLE = pa.table({"n": range(1_000), "s": [str(number) for number in range(1_000)]})
DATA = file_of(WHOLE, 100)
INDEX_AT = DATA.index(b"PAR1", 4) - 2_500


@pytest.mark.parametrize("column", list(WHOLE.schema), ids=lambda field: field.name)
@given(
    spots=st.lists(
        st.tuples(st.integers(INDEX_AT, len(DATA) - 9), st.integers(0, 255)), max_size=20
    )
)
def test_garbage_is_no_error_and_what_is_told_makes_sense(
    column: pa.Field, spots: list[tuple[int, int]]
) -> None:
    data = bytearray(DATA)
    for place, value in spots:
        data[place] = value
    file = pa.BufferReader(bytes(data))
    try:
        parquet = pq.ParquetFile(file)
        leaves = parquet.schema_arrow
    except UNREADABLE:
        return
    if len(leaves) == 2:
        found = page_ranges(parquet, file, column)
        assert all(rows > 0 for rows, _ in found)
