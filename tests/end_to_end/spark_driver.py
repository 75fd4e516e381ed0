"""A Spark driver that does as it is told, line by line: the process that ``spark_killing`` kills.

    python -m tests.end_to_end.spark_driver URL FOLDER MASTER

Each line of stdin is a job as JSON; each line of stdout is what happened: ``ready``, ``at POINT``
(it waits there to be killed), ``done {…}`` or ``failed …``. Tasks say in FOLDER that a chunk of
theirs is in the bucket, and wait there.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import blockstore as bs
from blockstore import spark as bs_spark
from blockstore.index.log import Log
from blockstore.lifecycle import upload
from tests.support.spark import CONFS
from tests.support.spark_workers import workers_python

PARTITIONS = 4
WAIT_S = 240.0


def builder(master: str) -> SparkSession.Builder:
    """A session whose executors are processes of their own."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = workers_python()
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    made = SparkSession.builder.master(master).appName("blockstore-killing")
    for name, value in CONFS.items():
        made = made.config(name, value)
    return (
        made.config("spark.executor.memory", "512m")
        .config("spark.executor.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.task.maxFailures", "8")
        .config("spark.stage.maxConsecutiveAttempts", "8")
        .config("spark.executorEnv.PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    )


def frame(spark: SparkSession, job: dict[str, Any], url: str, folder: str) -> Any:
    """``rows`` rows of one batch, after a shuffle; with ``wait`` the first attempts stop once a
    chunk was sent."""
    ids = spark.range(job["first"], job["first"] + job["rows"], 1, PARTITIONS).repartition(
        PARTITIONS, "id"
    )
    rows = ids.select(sf.lit(job["batch"]).cast("long").alias("batch"), "id")
    return (
        rows.mapInArrow(waiting(url, folder, job["number"]), rows.schema) if job["wait"] else rows
    )


def waiting(
    url: str, folder: str, number: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Rows that pass; the first attempt at a partition tells its process and waits to be let go."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        task = TaskContext.get()
        if task is None or task.attemptNumber():
            return
        deadline = time.monotonic() + WAIT_S
        place = Path(folder) / f"{number}-{task.partitionId()}"
        mine = f"/{task.partitionId():06d}-{task.taskAttemptId()}-"
        while time.monotonic() < deadline and not (Path(folder) / f"{number}-go").exists():
            sent = any(mine in str(path) for path in Path(url).glob("*/chunks/*"))
            if sent and not place.exists():
                place.with_suffix(".new").write_text(str(os.getpid()))
                place.with_suffix(".new").rename(place)
            time.sleep(0.02)

    return rows


def stop_at(point: str) -> None:
    """Make this process stop at a point of the next commit, and say so."""
    put_meta, commit = upload._put_meta, Log.commit

    def stop() -> None:
        print(f"at {point}", flush=True)
        time.sleep(WAIT_S)

    def before_meta(*args: Any, **kwargs: Any) -> Any:
        stop()
        return put_meta(*args, **kwargs)

    def before_entry(*args: Any, **kwargs: Any) -> Any:
        stop()
        return commit(*args, **kwargs)

    def after_entry(*args: Any, **kwargs: Any) -> Any:
        answer = commit(*args, **kwargs)
        stop()
        return answer

    if point == "before-meta":
        upload._put_meta = before_meta  # type: ignore[assignment]
    elif point in ("before-entry", "after-entry"):
        Log.commit = before_entry if point == "before-entry" else after_entry  # type: ignore[method-assign]


def run(spark: SparkSession, job: dict[str, Any], url: str, folder: str) -> Any:
    """One write, exactly once."""
    if job["stop"]:
        stop_at(job["stop"])
    rows = frame(spark, job, url, folder)
    named = bs.Job(app="killing", batch=job["number"])
    small = {"buffer_bytes": 16_000, "tune": False}
    if job["overwrite"]:
        return bs_spark.overwrite(rows, url, where=f"batch = {job['batch']}", job=named, **small)
    return bs_spark.append(rows, url, job=named, **small)


def stages_tried_again(spark: SparkSession) -> int:
    """How many stages Spark ran more than once."""
    tracker = spark.sparkContext.statusTracker()
    jobs = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(None))
    stages = {stage for job in jobs if job is not None for stage in job.stageIds}
    found = (tracker.getStageInfo(stage) for stage in stages)
    return sum(info is not None and info.currentAttemptId > 0 for info in found)


def main(url: str, folder: str, master: str) -> None:
    """Serve jobs until stdin ends."""
    spark = builder(master).getOrCreate()
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1000")
    print("ready", flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        try:
            answer = run(spark, job, url, folder)
        except Exception as error:
            print(f"failed {type(error).__name__}: {str(error)[:500]!r}", flush=True)
            continue
        told = {"rows": answer.rows, "already": answer.already, "stages": stages_tried_again(spark)}
        print(f"done {json.dumps(told)}", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
