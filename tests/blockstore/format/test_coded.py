"""Texts read as numbers of a dictionary: the same texts, and damage is damage."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.metered import Metered
from blockstore.errors import Corrupt
from blockstore.format import chunk_reader
from blockstore.format.block import ChunkFile
from blockstore.format.chunk_reader import read_batches, read_part
from blockstore.format.coded import coded_texts, decoded
from blockstore.world import World
from tests.support.tally import tally

ROWS = 40_000
WORDS = ["ATL", "BOS", "", "Zürich"]


def parquet(table: pa.Table, **settings: Any) -> bytes:
    """The table as a file."""
    sink = io.BytesIO()
    pq.write_table(table, sink, **settings)
    return sink.getvalue()


def read(data: bytes, columns: Sequence[str] | None = None, rows: int = ROWS) -> pa.Table:
    """The rows of a chunk of these bytes, as every reader gets them."""
    bucket = MemoryBucket(World.manual().clock)
    bucket.put("chunk", data)
    file = ChunkFile(path="chunks/000001.parquet", bytes=len(data), rows=rows, sha256="0" * 64)
    return pa.Table.from_batches(read_batches(bucket, "chunk", file, columns))


def coded(data: bytes, columns: Sequence[str] | None = None) -> list[str]:
    with pq.ParquetFile(pa.BufferReader(data)) as file:
        return coded_texts(file, columns, range(file.metadata.num_row_groups))


def table(rows: int = ROWS) -> pa.Table:
    words = pa.array(WORDS)
    numbers = pa.array([None if n % 7 == 0 else n % len(WORDS) for n in range(rows)], pa.int32())
    return pa.table(
        {
            "n": pa.array(range(rows), pa.int64()),
            "word": words.take(numbers),
            "note": [f"{n * 2_654_435_761 % 2**32:08x}" for n in range(rows)],
            "empty": pa.nulls(rows, pa.string()),
            "raw": pa.array(WORDS).take(numbers).cast(pa.binary()),
            "b.c": words.take(numbers),
            "b": pa.StructArray.from_arrays([words.take(numbers)], names=["c"]),
            "list": pa.array([["x"]] * rows),
        }
    )


def test_words_that_repeat_are_read_by_their_numbers_and_nothing_else_is() -> None:
    data = parquet(
        table(), row_group_size=15_000, use_dictionary=["word", "empty", "b.c", "b", "raw", "list"]
    )
    assert coded(data) == ["empty", "word"]
    assert coded(data, ["note", "n"]) == []
    assert coded(data, ["word", "later"]) == ["word"]
    assert read(data).equals(table())
    assert read(data, ["word", "n"]).equals(table().select(["word", "n"]))


@pytest.mark.parametrize("groups", [ROWS, 9_000, 1_111])
def test_a_dictionary_that_was_given_up_in_the_midst_reads_the_same(groups: int) -> None:
    """The first rows are coded, those behind them stand plain, in the same column of the same row
    group."""
    rows = pa.table({"word": ["a"] * (ROWS // 2) + [f"{n:030}" for n in range(ROWS // 2)]})
    data = parquet(
        rows, row_group_size=groups, dictionary_pagesize_limit=1_000, data_page_size=4_096
    )
    assert coded(data) == []
    assert read(data).equals(rows)
    short = pa.table({"word": ["a"] * (ROWS - 400) + [f"{n:030}" for n in range(400)]})
    data = parquet(
        short, row_group_size=ROWS, dictionary_pagesize_limit=1_000, data_page_size=4_096
    )
    assert coded(data) == ["word"], "it looks as if it were, which may cost time only"
    assert read(data).equals(short)


def test_a_dictionary_that_was_given_up_for_shared_beginnings_is_not_read_as_numbers() -> None:
    """Spark wrote the file, with its writer's version 2: 19,600 times the same word, then 400
    others. Arrow cannot read it so."""
    data = (Path(__file__).parent / "given_up_for_deltas.parquet").read_bytes()
    encodings = pq.read_metadata(io.BytesIO(data)).row_group(0).column(0).encodings
    assert {"RLE_DICTIONARY", "DELTA_BYTE_ARRAY"} <= set(encodings)
    assert coded(data) == []
    words = read(data, rows=20_000)["word"].to_pylist()
    assert words == ["a"] * 19_600 + [
        f"some/long/shared/beginning/{n}" for n in range(19_600, 20_000)
    ]


def test_only_writers_that_list_no_text_twice_are_read_by_their_numbers() -> None:
    """Arrow lists a text once, and its numbers would mean other texts then."""
    data = parquet(table())
    assert "word" in coded(data)
    other = data.replace(b"parquet-cpp-arrow version", b"parquet-xyz-arrow version")
    assert coded(other) == []
    assert read(other).equals(read(data))


def test_wide_texts_that_repeat_come_in_pieces_that_arrow_and_the_memory_can_hold() -> None:
    """40,000 numbers of 80 kB of Parquet are 2.4 GB of text: more than a column of Arrow's
    holds."""
    wide = ["a" * 60_000, "b" * 60_000]
    rows = pa.table(
        {"word": pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 1] * (ROWS // 4)), wide)}
    )
    data = parquet(rows, store_schema=False)
    assert coded(data) == ["word"]
    bucket = MemoryBucket(World.manual().clock)
    bucket.put("chunk", data)
    file = ChunkFile(path="chunks/000001.parquet", bytes=len(data), rows=ROWS, sha256="0" * 64)
    seen = 0
    for position, batch in read_part(bucket, "chunk", file):
        assert position == seen
        assert batch.nbytes <= 257 << 20
        firsts = pc.utf8_slice_codeunits(batch["word"], 0, 1).to_pylist()
        assert firsts == [
            ("a", "b", None, "b")[(position + at) % 4] for at in range(batch.num_rows)
        ]
        seen += batch.num_rows
    assert seen == ROWS


def test_a_number_behind_the_dictionary_s_end_is_damage() -> None:
    """Every byte of a small file is set to all ones in turn: other rows or an error come, never
    memory that is no text."""
    rows = pa.table({"word": pa.array(["one", "two", "three"] * 700)})
    data = parquet(rows, compression="none", write_statistics=False)
    with pq.ParquetFile(pa.BufferReader(data)) as file:
        part = file.metadata.row_group(0).column(0)
        assert coded_texts(file, None, [0]) == ["word"]
        metadata, first, last = file.metadata, part.data_page_offset, part.data_page_offset + 600
    refused = 0
    for at in range(first, min(last, len(data) - 100)):
        damaged = data[:at] + b"\xff" + data[at + 1 :]
        again = pq.ParquetFile(
            pa.BufferReader(damaged), metadata=metadata, read_dictionary=["word"]
        )
        try:
            found = [piece for batch in again.iter_batches() for piece in decoded(batch, ["word"])]
        except (pa.ArrowException, OSError):
            refused += 1
        else:
            assert set(pa.Table.from_batches(found)["word"].to_pylist()) <= {"one", "two", "three"}
    tally("damaged bytes of coded text", last - first)
    assert refused > 100, "the fourth of two bits' numbers is none of three words"


def test_a_reader_is_told_of_it_by_the_chunk_s_name() -> None:
    rows = pa.table({"word": pa.array(["one", "two", "three"] * 10_000)})
    data = parquet(rows, compression="none", write_statistics=False)
    with pq.ParquetFile(pa.BufferReader(data)) as file:
        at = file.metadata.row_group(0).column(0).data_page_offset + 200
    damaged = data[:at] + b"\xff" * 8 + data[at + 8 :]
    with pytest.raises(Corrupt, match="chunk cannot be read as Parquet"):
        read(damaged, rows=30_000)


def test_it_costs_a_remote_store_no_request_and_no_byte_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count = 600_000
    rows = pa.table({"n": pa.array(range(count)), "word": pa.array(WORDS * (count // len(WORDS)))})
    data = parquet(rows, row_group_size=count // 3, use_dictionary=["word"], compression="none")
    assert len(data) > 4 << 20, "smaller ones are fetched whole"
    bucket = Metered(MemoryBucket(World.manual().clock))
    bucket.put("chunk", data)
    file = ChunkFile(path="chunks/000001.parquet", bytes=len(data), rows=count, sha256="0" * 64)
    spent = []
    for many in (count, count + 1):
        monkeypatch.setattr(chunk_reader, "MANY_ROWS", many)
        bucket.reset()
        assert pa.Table.from_batches(read_batches(bucket, "chunk", file, ["word"])).equals(
            rows.select(["word"])
        )
        spent.append((dict(bucket.counts), dict(bucket.bytes)))
    assert spent[0] == spent[1]
