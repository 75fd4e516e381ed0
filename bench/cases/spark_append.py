"""A Spark job that appends rows: ours by function and by format, against Spark's own Parquet writer
in the same session."""

from __future__ import annotations

from pathlib import Path

from bench.case import Case, Figures, Metric, Scale, Task
from bench.cases.spark_frame import SETTINGS, medians, rows, session, url_of

__all__ = ["SPARK_APPEND"]

NATIVE = {"compression": "zstd", "parquet.compression.codec.zstd.level": "1"}
TIMES = 3


def measure(task: Task) -> Figures:
    """All ways take turns in one session.

    Ours commits atomically, with statistics and hashes; native only writes files.
    """
    import blockstore as bs
    from blockstore import spark as bs_spark

    spark, count = session(), task.sizes["rows"]
    durable = task.peer.name == "ours-durable"
    frame = rows(spark, count)

    def native(place: Path) -> None:
        frame.write.options(**NATIVE).parquet(str(place))

    def function(place: Path) -> None:
        bs_spark.append(frame, url_of(place, "table", durable=durable))

    def by_format(place: Path) -> None:
        kept = {name: spark.conf.get(name) for name in SETTINGS}
        for name, value in SETTINGS.items():
            spark.conf.set(name, value)
        frame.write.format("blockstore").mode("append").save(
            url_of(place, "table", durable=durable)
        )
        for name, value in kept.items():
            spark.conf.set(name, value)

    spent = medians(
        {"native": native, "function": function, "format": by_format}, task.directory, TIMES
    )
    proof = task.directory / "proof"
    function(proof)
    found = bs.open(url_of(proof, "table", durable=durable)).snapshot().count()
    if found != count:
        raise ValueError(f"{found} rows, expected {count}")
    return {
        "ratio": spent["native"] / spent["function"],
        "format_ratio": spent["native"] / spent["format"],
        "native_rows_per_s": count / spent["native"] / 1e6,
        "rows_per_s": count / spent["function"] / 1e6,
        "format_rows_per_s": count / spent["format"] / 1e6,
    }


SPARK_APPEND = Case(
    name="spark_append",
    sentence="append 10 M rows of 6 columns by Spark, local[2], against df.write.parquet (zstd 1) "
    "in the same session",
    peers=("ours", "ours-durable"),
    metrics=(
        Metric(
            name="ratio", unit="x", title="append against native", higher_is_better=True, digits=2
        ),
        Metric(
            name="format_ratio",
            unit="x",
            title="format against native",
            higher_is_better=True,
            digits=2,
        ),
        Metric(name="rows_per_s", unit="M rows/s", title="append", higher_is_better=True, digits=2),
        Metric(
            name="format_rows_per_s",
            unit="M rows/s",
            title="format",
            higher_is_better=True,
            digits=2,
        ),
        Metric(
            name="native_rows_per_s",
            unit="M rows/s",
            title="native Parquet",
            higher_is_better=True,
            digits=2,
        ),
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
