"""Spark's own Python processes are spared garbage collections of every module, again after each
task that loads many.
"""

from __future__ import annotations

import gc
import os
import pickle
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import blockstore as bs
from blockstore.spark import worker
from blockstore.spark.source import BlockstoreSource
from blockstore.spark.worker import settle
from blockstore.spark.writing.options import write_options
from blockstore.spark.writing.prepare import plan_write
from blockstore.spark.writing.task import write_task
from blockstore.world import World

ROWS = pa.table({"n": pa.array([1, 2, 3], pa.int64())})


@pytest.fixture
def freezes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One number for every time that this process would have been settled."""
    found: list[int] = []
    monkeypatch.setattr(gc, "freeze", lambda: found.append(1))
    monkeypatch.setattr(worker._Settled, "modules", 0)
    return found


def test_a_process_of_its_user_is_left_as_it_is(
    freezes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_REUSE_WORKER", raising=False)
    settle()
    assert not freezes


def test_a_process_of_spark_s_is_settled_once_whatever_it_serves(
    freezes: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPARK_REUSE_WORKER", "1")
    url = str(tmp_path / "table")
    table = bs.create(url, schema=ROWS.schema)
    table.append(ROWS)
    source = BlockstoreSource({"path": url})
    schema = source.schema()
    assert freezes == [1]
    plan = plan_write(schema, write_options({"path": url}, overwrite=False), World.real())
    reader = source.reader(schema)
    serves = (
        source.schema,
        lambda: source.reader(schema),
        lambda: source.writer(schema, overwrite=False),
        lambda: list(reader.read(reader.partitions()[0])),
        lambda: write_task(plan, iter(ROWS.to_batches())),
    )
    for serve in serves:
        monkeypatch.setattr(worker._Settled, "modules", 0)
        freezes.clear()
        serve()
        serve()
        assert freezes == [1], serve


def test_modules_that_a_later_task_loads_are_left_out_as_well(
    freezes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_REUSE_WORKER", "1")
    settle()
    for number in range(49):
        monkeypatch.setitem(sys.modules, f"loaded_{number}", sys)
    settle()
    assert freezes == [1]
    monkeypatch.setitem(sys.modules, "loaded_49", sys)
    settle()
    settle()
    assert freezes == [1, 1]


def test_a_task_in_spark_leaves_its_modules_to_no_collection(
    spark_session: SparkSession, tmp_path: Path
) -> None:
    url = str(tmp_path / "table")
    bs.create(url, schema=ROWS.schema).append(ROWS)
    source = BlockstoreSource({"path": url})
    reader = source.reader(source.schema())
    work = pickle.dumps((reader, reader.partitions()[0]))

    def task(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in numbers:
            one, partition = pickle.loads(work)
            rows = sum(batch.num_rows for batch in one.read(partition))
            counts = [rows, gc.get_freeze_count()]
            yield pa.record_batch([pa.array([count]) for count in counts], names=["rows", "frozen"])

    (answer,) = spark_session.range(1).mapInArrow(task, "rows long, frozen long").collect()
    assert answer.rows == 3
    assert answer.frozen > 10_000


def test_the_workers_of_the_tests_are_forked_from_a_process_that_has_imported(
    spark_session: SparkSession,
) -> None:
    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        above = Path(f"/proc/{os.getppid()}/cmdline").read_text().split("\0")
        archives = [path for path in sys.path if path.endswith((".zip", ".jar"))]
        said = [Path(above[1]).name, "blockstore.spark.source" in sys.modules, archives]
        yield pa.RecordBatch.from_pydict({"said": [repr(said)]})

    rows = spark_session.range(1).repartition(1).mapInArrow(look, "said string").collect()
    assert {row.said for row in rows} == {repr(["spark_workers.py", True, []])}
