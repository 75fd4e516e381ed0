"""A snapshot and a condition -> the chunks that can match, and their rows. Used by tables, the reader and Spark."""

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
