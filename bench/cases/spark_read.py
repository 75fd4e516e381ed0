"""Spark reads a table: ours by ``spark.read``, by Python in its tasks and by the data source (as it
is, and with ``not_null``), against Spark's own reader of its own files.

The same rows in the same order lie in both; filters have other literals in every turn.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.case import Case, Figures, Metric, Scale, Task
from bench.cases.spark_append import NATIVE
from bench.cases.spark_frame import medians, rows, session, url_of

__all__ = ["SPARK_READ"]

TIMES = 5
RANGE_ROWS = 50_000
WORK = ("scan", "prunable", "filter", "count")

WAYS = {
    "read": ("_ratio", ""),
    "python": ("_python_ratio", " by Python"),
    "source": ("_source_ratio", " by the data source"),
    "declared": ("_declared_ratio", " by the data source, not_null,"),
}
"""Our ways to read: how the name of each one's figure ends, and its title."""


def measure(task: Task) -> Figures:
    """Seconds of each kind of work by each way, and the ratios to native."""
    import blockstore as bs
    from blockstore import spark as bs_spark

    spark, count, draw = session(), task.sizes["rows"], random.Random(task.seed)
    url, plain = url_of(task.directory, "table", durable=False), str(task.directory / "plain")
    frame = rows(spark, count)
    frame.write.options(**NATIVE).parquet(plain)
    bs_spark.append(frame, url, sort_by=["id"])
    openers: dict[str, Callable[[str | None], Any]] = {
        "native": lambda where: _where(spark.read.parquet(plain), where),
        "read": lambda where: bs_spark.read(spark, url, where=where),
        "python": lambda where: bs_spark.read(spark, url, where=where, engine="python"),
        "source": lambda where: _source(spark, where).load(url),
        "declared": lambda where: _source(spark, where).option("not_null", "true").load(url),
    }
    figures: dict[str, float] = {}
    for work in WORK:
        drawn = random.Random(draw.random())
        ways = {name: _way(work, opener, count, drawn) for name, opener in openers.items()}
        spent = medians(ways, task.directory, TIMES)
        for way, (ratio, _) in WAYS.items():
            figures[f"{work}{ratio}"] = spent["native"] / spent[way]
        figures[f"{work}_s"] = spent["read"]
    found = bs.open(url).snapshot().count()
    if found != count:
        raise ValueError(f"{found} rows by metadata, expected {count}")
    return figures


def _way(
    work: str, opener: Callable[[str | None], Any], count: int, draw: random.Random
) -> Callable[[Path], None]:
    def scan(_: Path) -> None:
        opener(None).write.format("noop").mode("overwrite").save()

    def prunable(_: Path) -> None:
        width = min(RANGE_ROWS, count // 4)
        low = draw.randrange(count - width)
        _expect(opener(f"id >= {low} AND id < {low + width}").count(), width)

    def filtered(_: Path) -> None:
        limit = draw.randrange(20, 40)
        found = opener(f"delay < {limit}").count()
        if not count * (limit - 8) / 1000 < found < count * (limit + 8) / 1000 and count > 100_000:
            raise ValueError(f"{found} rows with delay < {limit} of {count}")

    def counted(_: Path) -> None:
        _expect(opener(None).count(), count)

    return {"scan": scan, "prunable": prunable, "filter": filtered, "count": counted}[work]


def _source(spark: Any, where: str | None) -> Any:
    return spark.read.format("blockstore").options(**({} if where is None else {"where": where}))


def _where(frame: Any, where: str | None) -> Any:
    return frame if where is None else frame.where(where)


def _expect(found: int, expected: int) -> None:
    if found != expected:
        raise ValueError(f"{found} rows, expected {expected}")


SPARK_READ = Case(
    name="spark_read",
    sentence="read 10 M rows of 6 columns by Spark, local[2], against spark.read.parquet of its "
    "own files, in one session",
    peers=("ours",),
    metrics=tuple(
        metric
        for work, title in zip(
            WORK, ("full scan", "prunable filter", "other filter", "count"), strict=True
        )
        for metric in (
            *(
                Metric(
                    name=f"{work}{ratio}",
                    unit="x",
                    title=f"{title}{by} against native",
                    higher_is_better=True,
                    digits=2,
                )
                for ratio, by in WAYS.values()
            ),
            Metric(name=f"{work}_s", unit="s", title=title, higher_is_better=False, digits=2),
        )
    ),
    sizes={
        Scale.FULL: {"rows": 10_000_000},
        Scale.QUICK: {"rows": 1_000_000},
        Scale.TINY: {"rows": 2_000},
    },
    rounds=2,
    measure=measure,
    reference="ours",
)
