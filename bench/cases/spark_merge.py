"""MERGE on Spark into a table with a key, against what Spark does without a table format: a full
join with bare Parquet files, all of which it writes again."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from bench import inputs
from bench.case import Case, Figures, Metric, Prepare, Scale, Task
from bench.cases.spark_append import NATIVE
from bench.cases.spark_frame import session, url_of

__all__ = ["SPARK_MERGE"]

TIMES = 2


def prepare(task: Task) -> None:
    """The same rows in a table with a key and as bare files, and those that are merged."""
    import blockstore as bs

    table = bs.create(
        url_of(task.directory, "table", durable=False), schema=inputs.SCHEMA, key=["id"]
    )
    bare = task.directory / "bare"
    bare.mkdir()
    for number, rows in enumerate(
        inputs.ordered(task.sizes["blocks"], task.sizes["rows"], task.seed)
    ):
        table.upsert(rows)
        pq.write_table(rows, bare / f"{number}.parquet", compression="zstd", compression_level=1)
    total, many = task.sizes["blocks"] * task.sizes["rows"], task.sizes["source"]
    draw = np.random.default_rng(task.seed)
    there = draw.choice(total, many // 2, replace=False)
    ids = np.sort(np.concatenate([there, np.arange(total, total + many - many // 2)]))
    pq.write_table(inputs.of_ids(ids, draw), task.directory / "news.parquet")


def measure(task: Task) -> Figures:
    """Both take turns in one session, after a turn that is not timed; each merges into a copy."""
    import blockstore as bs
    from blockstore import spark as bs_spark

    spark, many = session(), task.sizes["source"]
    news = spark.read.parquet(str(task.directory / "news.parquet"))
    expected = task.sizes["blocks"] * task.sizes["rows"] + many - many // 2

    def ours(place: Path) -> int:
        merge = bs_spark.merge_into(news, url_of(place, "table", durable=False), on="id")
        merge.when_matched_update().when_not_matched_insert().execute()
        return bs.open(url_of(place, "table", durable=False)).snapshot().count()

    def native(place: Path) -> int:
        _rewritten(spark, news, place / "bare", place / "merged")
        return sum(pq.read_metadata(path).num_rows for path in (place / "merged").glob("*.parquet"))

    spent: dict[str, list[float]] = {"ours": [], "native": []}
    written = {}
    for turn in range(TIMES + 1):
        for name, way in (("ours", ours), ("native", native)):
            place = task.directory / f"{name}-{turn}"
            shutil.copytree(task.directory / "table", place / "table")
            shutil.copytree(task.directory / "bare", place / "bare")
            before = _bytes(place)
            seconds, found = _timed(lambda way=way, place=place: way(place))
            written[name] = (_bytes(place) - before) / 1e6
            if found != expected:
                raise ValueError(f"{name} has {found} rows after the merge, expected {expected}")
            if turn:
                spent[name].append(seconds)
            shutil.rmtree(place)
    seconds = {name: statistics.median(some) for name, some in spent.items()}
    return {
        "ratio": seconds["native"] / seconds["ours"],
        "seconds": seconds["ours"],
        "native_seconds": seconds["native"],
        "written_mb": written["ours"],
        "native_written_mb": written["native"],
    }


def _rewritten(spark: Any, news: Any, bare: Path, to: Path) -> None:
    """All rows after the merge, written again."""
    from pyspark.sql import functions as sf

    source = news.withColumn("_new", sf.lit(True)).alias("s")
    joined = spark.read.parquet(str(bare)).alias("t").join(source, "id", "full")
    columns = [
        sf.when(sf.col("_new"), sf.col(f"s.{name}")).otherwise(sf.col(f"t.{name}")).alias(name)
        for name in inputs.SCHEMA.names
        if name != "id"
    ]
    joined.select("id", *columns).write.options(**NATIVE).parquet(str(to))


def _timed(work: Callable[[], int]) -> tuple[float, int]:
    started = time.perf_counter()
    found = work()
    return time.perf_counter() - started, found


def _bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


SPARK_MERGE = Case(
    name="spark_merge",
    sentence="MERGE of 1 M rows, half of them new, into 10 M by merge_into of Spark, local[2], "
    "against a full join that writes all Parquet files again, in the same session",
    peers=("ours",),
    metrics=(
        Metric(
            name="ratio", unit="x", title="merge against native", higher_is_better=True, digits=2
        ),
        Metric(name="seconds", unit="s", title="merge", higher_is_better=False),
        Metric(name="native_seconds", unit="s", title="native", higher_is_better=False),
        Metric(name="written_mb", unit="MB", title="written", higher_is_better=False),
        Metric(name="native_written_mb", unit="MB", title="by native", higher_is_better=False),
    ),
    sizes={
        Scale.FULL: {"blocks": 10, "rows": 1_000_000, "source": 1_000_000},
        Scale.QUICK: {"blocks": 4, "rows": 250_000, "source": 100_000},
        Scale.TINY: {"blocks": 2, "rows": 2_000, "source": 400},
    },
    rounds=1,
    prepare=Prepare(name="spark_merge", run=prepare),
    measure=measure,
    reference="ours",
)
