"""The engine's own lock, without the rules of the statement in front of it: each way out is shut by
itself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blockstore.reader.query.runners.instance import Instance, Limits

ATTEMPTS = [
    "SELECT * FROM read_parquet('{outside}')",
    "SELECT * FROM '{outside}'",
    "SELECT * FROM read_parquet('{folder}/../outside.parquet')",
    "SELECT * FROM read_parquet('file://{outside}')",
    "SELECT * FROM read_parquet('{folder}x/../outside.parquet')",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM parquet_metadata('{outside}')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM read_parquet('https://example.com/x.parquet')",
    "SELECT * FROM read_parquet('s3://bucket/x.parquet')",
    "COPY (SELECT 1) TO '{outside}.csv'",
    "EXPORT DATABASE '{outside}.d'",
    "ATTACH '{outside}.db'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "LOAD '/tmp/evil.duckdb_extension'",
    "CREATE PERSISTENT SECRET x (TYPE s3)",
    "SET threads = 4",
    "SET GLOBAL memory_limit = '100GB'",
    "SET enable_external_access = true",
    "SET allowed_directories = ['/']",
    "SET lock_configuration = false",
    "RESET allowed_directories",
    "PRAGMA enable_profiling",
    "CALL enable_logging(storage = 'file', storage_path = '{outside}.log')",
    "SET autoload_known_extensions = true",
    "SELECT * FROM python_object",
]


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    path = tmp_path / "outside.parquet"
    pq.write_table(pa.table({"a": [1]}), path)
    return path


@pytest.fixture
def instance(tmp_path: Path, outside: Path) -> Iterator[Instance]:
    folder = tmp_path / "folder"
    folder.mkdir()
    pq.write_table(pa.table({"a": [1, 2]}), folder / "in.parquet")
    opened = Instance([str(folder)], Limits(memory_bytes=1 << 28, threads=1, spill_bytes=1 << 20))
    yield opened
    opened.close()


def test_files_of_its_folders_are_read(instance: Instance, tmp_path: Path) -> None:
    rows = (
        instance.cursor()
        .sql(f"SELECT * FROM read_parquet('{tmp_path}/folder/in.parquet')")
        .fetchall()
    )
    assert rows == [(1,), (2,)]


@pytest.mark.parametrize("sql", ATTEMPTS)
def test_everything_else_is_shut(
    instance: Instance, outside: Path, tmp_path: Path, sql: str
) -> None:
    python_object = pa.table({"a": [1]})
    before = sorted(os.listdir(tmp_path))
    with pytest.raises((duckdb.Error, OSError)):
        instance.cursor().execute(
            sql.format(outside=outside, folder=tmp_path / "folder")
        ).fetchall()
    assert sorted(os.listdir(tmp_path)) == before
    assert python_object.num_rows == 1


def test_the_time_zone_is_utc_whatever_the_machines_is(
    instance: Instance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    other = Instance([], Limits())
    zone = (
        other.cursor()
        .sql("SELECT TIMESTAMPTZ '2013-01-01 00:00:00' AS at")
        .to_arrow_reader()
        .read_all()
    )
    other.close()
    assert zone["at"].type == pa.timestamp("us", "UTC")
    assert zone["at"][0].value == 1_356_998_400_000_000


def test_no_extension_is_needed_that_would_be_fetched() -> None:
    with duckdb.connect() as connection:
        loaded = connection.sql(
            "SELECT extension_name FROM duckdb_extensions() WHERE loaded"
        ).fetchall()
    assert {"parquet", "icu", "json", "core_functions"} <= {name for (name,) in loaded}


def test_views_of_a_cursor_are_its_own_and_nothing_is_left_behind(instance: Instance) -> None:
    one, other = instance.cursor(), instance.cursor()
    one.execute("CREATE TEMP VIEW v AS SELECT 1")
    with pytest.raises(duckdb.CatalogException):
        other.execute("FROM v")
    spill = one.sql("SELECT current_setting('temp_directory')").fetchall()[0][0]
    instance.close()
    assert not Path(spill).exists()
