"""Writing a block: every row once, in order, in bounded pieces, under the table's own types;
nothing half-visible."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockstore.bucket.memory import MemoryBucket
from blockstore.errors import Invalid, Unavailable
from blockstore.format.block import ColumnStats, Job, VisibleBy
from blockstore.format.block_writer import BlockWriter
from blockstore.format.chunk_reader import read_chunk
from blockstore.format.definition import Definition
from blockstore.format.fields import RESERVED, field_id
from blockstore.format.footer import Footer
from blockstore.format.meta import decode, encode
from blockstore.format.new_block import WrittenChunks, write_segments
from blockstore.format.pages import ColumnPages, column_pages
from blockstore.format.segments import load_segments
from blockstore.format.sorting import sort_order
from blockstore.format.statistics import collect, columns_of
from blockstore.ids import ulid_time_ms
from blockstore.names import segments_path
from blockstore.world import World
from tests.support.examples import few

MS = pa.timestamp("ms", "UTC")
SCHEMA = pa.schema(
    [pa.field("t", MS), pa.field("origin", pa.string()), pa.field("v", pa.float64())]
)


class Bench:
    """A bucket, a world and a block to write."""

    def __init__(self, definition: Definition | None = None) -> None:
        self.world = World.manual()
        self.bucket = MemoryBucket(self.world.clock)
        self.ulid = self.world.ids.ulid()
        self.definition = definition or Definition.create(
            SCHEMA, time_column="t", sort_by=["origin", "t"]
        )

    def writer(self, **options: object) -> BlockWriter:
        return BlockWriter(
            self.bucket, self.world, self.ulid, self.definition, producer="test", **options
        )  # type: ignore[arg-type]

    def write(self, *rows: pa.RecordBatch | pa.Table, **options: object) -> WrittenChunks:
        with self.writer(**options) as writer:
            for part in rows:
                writer.write(part)
            return writer.finish()

    def chunks(self, written: WrittenChunks) -> list[pa.Table]:
        return [
            read_chunk(self.bucket, f"{self.ulid}/{file.path}", file, verify=True)
            for file in written.files
        ]

    def keys(self) -> list[str]:
        return [info.key for info in self.bucket.list()]


def rows(count: int, seed: int = 0) -> pa.Table:
    """Rows in no order; keys repeat."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "t": pa.array(rng.integers(0, 1000, count), MS),
            "origin": pa.array(rng.choice(["EWR", "JFK", "LGA"], count)),
            "v": pa.array(rng.random(count)),
        }
    )


def tally(table: pa.Table) -> list[tuple[object, ...]]:
    """The rows as a multiset."""
    return sorted(zip(*(table[name].to_pylist() for name in ("origin", "t", "v")), strict=True))


def test_a_small_block_is_one_sorted_chunk_described_exactly() -> None:
    bench = Bench()
    data = rows(1000)
    written = bench.write(data)
    (file,) = written.files
    stored = bench.bucket.get(f"{bench.ulid}/chunks/000001.parquet").data
    (chunk,) = bench.chunks(written)
    assert (file.path, file.rows, file.bytes) == ("chunks/000001.parquet", 1000, len(stored))
    assert file.sha256 == hashlib.sha256(stored).hexdigest()
    assert file.columns == collect(data, columns_of(SCHEMA, ["origin", "t"]))
    assert (written.rows, written.bytes) == (1000, len(stored))
    assert sort_order(chunk, ["origin", "t"]) is None
    assert tally(chunk) == tally(data)
    times = [value.timestamp() * 1000 for value in data["t"].to_pylist()]
    assert (written.min_time, written.max_time) == (min(times), max(times) + 1)


def test_the_block_of_what_was_written_survives_its_meta_json() -> None:
    bench = Bench()
    with bench.writer(labels={"cluster": "eu1"}, job=Job(app="nightly", batch=3)) as writer:
        writer.write(rows(10))
        meta = writer.describe(writer.finish(), visible_by=VisibleBy.INDEX, uploaded_time=5)
    assert (meta.labels, meta.job, meta.rows) == (
        {"cluster": "eu1"},
        Job(app="nightly", batch=3),
        10,
    )
    again = decode(encode(meta), ulid=bench.ulid)
    assert again.files == meta.files
    assert again.sources == (bench.ulid,)


@pytest.mark.parametrize("last", ["v", "origin"], ids=["plain", "dictionary"])
def test_the_tail_of_a_chunk_holds_its_footer_and_its_page_index(last: str) -> None:
    names = [*(name for name in SCHEMA.names if name != last), last]
    schema = pa.schema([SCHEMA.field(name) for name in names])
    bench = Bench(Definition.create(schema, time_column="t", sort_by=["origin", "t"]))
    (file,) = bench.write(rows(30_000), row_group_rows=10_000).files
    data = bench.bucket.get(f"{bench.ulid}/{file.path}").data
    assert file.footer is not None
    start = len(data) - file.footer
    source = pa.BufferReader(b"\0" * start + data[start:])
    parquet = pq.ParquetFile(source)
    assert parquet.metadata.num_rows == 30_000
    pages = column_pages(source, range(3), range(3))
    assert len(pages) == 9
    assert parquet.metadata.row_group(2).column(2).has_dictionary_page == (last == "origin")
    assert start == _end_of(parquet, 2, 2, pages[2, 2])


def _end_of(parquet: pq.ParquetFile, group: int, column: int, pages: ColumnPages) -> int:
    """Where a column's last page ends, by its page index."""
    chunk = parquet.metadata.row_group(group).column(column)
    return int(chunk.data_page_offset + sum(pages.compressed))


def large(seed: int = 0) -> pa.Table:
    """Rows of which a chunk is larger than 1 MiB."""
    return rows(400_000, seed)


def test_rows_that_are_looked_up_by_an_identity_are_in_small_pages() -> None:
    schema = pa.schema([("id", pa.int64()), ("text", pa.string()), ("flag", pa.bool_())])
    count = 30_000
    texts = [f"text {one}" for one in range(count)]
    table = pa.table([range(count), texts, [True] * count], schema=schema)
    most = {}
    for key in ((), ("id",)):
        bench = Bench(Definition.create(schema, key=key, sort_by=["id"]))
        (file,) = bench.write(table).files
        data = bench.bucket.get(f"{bench.ulid}/{file.path}").data
        footer = Footer(data, len(data))
        pages = column_pages(footer, [0], range(3)).values()
        first_rows = {one.first_rows for one in pages}
        assert len(first_rows) == 1, "the same rows in all columns, so that they decode together"
        most[key] = max(b - a for a, b in pairwise((*first_rows.pop(), count)))
    assert most["id",] <= 4_096 < most[()]


def test_a_small_block_has_no_segments() -> None:
    bench = Bench()
    with bench.writer() as writer:
        writer.write(rows(1000))
        meta = writer.describe(writer.finish_block())
    assert meta.segments is None
    assert bench.keys() == [f"{bench.ulid}/chunks/000001.parquet"]


@pytest.mark.parametrize("presorted", [False, True])
def test_a_block_with_a_large_chunk_has_the_hashes_of_all_its_chunks(presorted: bool) -> None:
    bench = Bench()
    data = pa.concat_tables([large(), rows(1000)])
    if presorted:
        data = data.take(sort_order(data, ["origin", "t"]))
    size = (2 if presorted else 8) << 20
    limits = {"chunk_size": size, "row_group_rows": 20_000, "buffer_bytes": 8 << 20}
    with bench.writer(presorted=presorted, **limits) as writer:
        writer.write(data)
        meta = writer.describe(writer.finish_block())
    assert len(meta.files) > 1
    assert meta.segments is not None
    found = load_segments(bench.bucket, bench.ulid, meta.segments, meta.files)
    assert list(found) == [file.path for file in meta.files]
    for file in meta.files:
        found[file.path].check(0, bench.bucket.get(f"{bench.ulid}/{file.path}").data)
    stored = f"{bench.ulid}/{segments_path(meta.segments.sha256)}"
    assert bench.bucket.head(stored).size == meta.segments.bytes


def test_parts_of_a_block_have_their_segments_stored_by_the_code_that_joins_them() -> None:
    bench = Bench()
    parts = [bench.write(large(seed), token=f"t{seed}") for seed in (1, 2)]
    assert len(list(bench.bucket.list())) == len(parts)
    written = WrittenChunks.together(parts)
    ref = write_segments(bench.bucket, bench.ulid, written)
    assert ref is not None
    found = load_segments(bench.bucket, bench.ulid, ref, written.files)
    for file in written.files:
        found[file.path].check(0, bench.bucket.get(f"{bench.ulid}/{file.path}").data)
    assert write_segments(bench.bucket, bench.ulid, replace(written, segments=())) is None


@pytest.mark.parametrize("presorted", [False, True])
def test_any_sizes_and_limits_give_every_row_once_and_chunks_in_order(presorted: bool) -> None:
    data = rows(12_000)
    order = sort_order(data, ["origin", "t"])
    source = data.take(order) if presorted else data
    bench = Bench()
    batches = [source.slice(start, 777) for start in range(0, 12_000, 777)]
    written = bench.write(
        *batches,
        presorted=presorted,
        buffer_bytes=40_000,
        chunk_size=40_000,
        row_group_bytes=30_000,
        row_group_rows=1000,
    )
    chunks = bench.chunks(written)
    assert len(chunks) >= 3
    assert [file.path for file in written.files] == [
        f"chunks/{n:06d}.parquet" for n in range(1, len(chunks) + 1)
    ]
    assert all(sort_order(chunk, ["origin", "t"]) is None for chunk in chunks)
    assert [file.bytes for file in written.files if file.bytes > 40_000] == []
    whole = pa.concat_tables(chunks)
    assert tally(whole) == tally(data)
    assert (sort_order(whole, ["origin", "t"]) is None) == presorted
    for chunk, file in zip(chunks, written.files, strict=True):
        assert file.columns == collect(chunk, columns_of(SCHEMA, ["origin", "t"]))


def test_row_groups_keep_their_limits_and_leave_no_crumbs() -> None:
    bench = Bench()
    data = rows(10_000).sort_by([("origin", "ascending"), ("t", "ascending")])
    for presorted in (False, True):
        written = bench.write(
            *(data.slice(start, 700) for start in range(0, 10_000, 700)),
            row_group_rows=1000,
            presorted=presorted,
        )
        (file,) = written.files
        metadata = pq.read_metadata(io.BytesIO(bench.bucket.get(f"{bench.ulid}/{file.path}").data))
        assert [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)] == [
            1000
        ] * 10


def test_one_enormous_batch_is_cut_before_it_is_held() -> None:
    bench = Bench()
    data = rows(50_000)
    written = bench.write(data.combine_chunks().to_batches()[0], buffer_bytes=200_000)
    assert len(written.files) > 3
    assert tally(pa.concat_tables(bench.chunks(written))) == tally(data)


def test_memory_is_bounded_whatever_comes_in() -> None:
    bench = Bench()
    limit = 4_000_000
    before = pa.total_allocated_bytes()
    peaks = []

    def stream() -> Iterator[pa.RecordBatch]:
        for seed in range(60):
            peaks.append(pa.total_allocated_bytes() - before)
            yield rows(10_000, seed).to_batches()[0]

    for presorted in (False, True):
        with bench.writer(
            buffer_bytes=limit, row_group_bytes=1_000_000, chunk_size=limit, presorted=presorted
        ) as writer:
            for batch in stream():
                writer.write(batch)
            assert writer.finish().rows == 600_000
    assert max(peaks) < 2 * limit


def test_no_rows_make_no_file() -> None:
    bench = Bench()
    empty = rows(0)
    written = bench.write(
        empty, empty.schema.empty_table(), pa.RecordBatch.from_pylist([], empty.schema)
    )
    assert (written.files, written.rows, written.bytes) == ((), 0, 0)
    assert bench.keys() == []


def test_an_empty_batch_among_others_changes_nothing_but_is_checked() -> None:
    bench = Bench()
    assert bench.write(rows(3), rows(0), rows(2)).rows == 5
    with pytest.raises(Invalid, match="lacks column"):
        bench.write(pa.RecordBatch.from_pylist([], pa.schema([("x", pa.int8())])))


def test_without_a_time_column_the_time_is_that_of_creation() -> None:
    bench = Bench(Definition.create(pa.schema([pa.field("a", pa.int64())])))
    written = bench.write(pa.table({"a": [3, 1, 2]}))
    created = ulid_time_ms(bench.ulid)
    assert (written.min_time, written.max_time) == (created, created + 1)
    assert bench.chunks(written)[0]["a"].to_pylist() == [3, 1, 2]


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (pa.date32(), [1, 2], (86_400_000, 172_800_001)),
        (pa.timestamp("s"), [-1, 2], (-1000, 2001)),
        (pa.timestamp("us", "Europe/Berlin"), [-1, 1999], (-1, 2)),
        (pa.timestamp("ns", "UTC"), [999_999, 1_000_000], (0, 2)),
    ],
)
def test_the_time_range_holds_every_row_in_any_unit(
    kind: pa.DataType, values: list[int], expected: tuple[int, int]
) -> None:
    bench = Bench(Definition.create(pa.schema([pa.field("t", kind)]), time_column="t"))
    written = bench.write(pa.table({"t": pa.array(values, kind)}))
    assert (written.min_time, written.max_time) == expected


def test_the_time_column_counts_beyond_the_first_32() -> None:
    fields = [*(pa.field(f"c{n}", pa.int8()) for n in range(40)), pa.field("t", MS)]
    bench = Bench(Definition.create(pa.schema(fields), time_column="t"))
    data = pa.table(
        {**{f"c{n}": pa.array([1], pa.int8()) for n in range(40)}, "t": pa.array([7], MS)}
    )
    written = bench.write(data)
    assert (written.min_time, written.max_time) == (7, 8)
    assert list(written.files[0].columns) == [f"c{n}" for n in range(32)]


def test_a_null_time_is_refused_with_its_row_over_all_batches() -> None:
    bench = Bench()
    bad = pa.table({"t": pa.array([1, None], MS), "origin": ["a", "b"], "v": [1.0, 2.0]})
    with pytest.raises(Invalid, match=r"'t' is null in row 1,001"):
        bench.write(rows(1000), bad)
    assert bench.keys() == []


def test_a_wrong_type_after_rows_leaves_nothing_visible() -> None:
    bench = Bench()
    with pytest.raises(Invalid, match="'v' has the type string"):
        bench.write(rows(10), rows(10).set_column(2, "v", pa.array(["x"] * 10)))
    assert bench.keys() == []


class Full(MemoryBucket):
    """A bucket that refuses every write."""

    def put(self, key: str, data: bytes) -> str:
        raise Unavailable(f"no room for {key}")

    def writer(self, key: str):  # type: ignore[no-untyped-def]
        raise Unavailable(f"no room for {key}")


@pytest.mark.parametrize("presorted", [False, True])
def test_a_bucket_that_fails_is_told_and_the_writer_can_be_left(presorted: bool) -> None:
    bench = Bench()
    bench.bucket = Full(bench.world.clock)
    with pytest.raises(Unavailable, match="no room"):
        bench.write(rows(5000), buffer_bytes=10_000, presorted=presorted)


def test_a_writer_left_early_shows_nothing() -> None:
    bench = Bench()
    with bench.writer(presorted=True, row_group_rows=100) as writer:
        writer.write(rows(1000))
    assert bench.keys() == []


def test_an_ended_writer_takes_no_more() -> None:
    bench = Bench()
    writer = bench.writer()
    writer.finish()
    with pytest.raises(Invalid, match="finished"):
        writer.write(rows(1))
    with pytest.raises(Invalid, match="finished already"):
        writer.finish()


def test_a_token_keeps_two_attempts_at_one_block_apart() -> None:
    bench = Bench()
    first = bench.write(rows(1), token="aa")
    second = bench.write(rows(1), token="bb")
    assert first.files[0].path == "chunks/aa-000001.parquet"
    assert second.files[0].path == "chunks/bb-000001.parquet"


def test_a_merge_carries_reserved_columns() -> None:
    bench = Bench()
    data = rows(4).append_column("_source", pa.array(["x", "y", "x", None]))
    data = data.append_column("_row_id", pa.array([1, 2, 3, 4]))
    written = bench.write(data, extra_columns=("_source", "_row_id"))
    (chunk,) = bench.chunks(written)
    assert chunk.schema.names == ["t", "origin", "v", "_source", "_row_id"]
    assert chunk.schema.field("_source").type == RESERVED["_source"].type
    assert sorted(chunk["_row_id"].to_pylist()) == [1, 2, 3, 4]
    assert "_source" not in written.files[0].columns
    with pytest.raises(Invalid, match="reserved"):
        bench.write(data)


def test_batches_with_different_dictionaries_of_sources_are_merged() -> None:
    bench = Bench()
    parts = [
        rows(3).append_column("_source", pa.array([name] * 3).dictionary_encode())
        for name in ("x", "y")
    ]
    for presorted in (False, True):
        written = bench.write(*parts, extra_columns=("_source",), presorted=presorted)
        (chunk,) = bench.chunks(written)
        assert sorted(chunk["_source"].to_pylist()) == ["x"] * 3 + ["y"] * 3


NESTED = pa.schema(
    [
        pa.field("id", pa.uint64(), metadata={"blockstore.description": "key"}),
        pa.field("tags", pa.large_list(pa.large_string())),
        pa.field(
            "point", pa.struct([pa.field("x", pa.float32()), pa.field("y", pa.decimal128(38, 9))])
        ),
        pa.field("counts", pa.map_(pa.string(), pa.list_(pa.int32()))),
        pa.field("pair", pa.list_(pa.int16(), 2)),
        pa.field("note", pa.string(), metadata={"blockstore.max_length": "9", "mine": "kept"}),
        pa.field("span", pa.duration("us")),
        pa.field("at", pa.timestamp("ns", "Asia/Tokyo")),
        pa.field("nothing", pa.int64()),
    ]
)
NESTED_ROWS = [
    {
        "id": 2**64 - 1,
        "tags": ["a", None],
        "point": {"x": 1.5, "y": Decimal("1.5")},
        "counts": [("k", [1, None])],
        "pair": [1, 2],
        "note": "n",
        "span": 5,
        "at": 7,
        "nothing": None,
    },
    {
        "id": 0,
        "tags": None,
        "point": None,
        "counts": [],
        "pair": None,
        "note": None,
        "span": None,
        "at": None,
        "nothing": None,
    },
]


def nested() -> tuple[Bench, pa.Table, WrittenChunks]:
    bench = Bench(Definition.create(NESTED, sort_by=["id"]))
    data = pa.Table.from_pylist(NESTED_ROWS, NESTED)
    written = bench.write(data)
    return bench, data, written


def test_nested_decimal_zoned_and_unsigned_columns_survive() -> None:
    bench, data, written = nested()
    (chunk,) = bench.chunks(written)
    assert chunk.to_pylist() == data.take([1, 0]).to_pylist()
    assert [field.type for field in chunk.schema] == [
        field.type for field in bench.definition.schema
    ]
    assert written.files[0].columns["id"] == ColumnStats(min=0, max=2**64 - 1, nulls=0)
    assert written.files[0].columns["nothing"] == ColumnStats(min=None, max=None, nulls=2)


def test_field_ids_and_metadata_stand_in_the_file_nested_ones_too() -> None:
    bench, _, written = nested()
    (chunk,) = bench.chunks(written)

    def ids(fields: list[pa.Field]) -> list[int | None]:
        found: list[int | None] = []
        for field in fields:
            found.append(field_id(field))
            kind = field.type
            if pa.types.is_struct(kind):
                found += ids(list(kind.fields))
            elif pa.types.is_map(kind):
                found += ids([kind.key_field, kind.item_field])
            elif pa.types.is_nested(kind):
                found += ids([kind.value_field])
        return found

    assert ids(list(chunk.schema)) == ids(list(bench.definition.schema)) == list(range(1, 17))
    assert chunk.schema.field("note").metadata[b"mine"] == b"kept"
    assert chunk.schema.field("note").metadata[b"blockstore.max_length"] == b"9"
    plain = pq.ParquetFile(
        io.BytesIO(bench.bucket.get(f"{bench.ulid}/{written.files[0].path}").data)
    )
    assert [plain.schema_arrow.field(at).metadata[b"PARQUET:field_id"] for at in (0, 8)] == [
        b"1",
        b"16",
    ]


def test_foreign_readers_see_the_same_rows(tmp_path) -> None:  # type: ignore[no-untyped-def]
    bench = Bench()
    data = rows(500)
    written = bench.write(data)
    path = tmp_path / "chunk.parquet"
    path.write_bytes(bench.bucket.get(f"{bench.ulid}/{written.files[0].path}").data)
    found = duckdb.sql(f"select count(*), sum(v), min(origin) from '{path}'").fetchall()
    assert found == [(500, pytest.approx(sum(data["v"].to_pylist())), "EWR")]


def test_two_thousand_columns() -> None:
    fields = [pa.field(f"c{n}", pa.int32()) for n in range(2000)]
    bench = Bench(Definition.create(pa.schema(fields), sort_by=["c1999"]))
    written = bench.write(pa.table({f"c{n}": pa.array([n, 0], pa.int32()) for n in range(2000)}))
    (chunk,) = bench.chunks(written)
    assert chunk["c1999"].to_pylist() == [0, 1999]
    assert len(written.files[0].columns) == 33


@pytest.mark.parametrize("size", [0, -1, 512 * 2**20 + 1])
def test_a_chunk_larger_than_the_format_promises_is_refused(size: int) -> None:
    bench = Bench()
    with pytest.raises(Invalid, match=f"chunk_size is {size:,} bytes, expected 1 to 536,870,912"):
        bench.writer(chunk_size=size)
    bench.writer(chunk_size=512 * 2**20).abort()


FLOATS = st.floats() | st.none()


@settings(max_examples=few(25), deadline=None)
@given(st.lists(st.tuples(FLOATS, st.text(max_size=3)), min_size=1, max_size=20), st.integers(1, 7))
def test_any_floats_and_texts_come_back(values: list[tuple[float | None, str]], step: int) -> None:
    bench = Bench(
        Definition.create(pa.schema([("f", pa.float64()), ("s", pa.string())]), sort_by=["f", "s"])
    )
    try:
        data = pa.table(
            {
                "f": pa.array([f for f, _ in values], pa.float64()),
                "s": pa.array([s for _, s in values]),
            }
        )
    except UnicodeEncodeError:
        return
    written = bench.write(*(data.slice(start, step) for start in range(0, len(values), step)))
    (chunk,) = bench.chunks(written)
    assert sorted(map(repr, chunk.to_pylist())) == sorted(map(repr, data.to_pylist()))
    assert written.files[0].columns == collect(data, ["f", "s"])
