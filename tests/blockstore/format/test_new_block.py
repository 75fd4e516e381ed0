"""What writers hand over, and the block it makes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from blockstore.errors import Invalid
from blockstore.format.block import ChunkFile, Parent, VisibleBy
from blockstore.format.new_block import WrittenChunks, block_meta, to_ms
from tests.blockstore.format.blocks import DEFINITION, SHA, A, B, C, chunk


def written(number: int, rows: int, low: int, high: int) -> WrittenChunks:
    """What one writer wrote."""
    files = (chunk(number, rows),) if rows else ()
    return WrittenChunks(
        files=files, rows=rows, bytes=100 if rows else 0, min_time=low, max_time=high
    )


def test_writers_of_one_block_are_put_together_and_empty_ones_left_out() -> None:
    together = WrittenChunks.together(
        [written(1, 2, 5, 9), written(2, 0, 0, 99), written(3, 4, 1, 6)]
    )
    assert (together.rows, together.bytes, together.min_time, together.max_time) == (6, 200, 1, 9)
    assert [file.path for file in together.files] == [
        "chunks/000001.parquet",
        "chunks/000003.parquet",
    ]


def test_writers_without_any_row_keep_a_time_range() -> None:
    assert WrittenChunks.together([written(1, 0, 7, 8)]) == written(1, 0, 7, 8)
    with pytest.raises(Invalid):
        WrittenChunks.together([])


def test_a_new_block_accounts_for_itself_and_has_the_tables_labels() -> None:
    meta = block_meta(
        written(1, 2, 0, 9),
        ulid=A,
        definition=DEFINITION,
        visible_by=VisibleBy.AGE,
        producer="test",
    )
    assert (meta.sources, meta.level, meta.labels, meta.own) == ((A,), 1, {}, True)
    assert (meta.schema, meta.schema_id) == (DEFINITION.schema_bytes, 1)
    assert (meta.time_column, meta.sort_by) == ("t", ("origin", "t"))


def test_a_merge_says_its_sources_and_its_file_of_them() -> None:
    sources_file = ChunkFile(path="sources.parquet", bytes=9, rows=2, sha256=SHA)
    meta = block_meta(
        written(1, 2, 0, 9),
        ulid=C,
        definition=DEFINITION,
        visible_by=VisibleBy.INDEX,
        producer="compactor",
        level=2,
        sources=(A, B),
        parents=(Parent(ulid=A, min_time=0, max_time=9),),
        own=False,
        labels={"cluster": "eu1"},
        sources_file=sources_file,
    )
    assert meta.files[-1] == sources_file
    assert meta.labels == {"cluster": "eu1"}


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pa.date32(), -1, -86_400_000),
        (pa.timestamp("s"), 7, 7000),
        (pa.timestamp("ms", "UTC"), -7, -7),
        (pa.timestamp("us"), -1, -1),
        (pa.timestamp("us"), 1999, 1),
        (pa.timestamp("ns"), -1_000_001, -2),
    ],
)
def test_times_are_milliseconds_rounded_down(kind: pa.DataType, value: int, expected: int) -> None:
    assert to_ms(kind, value, "t") == expected


def test_a_time_beyond_any_calendar_is_refused() -> None:
    with pytest.raises(Invalid, match="'t' holds the time"):
        to_ms(pa.timestamp("s"), 2**60, "t")
