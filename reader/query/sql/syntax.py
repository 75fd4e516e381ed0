"""DuckDB's parser: from a text to its tree, as JSON, and from a tree to its text.

A client that sends values as parameters sends the same text many times, so the trees of short texts
are cached. A tree depends on no table, so it never becomes stale.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import duckdb

from blockstore.reader.query.sql.depth import check_depth
from blockstore.reader.query.sql.types import text

_KEPT = 256
_SHORT = 4_096
"""Characters; the JSON is twenty times as long, and parsing a long text may take seconds."""
_TEXT = "SELECT json_deserialize_sql($1::JSON)"
_ANSWER = "SELECT json_serialize_sql($1::VARCHAR, skip_empty := true, skip_null := true)"


class Syntax:
    """The parser of one instance; ``cursor`` returns connections, which only parse. Safe to share
    between threads; a long text does not delay others."""

    def __init__(self, cursor: Callable[[], duckdb.DuckDBPyConnection]) -> None:
        self._cursor = cursor
        self._lock = threading.Lock()
        # Prepared: planning the statement each time takes longer than parsing a short text.
        self._prepared = cursor()
        self._prepared.execute(f"PREPARE parsed AS {_ANSWER}")
        self._kept = lru_cache(maxsize=_KEPT)(self._short)

    def __call__(self, sql: str) -> str:
        """The result of ``json_serialize_sql``: the trees of all statements, or an error with its
        position. Raises TooDeep, as the others do."""
        return self._kept(sql) if len(sql) <= _SHORT else self._long(sql)

    def sql(self, root: Mapping[str, Any]) -> str:
        """The SQL of the tree of one query."""
        tree = json.dumps({"error": False, "statements": [{"node": root}]})
        with self._cursor() as cursor:
            return _text(cursor.execute(_TEXT, [tree]))

    def split(self, sql: str) -> list[tuple[str, str]]:
        """The statements of a text that DuckDB can parse: the kind of each (``SELECT``, ``UPDATE``,
        …) and its text. Raises duckdb.Error."""
        check_depth(sql)
        with self._cursor() as cursor:
            return [(_kind(one), one.query) for one in cursor.extract_statements(sql)]

    def parameters(self, sql: str) -> frozenset[str]:
        """The names of the parameters of a text that DuckDB can parse. Raises duckdb.Error."""
        check_depth(sql)
        with self._cursor() as cursor:
            found = (one.named_parameters for one in cursor.extract_statements(sql))
            return frozenset(name for names in found for name in names)

    def _short(self, sql: str) -> str:
        check_depth(sql)
        with self._lock:
            # A prepared statement of SQL takes literals only.
            return _text(self._prepared.execute(f"EXECUTE parsed({text(sql)})"))

    def _long(self, sql: str) -> str:
        check_depth(sql)
        with self._cursor() as cursor:
            return _text(cursor.execute(_ANSWER, [sql]))


def _kind(statement: duckdb.Statement) -> str:
    """The kind of a statement; some that DuckDB parses have no name in its package."""
    try:
        return str(statement.type.name)
    except ValueError:
        return "OTHER"


def _text(answer: duckdb.DuckDBPyConnection) -> str:
    found: str = answer.fetchall()[0][0]
    return found
