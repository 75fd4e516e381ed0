"""Speculation on a real cluster: a standalone master and two workers on different loopback
addresses.

Spark only tries a slow task a second time on another host, so that nothing smaller shows it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import blockstore as bs
from tests.support.cluster import standalone

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]

CHILD = """
import json, sys, time
from pathlib import Path
from pyspark import TaskContext
from blockstore import spark as bs_spark
from tests.end_to_end.spark_driver import builder

url, master = sys.argv[1:]
session = builder(master).config("spark.speculation", "true") \
    .config("spark.speculation.interval", "100ms") \
    .config("spark.speculation.quantile", "0.5") \
        .config("spark.speculation.minTaskRuntime", "100ms").getOrCreate()
session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1000")

def slow_once(batches):
    yield from batches
    task = TaskContext.get()
    if task.partitionId() == 0 and task.attemptNumber() == 0:
        time.sleep(240)     # Spark kills it once the other attempt has won

rows = session.range(0, 40_000, 1, 4)
rows = rows.mapInArrow(slow_once, rows.schema)
print(json.dumps({"rows": bs_spark.append(rows, url, buffer_bytes=16_000, tune=False).rows}))
session.stop()
"""


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The address of a master with two workers of one core each."""
    with standalone(
        tmp_path, memory="1g", environment={**os.environ, "PYTHONPATH": str(ROOT)}
    ) as address:
        yield address


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_of_a_task_that_ran_twice_on_two_hosts_one_attempt_is_listed(
    tmp_path: Path, master: str
) -> None:
    """Slow because it starts a cluster."""
    url = str(tmp_path / "numbers")
    child = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHILD, url, master],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=800,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert child.returncode == 0, child.stderr[-3000:]
    assert json.loads(child.stdout.splitlines()[-1]) == {"rows": 40_000}
    (block,) = bs.open(url).snapshot().blocks
    listed = {Path(file.path).name for file in block.meta.chunks}
    there = {path.name for path in Path(url).glob("*/chunks/*.parquet")}
    (winner,) = {int(name.split("-")[1]) for name in listed if name.startswith("000000-")}
    assert winner >= 4, "the first attempts are 0 to 3: that at the slow task did not win"
    assert listed <= there
    assert sorted(bs.open(url).snapshot().scan().to_table()["id"].to_pylist()) == list(
        range(40_000)
    )
