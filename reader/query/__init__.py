"""SQL over snapshots: DuckDB reads pruned lists of Parquet files, and nothing else.

A query takes a snapshot of each table that it names, finds by statistics which files can contain
rows that matter, and gives DuckDB one view per table over these files. The SQL may come from a
stranger: it is parsed and checked first (``sql/``), and DuckDB runs locked, in a gateway in a
separate process (``runners/``).

    Engine     runs queries over a Source; admission, limits and errors are here (engine.py)
    Source     where snapshots come from: a gateway's Tables, or Fixed ones (source.py)
    Answer     a running query: its rows, what it reads, and how to stop it (answer.py)
    Budget     the limits of one query; Capacity: those of an engine (admission.py)
    query      one query over URLs, without a gateway (ask.py)

    sql/       the SQL: what is allowed, which conditions prune, which views DuckDB gets
    runners/   where DuckDB runs: in this process or in others, and how each is locked

Example::

    with Engine({"flights": snapshot}) as engine:
        rows = engine.query("select count(*) from flights").read_all()

Names are loaded lazily: the process that runs a query needs few of these modules, and starts in
half the time without the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from blockstore.lazy import lazy

if TYPE_CHECKING:
    from blockstore.reader.query.admission import Budget, Capacity
    from blockstore.reader.query.answer import Answer, Read
    from blockstore.reader.query.ask import query
    from blockstore.reader.query.engine import Engine
    from blockstore.reader.query.runners.instance import Limits
    from blockstore.reader.query.source import Fixed, Source

__all__ = ["Answer", "Budget", "Capacity", "Engine", "Fixed", "Limits", "Read", "Source", "query"]

__getattr__ = lazy(
    __name__,
    {
        ".answer": ("Answer", "Read"),
        ".ask": ("query",),
        ".admission": ("Budget", "Capacity"),
        ".engine": ("Engine",),
        ".runners.instance": ("Limits",),
        ".source": ("Fixed", "Source"),
    },
)
