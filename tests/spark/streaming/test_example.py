"""The streaming example runs, and says what it promises."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).parents[3] / "examples" / "spark_streaming.py"


@pytest.mark.timeout(1200)
def test_the_streaming_example_counts_every_reading_once(
    spark_session: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runpy.run_path(str(EXAMPLE))["main"](spark_session, str(tmp_path))
    said = capsys.readouterr().out
    assert "2,000 readings in 2 blocks" in said
    assert "merged into 1" in said
    assert "20 alarms" in said
