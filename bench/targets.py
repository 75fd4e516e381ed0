"""What ours is to reach, as data: one target a promise about speed, each against a reference in the
same run.

Owns the numbers; ``docs/benchmarks.md`` is drawn from them and says plainly which are missed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from bench.result import Result
from bench.table import TIMES

__all__ = ["NOT_MEASURED", "TARGETS", "Bound", "Target", "Verdict"]


class Bound(StrEnum):
    """Which side of the goal is the good one."""

    AT_LEAST = "≥"
    AT_MOST = "≤"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A target, measured."""

    measured: float
    """The figure of ours."""
    ratio: float | None
    """Ours over the reference, where the target has one."""
    short_by: float | None
    """The missing share of the goal (0.12 = 12 %); None if the target is reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One promise."""

    case: str
    work: str
    metric: str
    unit: str
    bound: Bound
    goal: float
    ours: str = "ours"
    against: str | None = None
    """The contestant whose figure is the unit of the goal; None = the goal is absolute."""
    beside: str | None = None
    """A contestant whose figure is shown beside ours (the durable one)."""

    def goal_text(self) -> str:
        """The goal as a person reads it."""
        if self.against:
            return f"{self.bound} {self.goal:g} \N{MULTIPLICATION SIGN} {self.against}"
        return f"{self.bound} {self.goal:,g} {self.unit}".rstrip()

    def judge(self, result: Result) -> Verdict | None:
        """The verdict of a run, or None if ours or the reference has no figure in it."""
        measured = result.median(self.ours, self.metric)
        reference = result.median(self.against, self.metric) if self.against else 1.0
        if measured is None or not reference:
            return None
        value = measured / reference
        short = 1 - value / self.goal if self.bound is Bound.AT_LEAST else _excess(value, self.goal)
        return Verdict(
            measured=measured,
            ratio=value if self.against else None,
            short_by=short if short > 0 else None,
        )


def _excess(value: float, goal: float) -> float:
    return value / goal - 1 if goal else value


def _append(
    case: str, work: str, ours: str, goal: float, against: str, beside: str | None
) -> Target:
    return Target(
        case=case,
        work=work,
        metric="commits_per_s",
        unit="/s",
        bound=Bound.AT_LEAST,
        goal=goal,
        ours=ours,
        against=against,
        beside=beside,
    )


def _at_most(
    case: str,
    work: str,
    metric: str,
    unit: str,
    goal: float,
    against: str | None = None,
    ours: str = "ours",
) -> Target:
    return Target(
        case=case,
        work=work,
        metric=metric,
        unit=unit,
        bound=Bound.AT_MOST,
        goal=goal,
        against=against,
        ours=ours,
    )


def _query(case: str, work: str, goal: float) -> tuple[Target, ...]:
    """A query against DuckDB: in one's own process and the whole way of a gateway, warm and the
    first of a process."""
    return tuple(
        _at_most(case, f"… {beside}" if beside else work, metric, "ms", goal, "duckdb", ours)
        for ours, metric, beside in (
            ("ours", "query_ms", ""),
            ("ours-gateway", "query_ms", "through a gateway"),
            ("ours", "first_ms", "the first query"),
            ("ours-gateway", "first_ms", "the first query through a gateway"),
        )
    )


def _merged(case: str, work: str, goal: float, against: str) -> Target:
    return Target(
        case=case,
        work=work,
        metric="rows_per_s",
        unit="M rows/s",
        bound=Bound.AT_LEAST,
        goal=goal,
        against=against,
    )


def _times_native(
    case: str, work: str, metric: str, goal: float, beside: str | None = None
) -> Target:
    return Target(
        case=case,
        work=work,
        metric=metric,
        unit="\N{MULTIPLICATION SIGN} native",
        bound=Bound.AT_LEAST,
        goal=goal,
        beside=beside,
    )


def _at_latency(
    case: str,
    work: str,
    goal: float,
    against: str | None,
    ours: str = "ours-s3",
    metric: str = "ms_25",
    unit: str = "ms",
) -> Target:
    return _at_most(case, work, metric, unit, goal, against, ours)


def _times(
    case: str, work: str, goal: float, metric: str = "ratio", ours: str = "ours-s3"
) -> Target:
    return Target(
        case=case,
        work=work,
        metric=metric,
        unit="\N{MULTIPLICATION SIGN}",
        bound=Bound.AT_LEAST,
        goal=goal,
        ours=ours,
    )


def _large(case: str, work: str, metric: str, unit: str, goal: float) -> Target:
    return _at_most(case, work, metric, unit, goal, ours="ours-leaves")


def _scale(case: str, files: str, cpu_s: float, memory_mib: float) -> tuple[Target, ...]:
    work = f"open a table of {files} files and plan a query of one row"
    return (
        _large(case, work, "plan_cpu_s", "s CPU", cpu_s),
        _large(case, "… memory", "plan_mib", "MiB", memory_mib),
    )


TARGETS = (
    _at_latency("s3-append", "append 1,000 rows", 1.0, "lance-s3"),
    _times("s3-group64", "64 threads on one handle, against one thread", 10),
    _at_latency("s3-open", "open and count after 24 commits", 1.0, "lance-s3"),
    _at_latency("s3-point", "1,000 of 10 M rows, cold", 0.8, "polars-s3"),
    _at_latency("s3-point", "… by SQL", 0.8, "polars-s3", "ours-sql-s3"),
    _at_latency("s3-point", "… by a gateway", 0.8, "polars-s3", "ours-gateway-s3"),
    _at_latency("s3-point", "… received", 1, None, metric="down_mib", unit="MiB"),
    _at_latency(
        "s3-point", "… the same, warm: round trips", 1, None, metric="again_depth", unit=""
    ),
    _at_latency(
        "s3-point", "… other rows, warm: round trips", 1, None, metric="warm_depth", unit=""
    ),
    _at_latency("s3-groupby", "group-by over 10 M rows, cold", 1.0, "polars-s3"),
    _at_latency("s3-groupby", "… by SQL", 1.0, "polars-s3", "ours-sql-s3"),
    _at_latency("s3-groupby", "… by a gateway", 1.0, "polars-s3", "ours-gateway-s3"),
    _at_latency(
        "s3-groupby", "… received by SQL", 1.05, "floor-s3", "ours-sql-s3", "down_mib", "MiB"
    ),
    _at_latency(
        "s3-scale-1m",
        "plan a query of one of 1,000,000 files, cold: round trips",
        6,
        None,
        "ours-leaves-s3",
        "depth",
        "",
    ),
    _times("s3-merge", "merge 100 blocks of 200,000 rows, against a folder", 0.8),
    _times("s3-spark", "Spark scan of 10 M rows, against pyarrow in its tasks", 0.9, "read_ratio"),
    _times("s3-spark", "… by the data source", 0.9, "source_ratio"),
    _append(
        "append", "300 appends of 1,000 rows, aged", "ours-aged", 0.85, "floor", "ours-aged-durable"
    ),
    _append("append", "300 appends of 1,000 rows, published", "ours", 1.0, "lance", "ours-durable"),
    _at_most("append", "the last 50 appends against the first 50", "aging", "", 1.1),
    _at_most("aging", "the last 50 of 10,000 appends against the first 50", "aging", "", 1.1),
    _append(
        "append16", "40 appends by each of 16 processes, aged", "ours-aged", 0.8, "floor", None
    ),
    _append(
        "append16",
        "40 appends by each of 16 processes, published",
        "ours",
        2.0,
        "lance",
        "ours-durable",
    ),
    _at_most("append16", "… refused to the user", "refused_percent", "%", 0),
    _at_most("append16", "… 99th percentile of an append", "p99_ms", "ms", 500),
    _at_most("open-10k", "open and list 10,000 blocks", "open_ms", "ms", 25),
    _at_most(
        "open-10k", "… requests, without the entries from the checkpoint on", "beyond_tail", "", 6
    ),
    _at_most("open-100k", "open and list 100,000 blocks", "open_ms", "ms", 250),
    _at_most("poll", "poll with nothing new, 1,000 commits", "poll_ms", "ms", 0.5),
    _at_most("poll", "… requests of a poll", "requests", "", 2),
    _at_most("poll-1m", "poll with nothing new, 1,000,000 blocks", "poll_ms", "ms", 0.5),
    _at_most("poll-1m", "… requests of a poll", "requests", "", 2),
    *_scale("scale-1m", "1,000,000", 1.5, 400),
    *_scale("scale-10m", "10,000,000", 3, 600),
    _large("scale-1m", "… plan of everything, gone through", "all_cpu_s", "s CPU", 5),
    _large("scale-1m", "… memory", "all_mib", "MiB", 1_536),
    _large("scale-100k", "a commit to 100,000 files, against 1,000", "commit_ratio", TIMES, 1.2),
    _large("scale-1m", "… to 1,000,000", "commit_ratio", TIMES, 1.2),
    _large("scale-10m", "… to 10,000,000", "commit_ratio", TIMES, 1.2),
    _large("scale-1m", "plan merges of 1,000,000 files, 100 new", "merges_cpu_s", "s CPU", 2),
    _large("scale-1m", "… memory", "merges_mib", "MiB", 300),
    _merged("merge_wide", "merge 100 blocks of 200,000 sorted rows, sorted output", 1.5, "duckdb"),
    _merged("merge_wide", "… against DuckDB within the same memory", 1.5, "duckdb-1gib"),
    _at_most("merge_wide", "… peak memory", "memory_mib", "MiB", 1_024),
    _merged("merge_small", "merge 1,000 blocks of 1,000 rows", 1.0, "duckdb"),
    _at_most("merge_10gb", "merge 10 GB: peak memory", "memory_mib", "MiB", 1_024 + 256),
    _times("merge_spark", "merge on Spark, per core, against here", 0.9, ours="ours"),
    _times("merge_spark", "… as 8 merges", 0.9, "many_ratio", "ours"),
    _at_most("point", "point range of 10 M rows", "query_ms", "ms", 1.0, "duckdb"),
    _at_most("groupby", "group-by over all of 10 M rows", "query_ms", "ms", 1.1, "duckdb"),
    _at_most(
        "start", "start a command that counts a small table's rows", "query_ms", "ms", 1.8, "duckdb"
    ),
    *_query("point-20", "point range of 10 M rows in 20 files", 1.0),
    *_query("groupby-20", "group-by over 10 M rows in 20 files", 1.1),
    *_query("count-20", "count of 10 M rows in 20 files", 1.1),
    *_query("point-2000", "point range of 10 M rows in 2,000 blocks", 1.0),
    *_query("groupby-2000", "group-by over 10 M rows in 2,000 blocks", 1.1),
    *_query("count-2000", "count of 10 M rows in 2,000 blocks", 1.1),
    _at_most(
        "engines_scan",
        "PyIceberg groups 10 M rows of our export",
        "pyiceberg_ms",
        "ms",
        1.05,
        "iceberg",
    ),
    _at_most("engines_scan", "… DuckDB", "duckdb_ms", "ms", 1.05, "iceberg"),
    Target(
        case="doors",
        work="10 M rows by Flight SQL, times the rate of HTTP",
        metric="flight_to_http",
        unit="x",
        bound=Bound.AT_LEAST,
        goal=0.8,
    ),
    Target(
        case="doors",
        work="… times the rate of Postgres",
        metric="flight_to_postgres",
        unit="x",
        bound=Bound.AT_LEAST,
        goal=3,
    ),
    _at_most("rows_update", "update 10,000 scattered rows of 5 M by key", "update_ms", "ms", 50),
    _at_most("rows_update", "… written", "written_mb", "MB", 0.5),
    _at_most("rows_update", "… group-by after it, times raw DuckDB", "unmerged_ratio", "", 1.5),
    _at_most("rows_update", "… after 100 updates and a merge", "hundred_ratio", "", 2.5),
    _at_most("rows_update", "… once all is old and merged", "merged_ratio", "", 1.1),
    _at_most("rows_point", "one row of 10 M by its key", "lookup_ms", "ms", 1.5),
    _at_most("rows_point", "… through a gateway", "lookup_ms", "ms", 3, None, "ours-gateway"),
    _at_most(
        "rows_update16", "16 processes update rows of their own: refused", "refused_percent", "%", 0
    ),
    Target(
        case="rows_update16",
        work="… times the rate of appends",
        metric="of_appends",
        unit="",
        bound=Bound.AT_LEAST,
        goal=0.7,
    ),
    Target(
        case="rows_update16",
        work="… by key instead of by a condition",
        metric="by_key_of_appends",
        unit="",
        bound=Bound.AT_LEAST,
        goal=0.7,
    ),
    Target(
        case="rows_merge",
        work="MERGE of 1 M rows into 10 M by key",
        metric="rows_per_s",
        unit="M rows/s",
        bound=Bound.AT_LEAST,
        goal=2.0,
        against="delta",
    ),
    Target(
        case="rows_merge",
        work="… by a statement",
        metric="rows_per_s",
        unit="M rows/s",
        bound=Bound.AT_LEAST,
        goal=2.0,
        ours="ours-sql",
        against="delta",
    ),
    _at_most("rows_merge", "… peak memory", "memory_mib", "MiB", 1_024),
    _at_most(
        "rows_merge", "… peak memory of the statement", "memory_mib", "MiB", 1_024, None, "ours-sql"
    ),
    _times_native("spark_merge", "MERGE of 1 M rows into 10 M by Spark", "ratio", 1.0),
    Target(
        case="spark_stream",
        work="Spark stream of upserts, 1 M rows in 100 micro-batches, times the rate of appends",
        metric="ratio",
        unit="",
        bound=Bound.AT_LEAST,
        goal=0.5,
    ),
    _times_native(
        "spark_append", "Spark append of 10 M rows, by function", "ratio", 1.25, "ours-durable"
    ),
    _times_native("spark_append", "… by format", "format_ratio", 1.15, "ours-durable"),
    _times_native("spark_read", "Spark full scan of 10 M rows, by function", "scan_ratio", 0.95),
    _times_native("spark_read", "… prunable filter", "prunable_ratio", 0.95),
    _times_native("spark_read", "… other filter", "filter_ratio", 0.95),
    _times_native(
        "spark_read", "… full scan by Python in Spark's tasks", "scan_python_ratio", 0.67
    ),
    _times_native(
        "spark_read", "… prunable filter by Python in Spark's tasks", "prunable_python_ratio", 0.67
    ),
    _times_native("spark_read", "… full scan by the data source", "scan_source_ratio", 0.67),
    _times_native(
        "spark_read", "… full scan by the data source, not_null", "scan_declared_ratio", 0.67
    ),
    _times_native(
        "spark_read", "… prunable filter by the data source", "prunable_source_ratio", 0.67
    ),
)

NOT_MEASURED = (
    ("Spark append at latency", "its JVM has no S3 connector here"),
    (
        "Gateway and compactor over 10,000 tables",
        "counted in simulated time, see [what grows with what](scale.md)",
    ),
    ("DuckLake", "its DuckDB extension is fetched at run time, and no bench may need the network"),
)
