"""A snapshot and a condition -> the chunks that can match, and their rows. Used by tables, the
reader and Spark.

Its parts are loaded when they are used: who plans need not read.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

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

_LAZY = {
    "ColumnRead": "blockstore.scan.chunk",
    "HIDDEN": "blockstore.scan.chunk",
    "Pruned": "blockstore.scan.plan",
    "ScanChunk": "blockstore.scan.chunk",
    "ScanGroup": "blockstore.scan.chunk",
    "ScanPlan": "blockstore.scan.plan",
    "Snapshot": "blockstore.scan.snapshot",
    "TimeRange": "blockstore.scan.plan",
    "count_rows": "blockstore.scan.execute",
    "plan_scan": "blockstore.scan.plan",
    "read_plan": "blockstore.scan.execute",
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module 'blockstore.scan' has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value
