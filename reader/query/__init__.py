"""SQL over snapshots: DuckDB reads pruned lists of Parquet files, locked away from everything else.

Names are loaded when they are used: the process that runs a query needs a few of these modules
only, and starts in half the time without the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from blockstore.lazy import lazy

if TYPE_CHECKING:
    from blockstore.reader.query.answer import Answer, Read
    from blockstore.reader.query.ask import query
    from blockstore.reader.query.budget import Budget, Capacity
    from blockstore.reader.query.engine import Engine
    from blockstore.reader.query.instance import Limits
    from blockstore.reader.query.source import Fixed, Source

__all__ = ["Answer", "Budget", "Capacity", "Engine", "Fixed", "Limits", "Read", "Source", "query"]

__getattr__ = lazy(
    __name__,
    {
        ".answer": ("Answer", "Read"),
        ".ask": ("query",),
        ".budget": ("Budget", "Capacity"),
        ".engine": ("Engine",),
        ".instance": ("Limits",),
        ".source": ("Fixed", "Source"),
    },
)
