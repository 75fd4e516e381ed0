"""A batch that would become too large is refused before it is decompressed, and no other."""

from __future__ import annotations

import io
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from blockstore.clock import SystemClock
from blockstore.errors import Invalid
from blockstore.reader.jobs.arrow_file import ArrowRows
from blockstore.reader.jobs.arrow_sizes import check_sizes
from blockstore.reader.jobs.meter import Meter

ZEROS = pa.table({"a": np.zeros(100_000, dtype=np.int64)})
WORDS = pa.table({"w": pa.array(["x" * 10_000, "y" * 10_000]).dictionary_encode()})
NESTED = pa.table({"l": [[1, 2], None, []], "s": [{"a": "x"}, {"a": None}, None]})


def stream(table: pa.Table, compression: str | None, rows: int | None = None) -> bytes:
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rows)
    return sink.getvalue()


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_batch_is_refused_by_the_size_that_it_would_have(compression: str) -> None:
    data = stream(ZEROS, compression)
    assert len(data) < 10_000
    check_sizes(pa.BufferReader(data), 800_000)
    with pytest.raises(Invalid, match=r"has 800,000 bytes once it is decompressed.* 799,999"):
        check_sizes(pa.BufferReader(data), 799_999)
    check_sizes(pa.BufferReader(stream(ZEROS, compression, rows=1_000)), 8_000)


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_dictionary_counts_as_a_batch_does(compression: str) -> None:
    data = stream(WORDS, compression)
    check_sizes(pa.BufferReader(data), 20_100)
    with pytest.raises(Invalid, match="once it is decompressed"):
        check_sizes(pa.BufferReader(data), 19_999)


def test_dictionaries_count_together_until_another_takes_the_place_of_one() -> None:
    texts = [["x" * 1_000], ["x" * 1_000, "y" * 1_000], ["x" * 1_000, "y" * 1_000, "z" * 1_000]]
    batches = [pa.record_batch({"w": pa.array(one).dictionary_encode()}) for one in texts]
    for deltas, size in ((True, 3_100), (False, 3_100)):
        sink = io.BytesIO()
        options = pa.ipc.IpcWriteOptions(compression="zstd", emit_dictionary_deltas=deltas)
        with pa.ipc.new_stream(sink, batches[0].schema, options=options) as writer:
            for batch in batches:
                writer.write_batch(batch)
        check_sizes(pa.BufferReader(sink.getvalue()), size)
        with pytest.raises(Invalid, match="once it is decompressed"):
            check_sizes(pa.BufferReader(sink.getvalue()), 2_999)


@pytest.mark.parametrize("table", [ZEROS, WORDS, NESTED, ZEROS.slice(0, 0)])
def test_what_is_not_compressed_has_any_size(table: pa.Table) -> None:
    check_sizes(pa.BufferReader(stream(table, None)), 0)


@pytest.mark.parametrize("table", [ZEROS, WORDS, NESTED, ZEROS.slice(0, 0)])
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_a_file_that_is_as_it_should_be_is_read(
    tmp_path: Path, table: pa.Table, compression: str | None
) -> None:
    (tmp_path / "rows").write_bytes(stream(table, compression, rows=30_000))
    rows = ArrowRows(tmp_path / "rows", Meter(SystemClock(), 60), lambda: None)
    for _ in range(2):
        assert pa.Table.from_batches(rows(), table.schema).equals(table)


def test_a_batch_that_claims_gigabytes_takes_none(tmp_path: Path) -> None:
    data = bytearray(stream(ZEROS, "zstd"))
    claimed = (800_000).to_bytes(8, "little")
    assert data.count(claimed) == 1
    at = data.index(claimed)
    data[at : at + 8] = (1 << 40).to_bytes(8, "little")
    (tmp_path / "rows").write_bytes(data)
    with pytest.raises(Invalid, match="1,099,511,627,776 bytes"):
        list(ArrowRows(tmp_path / "rows", Meter(SystemClock(), 60), lambda: None)())


@pytest.mark.parametrize("table", [ZEROS.slice(0, 1_000), WORDS, NESTED])
def test_whatever_is_damaged_is_refused_in_a_sentence_or_read(table: pa.Table) -> None:
    draw = random.Random(7)
    whole = stream(table, "lz4")
    for _ in range(2_000):
        data = bytearray(whole)
        for _ in range(draw.choice([1, 1, 3])):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        data = data[: draw.choice([len(data), draw.randrange(len(data))])]
        try:
            check_sizes(pa.BufferReader(bytes(data)), 1 << 30)
        except Invalid:
            pass


def test_many_rows_of_nothing_come_in_pieces(tmp_path: Path) -> None:
    table = pa.table({"a": pa.nulls(200_000)})
    (tmp_path / "rows").write_bytes(stream(table, None))
    found = list(ArrowRows(tmp_path / "rows", Meter(SystemClock(), 60), lambda: None)())
    assert max(one.num_rows for one in found) <= 65_536
    assert sum(one.num_rows for one in found) == 200_000


def test_the_compression_of_old_arrow_is_refused() -> None:
    schema = ZEROS.schema.with_metadata({"ARROW:experimental_compression": "zstd"})
    data = stream(ZEROS.replace_schema_metadata(schema.metadata), "zstd")
    with pytest.raises(Invalid, match=r"as Arrow 0.17 did it"):
        check_sizes(pa.BufferReader(data))
