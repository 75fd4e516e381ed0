"""The tail of a file says what the complete file says, and bytes before it are never made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blockstore.format.footer import Footer, column_parts, column_range, footer_start
from blockstore.format.pages import column_pages
from tests.support.parquet import counted_short

TABLE = pa.table(
    {
        "n": range(1_000),
        "st": [{"a": n, "b": [n]} for n in range(1_000)],
        "s": [f"t{n}" for n in range(1_000)],
        "l": [[n] for n in range(1_000)],
    }
)


def stored(**options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(TABLE, sink, write_page_index=True, row_group_size=300, **options)
    return sink.getvalue().to_pybytes()


def test_it_says_what_the_complete_file_says() -> None:
    data = stored()
    whole = pq.ParquetFile(pa.BufferReader(data))
    footer = Footer(data[footer_start(data, len(data)) :], len(data))
    assert footer.metadata.equals(whole.metadata)
    assert footer.parquet.schema_arrow.equals(whole.schema_arrow, check_metadata=True)
    assert footer.size() == len(data)


def test_the_flat_columns_are_those_without_parts() -> None:
    data = stored()
    flat = Footer(data, len(data)).flat
    assert {name: leaf for name, (leaf, _) in flat.items()} == {"n": 0, "s": 3}


def test_the_ranges_of_columns_are_those_of_all_their_parts() -> None:
    data = stored()
    footer = Footer(data, len(data))
    for group in range(footer.metadata.num_row_groups):
        for columns in ([], ["n"], ["st"], ["l", "s"], ["n", "st", "s", "l"], ["n"]):
            parts = column_parts(footer.metadata, columns, [group])
            assert footer.ranges(columns, group) == [column_range(part) for part in parts]


def test_the_page_index_is_read_from_the_tail_if_it_is_there() -> None:
    data = stored(max_rows_per_page=50, write_batch_size=50)
    found = column_pages(pa.BufferReader(data), [0, 3], [0, 3])
    tail = Footer(data[len(data) // 2 :], len(data))
    assert column_pages(tail, [0, 3], [0, 3]) == found
    alone = Footer(data[footer_start(data, len(data)) :], len(data))
    assert column_pages(alone, [0, 3], [0, 3]) == {}
    with pytest.raises(IndexError, match="before the tail"):
        alone.read_at(4, 0)


@pytest.mark.parametrize("tail", [b"", b"PAR1", b"\xff\xff\xff\xffPAR1", b"\1\0\0\0PAR2"])
def test_bytes_that_are_no_end_of_a_file_are_refused(tail: bytes) -> None:
    with pytest.raises(ValueError, match=r"Parquet|more than"):
        Footer(tail, 1_000)


def test_a_tail_that_is_too_short_is_refused() -> None:
    data = stored()
    with pytest.raises(ValueError, match="begins at byte"):
        Footer(data[footer_start(data, len(data)) + 1 :], len(data))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_dictionary": False, "write_page_checksum": True},
        {"compression": "none", "data_page_version": "2.0", "data_page_size": 100},
        {"bloom_filter_options": {"n": {"ndv": 100, "fpp": 0.1}}},
    ],
)
def test_writers_leave_no_gaps_between_column_chunks(options: dict[str, Any]) -> None:
    data = stored(**options)
    assert not Footer(data, len(data)).has_gaps


def test_duckdb_leaves_no_gaps_between_column_chunks(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    duckdb.sql("SELECT i, 't' || i % 9 AS s, [i] AS l FROM range(9000) AS r(i)").write_parquet(
        str(path), row_group_size=2048
    )
    data = path.read_bytes()
    assert Footer(data, len(data)).metadata.num_row_groups > 1
    assert not Footer(data, len(data)).has_gaps


def test_pages_that_reach_beyond_the_stated_end_leave_a_gap() -> None:
    data = counted_short(stored(compression="none", use_dictionary=False), 16)
    assert Footer(data, len(data)).has_gaps


def test_the_parts_of_a_column_are_those_whose_paths_begin_with_its_name() -> None:
    leaf = pa.array([1])
    table = pa.table(
        {
            "a": pa.array([{"b": 1, "c": {"d": 2}}]),
            "a.b": leaf,
            "ab": leaf,
            "a.": leaf,
            "l": pa.array([[1]]),
        }
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    metadata = pq.read_metadata(pa.BufferReader(sink.getvalue()))

    def paths(*names: str) -> list[str]:
        return [part.path_in_schema for part in column_parts(metadata, names, [0])]

    # A column "a.b" cannot be told from a part of "a" by its path: both are read.
    assert paths("a") == ["a.b", "a.c.d", "a.b", "a."]
    assert paths("a.b") == ["a.b", "a.b"]
    assert paths("ab", "l") == ["ab", "l.list.element"]
    assert paths("a.") == ["a."]
    assert paths() == []
    assert len(list(column_parts(metadata, None, [0]))) == metadata.num_columns
