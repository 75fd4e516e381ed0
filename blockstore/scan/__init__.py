"""A snapshot and a condition -> the chunks that can match, and their rows. Used by tables, the
reader and Spark.

Its parts are loaded when they are used: who plans need not read.
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
