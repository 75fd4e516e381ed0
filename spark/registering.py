"""Making ``format("blockstore")`` known to a session by hand, where Spark's own lookup does not
find it: it needs every ``pyspark_*`` module to be importable, and for a write an active session in
the thread."""

from __future__ import annotations

from typing import Any

from blockstore.spark.source import BlockstoreSource

__all__ = ["register"]


def register(session: Any) -> None:
    """Make ``format("blockstore")`` known to this session, and the session to the thread that
    calls.

    In a thread that did not make the session, ``save`` ends as DATA_SOURCE_NOT_FOUND until then:
    Spark looks up the format of a write in the session that is active in the thread, and there is
    none."""
    session.dataSource.register(BlockstoreSource)
    if not type(session).__module__.startswith("pyspark.sql.connect"):
        session._jvm.SparkSession.setActiveSession(session._jsparkSession)
