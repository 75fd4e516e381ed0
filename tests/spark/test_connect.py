"""Spark Connect: the same writes and reads through a server that shares no memory with the
client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import blockstore as bs

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent

CHILD = """
import json, os, sys
from tests.support.spark_workers import workers_python
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = workers_python()
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
from pyspark.sql import SparkSession
import blockstore as bs, spark as bs_spark
from tests.support.streams import run_to_end

builder = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false")
session = builder.config("spark.sql.shuffle.partitions", "2").config("spark.log.level", "OFF") \
    .getOrCreate()
assert type(session).__module__.startswith("pyspark.sql.connect")
url = sys.argv[1]
job = bs.Job(app="load", batch=1)
first = bs_spark.append(session.range(0, 100, 1, 2), url, sort_by=["id"], job=job)
again = bs_spark.append(session.range(0, 100, 1, 2), url, job=job)
session.range(100, 110).write.format("blockstore").mode("append").save(url)
done = bs_spark.overwrite(session.range(0, 5), url, where="id < 50")
session.range(100, 103).write.format("blockstore").option("where", "id >= 100").mode("overwrite") \
    .save(url)
rows = session.readStream.format("blockstore").option("start", 1).option("on_removal", "ignore") \
    .load(url)
sink = rows.writeStream.format("blockstore").option("checkpointLocation", url + "-checkpoint") \
    .trigger(availableNow=True)
run_to_end(lambda: sink.start(url + "-copy"))
found = bs_spark.read(session, url, where="id < 3")
print(json.dumps({
    "first": [first.version, first.rows, first.chunks],
    "again": [again.version, again.already],
    "done": [done.version, done.rows, done.rows_removed],
    "few": sorted(row.id for row in found.collect()),
    "filtered": session.read.format("blockstore").load(url).where("id >= 100").count(),
    "version": session.read.format("blockstore").option("version", first.version).load(url).count(),
    "streamed": bs.open(url + "-copy").snapshot().count(),
    "how": str(bs_spark.how(found).engine),
}))
session.stop()
"""


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_append_overwrite_filtered_read_version_and_streams_work_across_connect(
    tmp_path: Path,
) -> None:
    """Slow because it starts a Connect server: a client in this process would conflict with the
    classic session."""
    url = str(tmp_path / "numbers")
    child = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHILD, url],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=800,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert child.returncode == 0, child.stderr[-3000:]
    assert json.loads(child.stdout.splitlines()[-1]) == {
        "first": [2, 100, 2],
        "again": [2, True],
        "done": [4, 5, 50],
        "few": [0, 1, 2],
        "filtered": 3,
        "version": 100,
        "streamed": 100 + 10 + 5 + 3,
        "how": "python",
    }
    assert bs.open(url).snapshot().count() == 5 + 50 + 3
