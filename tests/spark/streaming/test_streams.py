"""Streams in a real session: what reaches the table, and what a stream of a table delivers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter

import blockstore as bs
from blockstore import spark as bs_spark
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from tests.support.streams import run_to_end

IDS = pa.schema([("id", pa.int64())])

pytestmark = pytest.mark.timeout(1200)
"""Each micro-batch starts three processes of Python: seconds where nothing else runs, minutes where
much does."""


@pytest.fixture
def source(tmp_path: Path) -> bs.Table:
    table = bs.create(f"{tmp_path}/source", schema=IDS, sort_by=["id"])
    for number in range(3):
        table.append(pa.table({"id": [10 * number, 10 * number + 1]}))
    return table


def follow(session: SparkSession, table: bs.Table, **options: object) -> DataFrame:
    return session.readStream.format("blockstore").options(**options).load(table.url)


def copy(rows: DataFrame, folder: Path, name: str = "sink", **options: object) -> None:
    """Run the stream until everything is there; the same name is the same query."""
    finish(
        rows.writeStream.format("blockstore").options(**options), folder, name, f"{folder}/{name}"
    )


def finish(writer: DataStreamWriter, folder: Path, name: str, target: str | None = None) -> None:
    query = writer.option("checkpointLocation", f"{folder}/{name}-checkpoint").trigger(
        availableNow=True
    )
    run_to_end(lambda: query.start(target))


def ids(url: object) -> list[int]:
    found: list[int] = sorted(bs.open(str(url)).snapshot().scan().to_table()["id"].to_pylist())
    return found


def jobs(url: object) -> list[tuple[str, int]]:
    return [
        (one.job.app, one.job.batch) for one in bs.open(str(url)).history() if one.job is not None
    ]


def crash_before_the_log(folder: Path, batch: int, name: str = "sink") -> None:
    """Leave the checkpoint as a crash after the sink's commit and before Spark's own does."""
    log = folder / f"{name}-checkpoint" / "commits" / str(batch)
    log.unlink()
    log.with_name(f".{batch}.crc").unlink(missing_ok=True)


def test_a_stream_goes_from_table_to_table_to_table_beside_a_compactor(
    spark_session: SparkSession, source: bs.Table, tmp_path: Path
) -> None:
    """One long way, since each micro-batch costs seconds: limits, merges, restarts, batches that
    run again."""
    work = Settings(tier_blocks=2, work_dir=tmp_path / "work")
    copy(follow(spark_session, source, max_blocks=2), tmp_path, sort_by="id")
    assert ids(tmp_path / "sink") == [0, 1, 10, 11, 20, 21]
    (app,) = {app for app, _ in jobs(tmp_path / "sink")}
    assert app.startswith("stream/")
    assert jobs(tmp_path / "sink") == [(app, 0), (app, 1)]

    source.append(pa.table({"id": [30]}))
    compact_once(bs.open(source.url), work)
    source.append(pa.table({"id": [40]}))
    crash_before_the_log(tmp_path, 1)
    copy(follow(spark_session, source), tmp_path, sort_by="id")
    assert ids(tmp_path / "sink") == [0, 1, 10, 11, 20, 21, 30, 40]
    assert jobs(tmp_path / "sink") == [(app, 0), (app, 1), (app, 2)]

    sink = bs.open(f"{tmp_path}/sink")
    compact_once(sink, work)
    copy(follow(spark_session, sink, start="earliest", where="id >= 10"), tmp_path, "second")
    assert ids(tmp_path / "second") == [10, 11, 20, 21, 30, 40]


def test_a_removal_stops_a_stream_with_the_way_on_and_is_passed_over_on_request(
    spark_session: SparkSession, source: bs.Table, tmp_path: Path
) -> None:
    source.delete("id = 0")
    source.append(pa.table({"id": [30]}))
    with pytest.raises(StreamingQueryException, match=r"version 5 .*\(delete\).*on_removal"):
        copy(follow(spark_session, source, start=1), tmp_path)
    assert ids(tmp_path / "sink") == [0, 1, 10, 11, 20, 21]
    copy(follow(spark_session, source, start=1, on_removal="ignore"), tmp_path)
    assert ids(tmp_path / "sink") == [0, 1, 10, 11, 20, 21, 30]


def test_columns_conditions_and_labels_hold_for_blocks_that_lack_the_label(
    spark_session: SparkSession, source: bs.Table, tmp_path: Path
) -> None:
    rows = follow(spark_session, source, labels="cluster", where="cluster = 'eu1' OR id = 1")
    assert rows.columns == ["id", "cluster"]
    source.append(pa.table({"id": [50]}), labels={"cluster": "eu1"})
    source.append(pa.table({"id": [60]}), labels={"cluster": "us1"})
    copy(rows, tmp_path)
    found = bs.open(f"{tmp_path}/sink").snapshot().scan().to_table().sort_by("id").to_pylist()
    assert found == [{"id": 1, "cluster": None}, {"id": 50, "cluster": "eu1"}]


def test_for_each_batch_appends_once_under_the_query_and_refuses_a_name_that_is_taken(
    spark_session: SparkSession, source: bs.Table, tmp_path: Path
) -> None:
    def run(rows: DataFrame, name: str, function: Callable[[DataFrame, int], None]) -> None:
        finish(rows.writeStream.foreachBatch(function), tmp_path, name)

    target = f"{tmp_path}/sink"
    rows = follow(spark_session, source, max_blocks=2)
    run(rows, "each", bs_spark.foreach_batch(target))
    assert ids(target) == [0, 1, 10, 11, 20, 21]
    crash_before_the_log(tmp_path, 1, "each")
    run(rows, "each", bs_spark.foreach_batch(target))
    assert ids(target) == [0, 1, 10, 11, 20, 21]
    assert {app.startswith("stream/") for app, _ in jobs(target)} == {True}

    named = f"{tmp_path}/named"
    run(rows, "first", bs_spark.foreach_batch(named, stream="mine"))
    assert jobs(named) == [("stream/mine", 0), ("stream/mine", 1)]
    with pytest.raises(StreamingQueryException, match=r"already contains batch 1.*another name"):
        run(rows, "other", bs_spark.foreach_batch(named, stream="mine"))


def test_a_query_that_ends_in_its_first_batch_runs_it_again_with_the_same_rows(
    spark_session: SparkSession, source: bs.Table, tmp_path: Path
) -> None:
    def fails(_rows: DataFrame, _batch: int) -> None:
        raise RuntimeError("the power is gone")

    target = f"{tmp_path}/sink"
    rows = follow(spark_session, source, max_blocks=2)
    with pytest.raises(StreamingQueryException, match="the power is gone"):
        finish(rows.writeStream.foreachBatch(fails), tmp_path, "each")
    source.append(pa.table({"id": [30]}))
    compact_once(bs.open(source.url), Settings(tier_blocks=2, work_dir=tmp_path / "work"))
    finish(rows.writeStream.foreachBatch(bs_spark.foreach_batch(target)), tmp_path, "each")
    assert ids(target) == [0, 1, 10, 11, 20, 21, 30]


@pytest.mark.parametrize(
    ("mode", "options", "message"),
    [
        ("complete", {}, "foreachBatch with an overwrite"),
        ("append", {"app": "x", "batch": 1}, "not for streams"),
    ],
)
def test_a_sink_refuses_what_it_cannot_keep(
    spark_session: SparkSession,
    source: bs.Table,
    tmp_path: Path,
    mode: str,
    options: dict[str, Any],
    message: str,
) -> None:
    rows = follow(spark_session, source)
    writer = (rows.groupBy("id").count() if mode == "complete" else rows).writeStream.format(
        "blockstore"
    )
    with pytest.raises(StreamingQueryException, match=message):
        finish(writer.outputMode(mode).options(**options), tmp_path, "sink", f"{tmp_path}/sink")
    shutil.rmtree(f"{tmp_path}/sink-checkpoint", ignore_errors=True)
    with pytest.raises(bs.NotFound):
        bs.open(f"{tmp_path}/sink")
