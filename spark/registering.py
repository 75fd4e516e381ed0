"""Making ``format("blockstore")`` known to a session by hand, where Spark's own lookup does not find it."""

from __future__ import annotations

from typing import Any

from spark.source import BlockstoreSource

__all__ = ["register"]


def register(session: Any) -> None:
    """Make ``format("blockstore")`` known to this session."""
    session.dataSource.register(BlockstoreSource)
