"""The main job on real data, as scripts/demo runs it: on a folder and on a real S3 server.

Slow (about a minute each) because Spark starts and runs sixteen jobs; that is the main job.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.format.schema import adapt
from tests.support.rows import same_rows
from tests.support.spark_workers import workers_python

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "examples"))
import flights  # noqa: E402

pytestmark = pytest.mark.xdist_group("demo")
"""Meant for one worker, since each that runs a part of them runs the demo;

Spark starts in processes of their own.
"""


def demo(url: str) -> str:
    """Run scripts/demo with its table at ``url``; answer what it printed."""
    done = subprocess.run(
        [ROOT / "scripts" / "demo", url],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
        env={**os.environ, "PYSPARK_PYTHON": workers_python()},
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def cli(*words: str) -> str:
    done = subprocess.run(
        [Path(sys.executable).parent / "blockstore", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake")
    printed = demo(str(folder / "lake"))
    assert "4 results, all equal to those before compaction" in printed
    return folder / "lake"


@pytest.fixture(scope="module")
def source() -> pa.Table:
    return flights.load()


def test_the_count_is_that_of_the_package(lake: Path) -> None:
    assert (
        cli("query", str(lake / "flights"), "select count(*) from flights", "-o", "csv").split()[-1]
        == "336776"
    )


def test_counts_by_carrier_equal_duckdbs_on_the_packages_own_csv(
    lake: Path, tmp_path: Path
) -> None:
    sql = "select carrier, count(*) as n from {} group by carrier order by carrier"
    (tmp_path / "flights.csv").write_bytes(flights.csv_bytes())
    with duckdb.connect() as connection:
        csv = f"read_csv('{tmp_path / 'flights.csv'}', nullstr='NA')"
        expected = [
            {"carrier": c, "n": n} for c, n in connection.execute(sql.format(csv)).fetchall()
        ]
    assert len(expected) == 16
    assert (
        json.loads(cli("query", str(lake / "flights"), sql.format("flights"), "-o", "json"))
        == expected
    )


def test_every_row_of_the_package_is_there_once_before_and_after_the_merge(
    lake: Path, source: pa.Table
) -> None:
    table = bs.open(str(lake / "flights"))
    entries = list(table.history())
    assert [str(entry.operation) for entry in entries] == ["create", *["append"] * 14, "compact"]
    assert same_rows(table.snapshot(version=15).scan().to_table(), source)
    assert same_rows(table.snapshot().scan().to_table(), source)
    assert not same_rows(table.snapshot(version=14).scan().to_table(), source)


def test_plain_duckdb_and_pandas_read_the_same_rows_from_the_chunks(
    lake: Path, source: pa.Table
) -> None:
    """Chunks are plain Parquet: no code of ours is needed to read them."""
    table = bs.open(str(lake / "flights"))
    for version in (15, table.snapshot().version):
        blocks = table.snapshot(version=version).blocks
        paths = [
            str(lake / "flights" / block.ulid / file.path)
            for block in blocks
            for file in block.meta.chunks
        ]
        names = source.column_names
        with duckdb.connect() as connection:
            connection.execute("set timezone = 'UTC'")
            read = connection.read_parquet(paths).project(", ".join(names)).to_arrow_table()
        by_pandas = pd.concat([pd.read_parquet(path, columns=names) for path in paths])
        assert same_rows(adapt(read, source.schema), source)
        assert same_rows(
            pa.Table.from_pandas(by_pandas, schema=source.schema, preserve_index=False), source
        )


def test_the_merged_block_is_sorted_and_knows_where_every_row_came_from(lake: Path) -> None:
    snapshot = bs.open(str(lake / "flights")).snapshot()
    merged = snapshot.scan(columns=["origin", "time_hour", "_source"]).to_table()
    keys = list(zip(merged["origin"].to_pylist(), merged["time_hour"].to_pylist(), strict=True))
    assert keys == sorted(keys)
    (block,) = snapshot.blocks
    assert set(merged["_source"].to_pylist()) == set(block.meta.sources)
    assert len(block.meta.sources) == 14


@pytest.mark.s3
def test_the_same_demo_runs_on_a_real_s3_server(s3_url: str) -> None:
    assert os.environ["AWS_ENDPOINT_URL"].startswith("http://127.0.0.1")
    printed = demo(f"{s3_url}/lake")
    assert "4 results, all equal to those before compaction" in printed
    assert json.loads(
        cli("query", f"{s3_url}/lake/flights", "select count(*) as n from flights", "-o", "json")
    ) == [{"n": 336776}]
