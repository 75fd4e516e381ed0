"""Pages that are read alone give the very values that the complete column has, whoever wrote the
file; what cannot be read so is left to the complete column."""

from __future__ import annotations

import datetime
from dataclasses import replace
from decimal import Decimal
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blockstore.format import page_file
from blockstore.format.footer import Footer
from blockstore.format.page_file import NoPages, PageLayout, page_runs
from blockstore.format.pages import column_pages
from tests.support.examples import few

DAY = datetime.date(2013, 1, 1)
NOON = datetime.datetime(2013, 1, 1, 12)
ZONED = NOON.replace(tzinfo=datetime.UTC)
SECOND = datetime.timedelta(seconds=1)

VALUES: dict[str, tuple[pa.DataType, Any]] = {
    "int8": (pa.int8(), lambda n: n % 100),
    "int16": (pa.int16(), lambda n: n % 1000),
    "int32": (pa.int32(), lambda n: n),
    "int64": (pa.int64(), lambda n: n * 10**12),
    "uint8": (pa.uint8(), lambda n: n % 200),
    "uint32": (pa.uint32(), lambda n: 2**31 + n),
    "uint64": (pa.uint64(), lambda n: 2**63 + n),
    "float": (pa.float32(), lambda n: n / 4),
    "double": (pa.float64(), lambda n: n / 3),
    "bool": (pa.bool_(), lambda n: n % 3 == 0),
    "text": (pa.string(), lambda n: "ü" * (n % 5) + str(n)),
    "coded": (pa.string(), lambda n: f"t{n % 7}"),
    "bytes": (pa.binary(), lambda n: bytes([n % 256]) * (n % 9)),
    "fixed": (pa.binary(4), lambda n: n.to_bytes(4, "big")),
    "date": (pa.date32(), lambda n: DAY + datetime.timedelta(days=n)),
    "s": (pa.timestamp("s"), lambda n: NOON + n * SECOND),
    "ms": (pa.timestamp("ms"), lambda n: NOON + n * SECOND),
    "us": (pa.timestamp("us", "UTC"), lambda n: ZONED + n * SECOND),
    "ns": (pa.timestamp("ns", "Europe/Berlin"), lambda n: ZONED + n * SECOND),
    "time32": (pa.time32("ms"), lambda n: (NOON + n * SECOND).time()),
    "time64": (pa.time64("us"), lambda n: (NOON + n * SECOND).time()),
    "duration": (pa.duration("us"), lambda n: n * SECOND),
    "decimal": (pa.decimal128(12, 2), lambda n: Decimal(n) / 100),
    "wide": (pa.decimal128(38, 5), lambda n: Decimal(n) * 10**25),
    "dotted.name": (pa.int32(), lambda n: -n),
    "list": (pa.list_(pa.int32()), lambda n: [n] * (n % 3)),
    "struct": (pa.struct([("a", pa.int32()), ("b", pa.string())]), lambda n: {"a": n, "b": "x"}),
    "map": (pa.map_(pa.string(), pa.int32()), lambda n: [("k", n)] * (n % 2)),
}
NESTED = {"list", "struct", "map"}


class Stored:
    """A file in memory, of which only some bytes may be read."""

    def __init__(self, table: pa.Table, **options: Any) -> None:
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, **{"write_page_index": True, **options})
        self.data = sink.getvalue().to_pybytes()
        self.allowed: set[int] | None = None
        self.parquet = pq.ParquetFile(pa.BufferReader(self.data))

    def footer(self) -> Footer:
        return Footer(self.data, len(self.data))

    def size(self) -> int:
        return len(self.data)

    def read_at(self, length: int, start: int) -> bytes:
        return self.data[start : start + length]

    def check(self, group: int, rows: range) -> set[str]:
        """Compare what the pages give with the complete columns; return what was read by pages."""
        whole = self.parquet.read_row_group(group)
        runs = page_runs(self.footer(), group, list(self.parquet.schema_arrow), rows)
        found = PageLayout(runs).read(self)
        for name, run in runs.items():
            assert run.rows.start <= rows.start < rows.stop <= run.rows.stop
            values = whole.column(name).slice(run.rows.start, len(run.rows))
            assert found[name].equals(values), name
        return set(found)


def table(rows: int, nulls: int) -> pa.Table:
    """Every type of the format; each ``nulls``-th value of most columns is null."""
    columns = {
        name: pa.array(
            [None if nulls and (n + place) % nulls == 0 else make(n) for n in range(rows)], kind
        )
        for place, (name, (kind, make)) in enumerate(VALUES.items())
    }
    return pa.table(columns)


@settings(max_examples=few(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    rows=st.integers(1, 400),
    nulls=st.sampled_from([0, 1, 2, 7]),
    group_rows=st.sampled_from([50, 120, 1000]),
    page_rows=st.sampled_from([1, 7, 40, 20_000]),
    version=st.sampled_from(["1.0", "2.0"]),
    codec=st.sampled_from(["zstd", "snappy", "gzip", "lz4", "brotli", "none"]),
    dictionary=st.sampled_from([True, False]),
    dictionary_bytes=st.sampled_from([None, 30]),
    checksums=st.booleans(),
    data=st.data(),
)
def test_pages_of_every_type_give_what_the_complete_column_has(
    rows: int,
    nulls: int,
    group_rows: int,
    page_rows: int,
    version: str,
    codec: str,
    dictionary: bool,
    dictionary_bytes: int | None,
    checksums: bool,
    data: st.DataObject,
) -> None:
    stored = Stored(
        table(rows, nulls),
        row_group_size=group_rows,
        max_rows_per_page=page_rows,
        write_batch_size=page_rows,
        data_page_version=version,
        compression=codec,
        use_dictionary=dictionary,
        dictionary_pagesize_limit=dictionary_bytes,
        write_page_checksum=checksums,
    )
    for group in range(stored.parquet.num_row_groups):
        count = stored.parquet.metadata.row_group(group).num_rows
        first = data.draw(st.integers(0, count - 1))
        end = data.draw(st.integers(first + 1, count))
        assert stored.check(group, range(first, end)) == set(VALUES) - NESTED


@pytest.mark.parametrize(
    "encoding", ["PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT", "RLE_DICTIONARY"]
)
def test_pages_of_every_encoding(encoding: str) -> None:
    numbers = pa.table({"n": pa.array([n % 50 for n in range(3_000)], pa.int64())})
    options: dict[str, Any] = (
        {"use_dictionary": True}
        if encoding == "RLE_DICTIONARY"
        else {"use_dictionary": False, "column_encoding": {"n": encoding}}
    )
    stored = Stored(numbers, max_rows_per_page=100, write_batch_size=100, **options)
    assert stored.check(0, range(1_234, 1_240)) == {"n"}
    (run,) = page_runs(stored.footer(), 0, list(numbers.schema), range(1_234, 1_240)).values()
    assert run.rows == range(1_200, 1_300)
    assert run.bytes < stored.size() / 5


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_pages_of_every_encoding_of_texts(encoding: str) -> None:
    texts = pa.table({"s": [f"text {n}" for n in range(3_000)]})
    stored = Stored(
        texts,
        max_rows_per_page=100,
        write_batch_size=100,
        use_dictionary=False,
        column_encoding={"s": encoding},
    )
    assert stored.check(0, range(250)) == {"s"}


def test_a_file_without_a_page_index_has_no_pages_to_read() -> None:
    stored = Stored(table(100, 7), write_page_index=False)
    assert stored.check(0, range(3, 5)) == set()


def test_columns_whose_pages_hold_the_same_rows_are_decoded_as_one_file() -> None:
    """Others each by themselves: a row group has as many rows in every column."""
    rows = pa.table({"n": range(3_000), "m": range(3_000), "long": ["text" * 200] * 3_000})
    stored = Stored(
        rows,
        max_rows_per_page=500,
        write_batch_size=50,
        data_page_size=50_000,
        use_dictionary=False,
    )
    opened: list[int] = []
    with mock.patch.object(page_file.pq, "ParquetFile", wraps=pq.ParquetFile) as counted:
        footer = stored.footer()
        runs = page_runs(footer, 0, list(rows.schema), range(1_234, 1_240))
        before = counted.call_count
        found = PageLayout(runs).read(stored)
        opened.append(counted.call_count - before)
    assert runs["n"].rows == runs["m"].rows != runs["long"].rows
    assert opened == [2]
    for name, run in runs.items():
        assert found[name].equals(rows[name].slice(run.rows.start, len(run.rows)))


def test_what_a_page_index_says_is_found_once_and_compared_with_the_pages_once() -> None:
    rows = pa.table({"n": range(3_000), "s": [f"t{n % 9}" for n in range(3_000)]})
    stored = Stored(rows, max_rows_per_page=500, write_batch_size=50)
    layout = PageLayout(page_runs(stored.footer(), 0, list(rows.schema), range(1_234, 1_240)))
    with (
        mock.patch.object(page_file, "check_headers", wraps=page_file.check_headers) as checked,
        mock.patch.object(page_file, "footer_of", wraps=page_file.footer_of) as made,
    ):
        found = [layout.read(stored) for _ in range(3)]
    assert (checked.call_count, made.call_count) == (2, 1)
    for one in found:
        assert one == found[0]
        assert one["n"].to_pylist() == list(range(1_000, 1_500))


def test_a_layout_whose_pages_are_otherwise_than_the_index_says_is_refused_at_every_read() -> None:
    rows = pa.table({"n": range(1_000)})
    stored = Stored(rows, max_rows_per_page=100, write_batch_size=100, use_dictionary=False)
    (run,) = page_runs(stored.footer(), 0, list(rows.schema), range(350, 360)).values()
    layout = PageLayout({"n": replace(run, pages=((run.pages[0][0], 99),), rows=range(300, 399))})
    for _ in range(2):
        with pytest.raises(NoPages, match="page index says"):
            layout.read(stored)


def test_a_part_of_a_struct_with_the_path_of_a_column_is_not_taken_for_it() -> None:
    rows = pa.table({"a": [{"b": n} for n in range(100)], "a.b": range(1_000, 1_100)})
    assert Stored(rows).check(0, range(3, 5)) == {"a.b"}
    assert Stored(rows.select(["a.b", "a"])).check(0, range(3, 5)) == {"a.b"}


def test_a_page_index_that_counts_otherwise_than_the_pages_is_not_believed() -> None:
    """Rows would shift from one page to the next."""
    rows = pa.table({"n": range(1_000)})
    stored = Stored(rows, max_rows_per_page=100, write_batch_size=100)

    def shifted(*args: Any, **options: Any) -> Any:
        found = column_pages(*args, **options)
        return {
            at: replace(
                pages, first_rows=tuple(row - place for place, row in enumerate(pages.first_rows))
            )
            for at, pages in found.items()
        }

    with mock.patch.object(page_file, "column_pages", shifted):
        runs = page_runs(stored.footer(), 0, list(rows.schema), range(350, 360))
    with pytest.raises(NoPages, match="page index says"):
        PageLayout(runs).read(stored)


def test_a_page_index_that_begins_elsewhere_than_the_column_is_not_believed() -> None:
    """The pages of another column have as many rows, and perhaps the same type."""
    rows = pa.table({"n": range(1_000), "m": range(1_000, 2_000)})
    stored = Stored(rows, max_rows_per_page=100, write_batch_size=100, use_dictionary=False)

    def others(footer: Footer, groups: Any, places: Any) -> Any:
        found = column_pages(footer, groups, [0, 1])
        return {(0, 0): found[0, 1], (0, 1): found[0, 0]}

    with mock.patch.object(page_file, "column_pages", others):
        assert page_runs(stored.footer(), 0, list(rows.schema), range(350, 360)) == {}


@settings(max_examples=few(60), deadline=None)
@given(data=st.data())
def test_a_flipped_bit_gives_an_error_or_values_of_the_right_number(data: st.DataObject) -> None:
    """Readers compare hashes first: here it is enough that nothing else is raised."""
    rows = pa.table({"n": range(400), "s": [f"t{n % 9}" for n in range(400)]})
    stored = Stored(rows, max_rows_per_page=50, write_batch_size=50)
    footer = stored.footer()
    at = data.draw(st.integers(4, stored.size() - 9))
    damaged = bytearray(stored.data)
    damaged[at] ^= 1 << data.draw(st.integers(0, 7))
    stored.data = bytes(damaged)
    for name, run in page_runs(footer, 0, list(rows.schema), range(60, 70)).items():
        try:
            found = PageLayout({name: run}).read(stored)[name]
        except NoPages:
            continue
        assert len(found) == len(run.rows), name
