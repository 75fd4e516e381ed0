"""What a query may be: one SELECT over the given tables, and nothing that reaches past them.

DuckDB's own parser decides what the SQL means (``json_serialize_sql``), so what is admitted here, what prunes
files and what runs can never be three different readings of one text. The rules fail closed:

- One statement, and it only selects: no COPY, ATTACH, INSTALL, LOAD, SET, PRAGMA, CALL, CREATE, INSERT, and no
  INSERT hidden in a WITH.
- A table is one of the given ones or the query's own WITH; a file name is no table.
- A table function is one that makes rows from its arguments (``range``, ``unnest``, …); none that reads files,
  runs other SQL or shows the engine.
- A kind of node that this module does not know is refused by its name.

The engine's own lock (``instance.py``) stands behind these rules: each holds without the other.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import duckdb

from blockstore.errors import Invalid, NotFound

__all__ = ["GIVEN", "Node", "Statement", "parse", "walk"]

Node = dict[str, Any]
"""One node of DuckDB's syntax tree, as JSON."""

GIVEN = "given_table"
"""The key under which an admitted BASE_TABLE node holds the given table that it stands for; a WITH's has none."""

TABLE_FUNCTIONS = frozenset(
    {
        "generate_series",
        "json_each",
        "json_tree",
        "pg_timezone_names",
        "range",
        "repeat",
        "repeat_row",
        "unnest",
    }
)
REFUSED_FUNCTIONS = frozenset(
    {
        "current_query",
        "current_setting",
        "getenv",
        "inet_client_addr",
        "inet_client_port",
        "pg_sleep",
        "setseed",
        "sleep_ms",
        "write_log",
    }
)
"""Functions that show the process, hold it up or write."""

QUERY_NODES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
TABLE_NODES = frozenset(
    {"BASE_TABLE", "EMPTY", "EXPRESSION_LIST", "JOIN", "PIVOT", "SHOW_REF", "SUBQUERY", "TABLE_FUNCTION"}
)
OTHER_NODES = frozenset(
    {
        "ASCENDING",
        "DESCENDING",
        "DISTINCT_MODIFIER",
        "LIMIT_MODIFIER",
        "LIMIT_PERCENT_MODIFIER",
        "ORDER_DEFAULT",
        "ORDER_MODIFIER",
    }
)
EXPRESSIONS = frozenset(
    {
        "BETWEEN",
        "CASE",
        "CAST",
        "COLLATE",
        "COLUMN_REF",
        "COMPARISON",
        "CONJUNCTION",
        "CONSTANT",
        "DEFAULT",
        "FUNCTION",
        "LAMBDA",
        "LAMBDA_REF",
        "OPERATOR",
        "PARAMETER",
        "POSITIONAL_REFERENCE",
        "STAR",
        "SUBQUERY",
        "TYPE",
        "WINDOW",
    }
)
SHOWN = frozenset({"DESCRIBE", "SUMMARY"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """An admitted query: its text, its tree, and the tables that it names (as the given names spell them)."""

    sql: str
    root: Node
    tables: frozenset[str]
    columns: frozenset[str]
    """Every column name that the text mentions, in lower case: decides which hidden columns are asked for."""


def parse(connection: duckdb.DuckDBPyConnection, sql: str, tables: Collection[str]) -> Statement:
    """The query of ``sql``, or Invalid/NotFound in one sentence. ``connection`` only parses."""
    answer = json.loads(
        connection.execute(
            "SELECT json_serialize_sql($1::VARCHAR, skip_empty := true, skip_null := true)", [sql]
        ).fetchall()[0][0]
    )
    if answer["error"]:
        raise Invalid(_parse_error(answer, sql))
    statements = answer.get("statements", [])
    if len(statements) != 1:
        raise Invalid(f"a query is one SELECT statement, found {len(statements)}: run them one by one")
    root: Node = statements[0]["node"]
    spelled = {name.lower(): name for name in tables}
    named: set[str] = set()
    _admit(root, frozenset(), spelled, named)
    columns = {part.lower() for node in walk(root) for part in _names(node)}
    return Statement(sql=sql, root=root, tables=frozenset(named), columns=frozenset(columns))


def walk(value: object) -> Iterator[Node]:
    """Every node of a tree, parents first."""
    if isinstance(value, dict):
        yield value
        for child in value.values():
            yield from walk(child)
    elif isinstance(value, list):
        for child in value:
            yield from walk(child)


def _names(node: Node) -> list[str]:
    """The column names that a node mentions: as a column, in USING, or in a star's list."""
    found = list(node.get("column_names", ())) + list(node.get("using_columns", ()))
    for key in ("exclude_list", "qualified_exclude_list"):
        for entry in node.get(key, ()):
            found += (
                [entry] if isinstance(entry, str) else [str(v) for v in entry.values() if isinstance(v, str)]
            )
    return found


def _parse_error(answer: Node, sql: str) -> str:
    if answer.get("error_type") == "not implemented":
        return "a query is one SELECT statement: this one does something else, and nothing was run"
    message = str(answer.get("error_message", "syntax error")).splitlines()[0]
    position = answer.get("position")
    if position is None:
        return f"the SQL cannot be parsed: {message}"
    before = sql.encode()[: int(position)].decode(errors="replace")
    line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
    return (
        f"the SQL cannot be parsed: {message}, at line {line}, column {column}: mend it there; "
        "a column named like a word of SQL stands in double quotes"
    )


def _admit(value: object, ctes: frozenset[str], tables: dict[str, str], named: set[str]) -> None:
    """Refuse what a query may not hold, below ``value``; collect the tables in ``named``."""
    if isinstance(value, list):
        for child in value:
            _admit(child, ctes, tables, named)
        return
    if not isinstance(value, dict):
        return
    kind = value.get("type")
    if "class" in value:
        _admit_expression(value)
    elif isinstance(kind, str):
        if kind in TABLE_NODES:
            _admit_table(value, ctes, tables, named)
        elif kind not in QUERY_NODES and kind not in OTHER_NODES:
            raise Invalid(f"a query only selects from its tables: {kind} is not allowed")
    for entry in value.get("cte_map", {}).get("map", ()):
        # A WITH sees those before it, and itself only if it is recursive: else its name is still the table's.
        own = entry["key"].lower()
        body = entry["value"]
        recursive = body.get("query_node", {}).get("type") == "RECURSIVE_CTE_NODE"
        _admit(body, ctes | {own} if recursive else ctes, tables, named)
        ctes = ctes | {own}
    for key, child in value.items():
        if key != "cte_map":
            _admit(child, ctes, tables, named)


def _admit_expression(node: Node) -> None:
    if node["class"] not in EXPRESSIONS:
        raise Invalid(f"a query only selects from its tables: {node['class']} is not allowed")
    if node["class"] == "FUNCTION" and str(node.get("function_name", "")).lower() in REFUSED_FUNCTIONS:
        raise Invalid(f"the function {node['function_name']} is not allowed: it reaches past the tables")


def _admit_table(node: Node, ctes: frozenset[str], tables: dict[str, str], named: set[str]) -> None:
    if node["type"] == "TABLE_FUNCTION":
        name = str(node.get("function", {}).get("function_name", "")).lower()
        if name not in TABLE_FUNCTIONS:
            raise Invalid(
                f"the table function {name} is not allowed: a query reads only its tables "
                f"({_list(tables)}), not files or the engine"
            )
    elif node["type"] == "SHOW_REF" and node.get("show_type") not in SHOWN:
        raise Invalid("SHOW is not allowed in a query: DESCRIBE a table, or list tables with `blockstore ls`")
    elif node["type"] == "BASE_TABLE":
        _admit_base_table(node, ctes, tables, named)


def _admit_base_table(node: Node, ctes: frozenset[str], tables: dict[str, str], named: set[str]) -> None:
    name = str(node["table_name"])
    if node.get("schema_name") or node.get("catalog_name"):
        raise NotFound(
            f"there is no table {_qualified(node)}: tables are named without a schema ({_list(tables)})"
        )
    if "at_clause" in node:
        raise Invalid(f"AT is not allowed on the table {name}: ask for the version beside the SQL instead")
    if name.lower() in ctes:
        return
    if name.lower() not in tables:
        near = difflib.get_close_matches(name.lower(), tables, n=1)
        hint = f"did you mean {tables[near[0]]}?" if near else f"the tables are {_list(tables)}"
        raise NotFound(f"there is no table {name}: {hint}")
    node[GIVEN] = tables[name.lower()]
    named.add(tables[name.lower()])


def _qualified(node: Node) -> str:
    parts = (node.get("catalog_name"), node.get("schema_name"), node["table_name"])
    return ".".join(str(part) for part in parts if part)


def _list(tables: dict[str, str]) -> str:
    return ", ".join(sorted(tables.values())) or "none"
