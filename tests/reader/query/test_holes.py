"""DuckDB and files with holes: a column chunk that begins with a zero byte is an error or is not
needed, and never another row. ``reader/cache/columns.py`` depends on it."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blockstore.reader.cache.columns import column_chunks
from blockstore.reader.query.runners.instance import Instance, Limits

ROWS = 3_000
NO_PAGE = "TProtocolException"

CODECS = ["none", "snappy", "zstd", "gzip", "lz4", "brotli"]
FORMS = [
    *(
        {"use_dictionary": dictionary, "data_page_version": version}
        for dictionary, version in itertools.product((True, False), ("1.0", "2.0"))
    ),
    {
        "use_dictionary": False,
        "column_encoding": {
            "big": "DELTA_BINARY_PACKED",
            "int": "BYTE_STREAM_SPLIT",
            "double": "BYTE_STREAM_SPLIT",
            "text": "DELTA_LENGTH_BYTE_ARRAY",
            "bytes": "DELTA_BYTE_ARRAY",
        },
    },
    {
        "bloom_filter_options": {
            name: {"ndv": ROWS, "fpp": 0.01} for name in ("big", "text", "double")
        }
    },
]
QUERIES = [
    "SELECT {} FROM {}",
    "SELECT count({}), min({}), max({}) FROM {}",
    "SELECT count(*) FROM {} WHERE {} IS NULL",
    "SELECT 1 FROM {} WHERE {} IN (SELECT {} FROM ok LIMIT 3)",
    "SELECT {} FROM {} ORDER BY 1 LIMIT 3",
    "SELECT {}, big FROM {} ORDER BY big LIMIT 2",
    "SELECT {} FROM {} WHERE file_row_number BETWEEN 1600 AND 1610",
]


def rows() -> pa.Table:
    draw = random.Random(1)
    numbers = [draw.randrange(10**6) for _ in range(ROWS)]
    day = dt.datetime(2020, 1, 1)
    return pa.table(
        {
            "big": pa.array(numbers, pa.int64()),
            "int": pa.array(numbers, pa.int32()),
            "tiny": pa.array([number % 100 for number in numbers], pa.int8()),
            "positive": pa.array(numbers, pa.uint64()),
            "few": pa.array([number % 7 for number in numbers], pa.int64()),
            "nulls": pa.array([None] * ROWS, pa.int64()),
            "some": pa.array([number if number % 3 else None for number in numbers]),
            "zero": pa.array([0] * ROWS, pa.int64()),
            "truth": pa.array([number % 2 == 0 for number in numbers]),
            "float": pa.array([number / 7 for number in numbers], pa.float32()),
            "double": pa.array([number / 7 for number in numbers]),
            "text": pa.array(["", "a", "bcd" * 5][number % 3] for number in numbers),
            "bytes": pa.array(draw.randbytes(number % 9) for number in numbers),
            "fixed": pa.array((draw.randbytes(4) for _ in numbers), pa.binary(4)),
            "price": pa.array(map(decimal.Decimal, numbers), pa.decimal128(20, 2)),
            "day": pa.array([day.date()] * ROWS),
            "time": pa.array([day + dt.timedelta(seconds=one) for one in numbers]),
            "clock": pa.array([dt.time(1, 2)] * ROWS),
            "list": pa.array([[1, 2] if number % 3 else None for number in numbers]),
            "row": pa.array([{"x": number, "y": "q"} for number in numbers]),
            "map": pa.array([[("k", 1)]] * ROWS, pa.map_(pa.string(), pa.int64())),
        }
    )


@pytest.fixture
def duck(tmp_path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    instance = Instance([str(tmp_path)], Limits(threads=2))
    yield instance.cursor()
    instance.close()


@pytest.mark.parametrize("codec", CODECS)
def test_a_column_chunk_without_its_first_byte_is_never_read_as_rows(
    tmp_path: Path, duck: duckdb.DuckDBPyConnection, codec: str
) -> None:
    table, failed, others = rows(), 0, 0
    # All forms for two codecs; one form for each of the others.
    forms = FORMS if codec in ("none", "zstd") else [FORMS[CODECS.index(codec) % 4]]
    for number, form in enumerate(forms):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(
            table, path, compression=codec, row_group_size=ROWS // 2, data_page_size=2_000, **form
        )
        duck.execute(f"CREATE OR REPLACE TEMP VIEW ok AS {source(path)}")
        whole = path.read_bytes()
        for name in table.column_names:
            holed = bytearray(whole)
            for start, _ in column_chunks(pq.read_metadata(path), [name]):
                assert holed[start] != 0
                holed[start] = 0
            hole = tmp_path / f"{number}-{name}.parquet"
            hole.write_bytes(holed)
            for query in QUERIES:
                asked = query.replace("FROM {}", "FROM $").replace("{}", f'"{name}"')
                try:
                    found = duck.execute(asked.replace("$", f"({source(hole)})")).fetchall()
                except duckdb.Error as error:
                    failed += NO_PAGE in str(error)
                    others += NO_PAGE not in str(error)
                    continue
                right = duck.execute(asked.replace("$", "ok")).fetchall()
                assert sorted(map(repr, found)) == sorted(map(repr, right)), (form, asked)
    assert not others
    assert failed > len(forms) * len(table.column_names) * 3


def test_a_bloom_filter_without_its_first_byte_is_never_used(
    tmp_path: Path, duck: duckdb.DuckDBPyConnection
) -> None:
    path = tmp_path / "bloom.parquet"
    pq.write_table(rows(), path, use_dictionary=False, **FORMS[-1])
    metadata, whole = pq.read_metadata(path), bytearray(path.read_bytes())
    (_, bloom) = column_chunks(metadata, ["big"])
    assert whole[bloom[0]] != 0
    whole[bloom[0] : sum(bloom)] = bytes(bloom[1])
    path.write_bytes(whole)
    value = rows()["big"][5].as_py()
    with pytest.raises(duckdb.Error, match=NO_PAGE):
        duck.execute(f"SELECT count(*) FROM ({source(path)}) WHERE big = {value}").fetchall()


def test_row_groups_outside_a_window_are_not_read(
    tmp_path: Path, duck: duckdb.DuckDBPyConnection
) -> None:
    path = tmp_path / "groups.parquet"
    pq.write_table(rows(), path, row_group_size=500)
    duck.execute(f"CREATE TEMP VIEW ok AS {source(path)}")
    holed = bytearray(path.read_bytes())
    for start, _ in column_chunks(pq.read_metadata(path), groups=[0, 1, 3, 4, 5]):
        holed[start] = 0
    hole = tmp_path / "hole.parquet"
    hole.write_bytes(holed)
    duck.execute(f"CREATE TEMP VIEW hole AS {source(hole)}")
    window = "file_row_number BETWEEN 1000 AND 1499"
    for query in [
        "SELECT sum(big), min(text), max(double) FROM {}",
        "SELECT few, count(*) FROM {} GROUP BY few ORDER BY few",
        "SELECT * FROM {} ORDER BY double, big LIMIT 5",
        "SELECT count(*) FROM {} WHERE text LIKE '%a' OR big < 1000",
        "SELECT count(*) FROM {} AS a JOIN {} AS b USING (big)",
        "SELECT big FROM {} WHERE big IN (SELECT max(big) FROM {})",
        "SELECT row FROM {} WHERE row.x % 2 = 0 ORDER BY 1 LIMIT 2",
        "SELECT 1 FROM {} LIMIT 1",
    ]:
        found, right = (
            duck.execute(query.replace("{}", f"(FROM {name} WHERE {window})")).fetchall()
            for name in ("hole", "ok")
        )
        assert found == right


def source(path: Path) -> str:
    return f"FROM read_parquet('{path}', file_row_number = true)"
