"""The example that the guide points to runs, and says what it promises."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "spark_batch.py"


def test_the_batch_example_writes_retries_reads_and_goes_back(
    spark_session: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runpy.run_path(str(EXAMPLE))["main"](spark_session, str(tmp_path / "flights"))
    said = capsys.readouterr().out
    assert "version 3: 50,000 rows" in said
    assert "run again: still block" in said
    assert "rows: 50,000 before february, 100,000 after" in said
