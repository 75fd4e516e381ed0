"""SQL over snapshots: DuckDB reads pruned lists of Parquet files, locked away from everything else.

Names are loaded when they are used: the process that runs a query needs a few of these modules
only, and starts in half the time without the others.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from blockstore.reader.query.admission import Budget, Capacity
    from blockstore.reader.query.answer import Answer, Read
    from blockstore.reader.query.ask import query
    from blockstore.reader.query.engine import Engine
    from blockstore.reader.query.runners.instance import Limits
    from blockstore.reader.query.source import Fixed, Source

__all__ = ["Answer", "Budget", "Capacity", "Engine", "Fixed", "Limits", "Read", "Source", "query"]

_HOMES = {
    "Answer": "answer",
    "Budget": "admission",
    "Capacity": "admission",
    "Engine": "engine",
    "Fixed": "source",
    "Limits": "runners.instance",
    "Read": "answer",
    "Source": "source",
    "query": "ask",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
