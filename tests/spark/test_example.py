"""The examples that the guide points to run, and say what they promise."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


def run(name: str, session: SparkSession, url: Path) -> None:
    runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"](session, str(url))


def test_the_batch_example_writes_retries_reads_and_goes_back(
    spark_session: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("spark_batch", spark_session, tmp_path / "flights")
    said = capsys.readouterr().out
    assert "version 3: 50,000 rows" in said
    assert "run again: still block" in said
    assert "rows: 50,000 before february, 100,000 after" in said


def test_the_backfill_fills_days_in_any_order_and_each_once(
    spark_session: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("spark_backfill", spark_session, tmp_path / "readings")
    said = capsys.readouterr().out
    assert "2024-01-03: is version 5" in said
    assert "2024-01-01: is version 6" in said
    assert "2024-01-03: was written before, by version 5" in said
    for day, total in ((1, "999,000"), (2, "499,500"), (3, "999,000")):
        assert f"2024-01-0{day}: 1,000 rows, total {total}" in said
    assert "by Spark's Parquet reader" in said


def test_the_retried_task_counts_once(
    spark_session: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("spark_retry", spark_session, tmp_path / "orders")
    said = capsys.readouterr().out
    assert "attempt 1 failed: ConnectionError" in said
    assert "written once, by version 2; this attempt wrote nothing: True" in said
    assert "rows: 1,000" in said
