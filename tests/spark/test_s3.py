"""Spark on an object store: executors reach it in Python, and no Hadoop connector is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import blockstore as bs

ROOT = Path(__file__).parent.parent.parent

CHILD = """
import json, sys
import blockstore as bs, spark as bs_spark
from tests.support.spark import start_session
from tests.support.streams import run_to_end

session, url = start_session(), sys.argv[1]
first = bs_spark.append(session \
    .range(0, 1000, 1, 4), url, sort_by=["id"], job=bs.Job(app="load", batch=1))
session.range(1000, 1010).write.format("blockstore").mode("append").save(url)
over = bs_spark.overwrite(session.range(500, 503), url, where="id >= 500 AND id < 1000")
rows = session.readStream.format("blockstore").option("start", 1).option("on_removal", "ignore") \
    .load(url)
sink = rows.writeStream.format("blockstore").option("checkpointLocation", sys.argv[2]) \
    .trigger(availableNow=True)
run_to_end(lambda: sink.start(f"{url}-copy"))
print(json.dumps({
    "chunks": first.chunks,
    "over": [over.version, over.rows, over.rows_removed],
    "how": bs_spark.how(session, url).reason,
    "all": bs_spark.read(session, url).count(),
    "few": [row.id for row in bs_spark.read(session, url, where="id < 2").orderBy("id").collect()],
    "then": session.read.format("blockstore").option("version", first.version).load(url).count(),
    "streamed": bs.open(f"{url}-copy").snapshot().count(),
}))
"""


@pytest.mark.spark
@pytest.mark.s3
@pytest.mark.timeout(900)
def test_a_table_on_s3_is_written_read_and_streamed_without_a_connector(
    s3_url: str, tmp_path: Path
) -> None:
    """A Spark of its own, since Spark's processes take the store's address from the environment
    they start in."""
    child = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHILD, s3_url, str(tmp_path)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True,
        timeout=800,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    said = json.loads(child.stdout.splitlines()[-1])
    assert said == {
        "chunks": 4,
        "over": [4, 3, 500],
        "how": "Spark has no S3A connector (hadoop-aws) on its class path",
        "all": 513,
        "few": [0, 1],
        "then": 1000,
        "streamed": 1000 + 10 + 3,
    }
    assert bs.open(s3_url).snapshot().count() == 513
