"""The Spark benches measure what they claim, at a tiny size and in the session of the tests.

Nothing is timed.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bench import peers
from bench.case import Scale, Task
from bench.cases import CASES, spark_append, spark_read


@pytest.mark.parametrize("name", ["spark_append", "spark_read", "spark_merge", "merge_spark"])
def test_a_spark_bench_gives_every_figure(
    spark_session: SparkSession, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_append, "TIMES", 1)
    monkeypatch.setattr(spark_read, "TIMES", 1)
    case = CASES[name]
    task = Task(peer=peers.load("ours"), directory=tmp_path, sizes=case.sizes[Scale.TINY], seed=1)
    if case.prepare is not None:
        case.prepare.run(task)
    figures = case.measure(task)
    assert {metric.name for metric in case.metrics} == set(figures)
    assert all(figure > 0 for figure in figures.values())
