"""Scans: from a snapshot and a condition to the chunks that can match, and to their rows.

The problem: a table has many blocks, written under several schemas and merged at different times.
A query should read few of them, and three engines (pyarrow here, DuckDB in the reader, Spark) must
return the same rows.

The mental model: planning and reading are apart. Planning is pure: a ``Snapshot`` (a fixed set of
blocks) and a condition give a ``ScanPlan``, a list of ``ScanChunk``. Each says everything that an
engine must apply: columns to rename, widen or fill with nulls, constant labels, rows to leave out
by their source, and whether the condition is certain to hold. Any engine that applies the plan
returns the same rows; ``read_plan`` is the reference.

Pruning goes from cheap to expensive and never drops a matching row:
1. blocks, by time range and labels, then by the ranges of their columns (``candidates.py``,
   ``sieve.py``);
2. chunks, by their statistics (``plan.py``);
3. row groups and pages, by the file's own footer (``groups.py``, ``page_rows.py``).

Chunks that are local files are read as files. Remote ones are read by ranges (``remote_rows.py``,
``fetch/``), many at once, and only those that the columns and the condition need.

Example::

    plan = plan_scan(snapshot, columns=["origin"], where="dep_delay > 60")
    plan.pruned.chunks_by_statistics    # how many chunks were left out
    rows = read_plan(bucket, plan, world).read_all()

Names are imported at their first use: planning does not load what reading needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from blockstore.lazy import lazy

if TYPE_CHECKING:
    from blockstore.scan.chunk import HIDDEN, ColumnRead, ScanChunk, ScanGroup
    from blockstore.scan.execute import count_rows, read_plan
    from blockstore.scan.plan import Pruned, ScanPlan, TimeRange, plan_scan
    from blockstore.scan.snapshot import Snapshot

__all__ = [
    "HIDDEN",
    "ColumnRead",
    "Pruned",
    "ScanChunk",
    "ScanGroup",
    "ScanPlan",
    "Snapshot",
    "TimeRange",
    "count_rows",
    "plan_scan",
    "read_plan",
]

__getattr__ = lazy(
    __name__,
    {
        ".chunk": ("ColumnRead", "HIDDEN", "ScanChunk", "ScanGroup"),
        ".execute": ("count_rows", "read_plan"),
        ".plan": ("Pruned", "ScanPlan", "TimeRange", "plan_scan"),
        ".snapshot": ("Snapshot",),
    },
)
