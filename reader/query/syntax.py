"""DuckDB's parser: what it makes of a text, as JSON.

A client that sends values as parameters sends the same text again and again: what was made of a short one is kept. It says
nothing of tables or rows, so it is good for ever.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache

import duckdb

from reader.query.types import text

__all__ = ["Syntax"]

_KEPT = 256
_SHORT = 4_096
"""Characters; the JSON is twenty times as long."""


_PREPARE = "PREPARE parsed AS SELECT json_serialize_sql($1::VARCHAR, skip_empty := true, skip_null := true)"
"""Prepared once: to plan it anew for each text takes longer than to parse one."""


class Syntax:
    """The parser of one instance; ``cursor`` gives a connection, which only parses. Safe to share between threads."""

    def __init__(self, cursor: Callable[[], duckdb.DuckDBPyConnection]) -> None:
        self._lock = threading.Lock()
        self._cursor = cursor()
        self._cursor.execute(_PREPARE)
        self._kept = lru_cache(maxsize=_KEPT)(self._parsed)

    def __call__(self, sql: str) -> str:
        """The answer of ``json_serialize_sql``: the trees of all statements, or an error and its place."""
        return self._kept(sql) if len(sql) <= _SHORT else self._parsed(sql)

    def _parsed(self, sql: str) -> str:
        with self._lock:
            # What is prepared takes its values as literals only.
            found = self._cursor.execute(f"EXECUTE parsed({text(sql)})").fetchall()
        answer: str = found[0][0]
        return answer
