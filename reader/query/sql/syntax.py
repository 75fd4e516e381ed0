"""DuckDB's parser: what it makes of a text, as JSON, and the text of what was made of that.

A client that sends values as parameters sends the same text again and again: what was made of a
short one is kept. It says nothing of tables or rows, so it is good for ever.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import duckdb

from blockstore.reader.query.sql.types import text

_KEPT = 256
_SHORT = 4_096
"""Characters; the JSON is twenty times as long, and parsing a long text may take seconds."""
_TEXT = "SELECT json_deserialize_sql($1::JSON)"
_ANSWER = "SELECT json_serialize_sql($1::VARCHAR, skip_empty := true, skip_null := true)"


class Syntax:
    """The parser of one instance; ``cursor`` gives connections, which only parse. Safe to share
    between threads: nobody waits while another's long text is parsed."""

    def __init__(self, cursor: Callable[[], duckdb.DuckDBPyConnection]) -> None:
        self._cursor = cursor
        self._lock = threading.Lock()
        # Prepared, since planning the statement anew takes longer than parsing a short text.
        self._prepared = cursor()
        self._prepared.execute(f"PREPARE parsed AS {_ANSWER}")
        self._kept = lru_cache(maxsize=_KEPT)(self._short)

    def __call__(self, sql: str) -> str:
        """The answer of ``json_serialize_sql``: the trees of all statements, or an error and its
        place."""
        return self._kept(sql) if len(sql) <= _SHORT else self._long(sql)

    def sql(self, root: Mapping[str, Any]) -> str:
        """The SQL that the tree of one query stands for."""
        tree = json.dumps({"error": False, "statements": [{"node": root}]})
        with self._cursor() as cursor:
            return _text(cursor.execute(_TEXT, [tree]))

    def _short(self, sql: str) -> str:
        with self._lock:
            # What is prepared takes its values as literals only.
            return _text(self._prepared.execute(f"EXECUTE parsed({text(sql)})"))

    def _long(self, sql: str) -> str:
        with self._cursor() as cursor:
            return _text(cursor.execute(_ANSWER, [sql]))


def _text(answer: duckdb.DuckDBPyConnection) -> str:
    found: str = answer.fetchall()[0][0]
    return found
