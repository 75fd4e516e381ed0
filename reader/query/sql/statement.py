"""What a query may be: one SELECT over the given tables, and nothing that reaches past them.

DuckDB's own parser decides what the SQL means (``json_serialize_sql``), so what is admitted here,
what prunes files and what runs can never be three different readings of one text. The rules fail
closed:

- One statement, and it only selects: no COPY, ATTACH, INSTALL, LOAD, SET, PRAGMA, CALL, CREATE,
  INSERT, and no INSERT hidden in a WITH.
- A table is one of the given ones or the query's own WITH; a file name is no table.
- A table function is one that makes rows from its arguments (``range``, ``unnest``, …); none that
  reads files, runs other SQL or shows the engine.
- A kind of node that ``allowed.py`` does not list is refused by its name.
- A name means the query's own WITH only where DuckDB sees it so; elsewhere it must be a table's,
  for DuckDB would seek what it does not find among files. The engine shuts the names of WITHs a
  second time (``views.py``).
- What a tree may cost to look at is bounded: length, depth, and how many tables and WITHs it names.

The engine's own lock (``instance.py``) stands behind these rules: each holds without the other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from blockstore.errors import Invalid
from blockstore.reader.errors import BadSql, UnknownTable
from blockstore.reader.query.sql.allowed import (
    EXPRESSIONS,
    OTHER_NODES,
    QUERY_NODES,
    SHOWN,
    TABLE_FUNCTIONS,
    TABLE_NODES,
    is_refused,
)
from blockstore.reader.tables.names import folded

Node = dict[str, Any]
"""One node of DuckDB's syntax tree, as JSON."""

GIVEN = "given_table"
"""The key under which an admitted BASE_TABLE node holds the given table that it stands for; a
WITH's has none."""

_LONGEST = 256 * 1024
_MOST_REFERENCES = 256
_SHOWN = 300
_WITH_NAME = re.compile(r"[\w $]{1,200}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """An admitted query: its text, its tree, and the tables that it names (as the given names spell
    them)."""

    sql: str
    root: Node
    tables: frozenset[str]
    withs: frozenset[str]
    """The names of its WITHs that no named table has: outside of their scope they must mean
    nothing."""


def parse(syntax: Callable[[str], str], sql: str, find: Callable[[str], str]) -> Statement:
    """The query of ``sql``, or an error in one sentence. ``syntax`` is DuckDB's parser
    (``syntax.py``); ``find`` answers a table's own spelling or raises UnknownTable."""
    if not isinstance(sql, str):
        raise Invalid(f"the SQL is {type(sql).__name__}, expected text")
    if len(sql) > _LONGEST:
        raise BadSql(
            f"the SQL has {len(sql):,} characters, expected at most {_LONGEST:,}: give values as "
            "parameters"
        )
    if "\0" in sql:
        raise BadSql("the SQL holds a NUL character, expected text")
    try:
        return _parsed(_tree(syntax, sql), sql, find)
    except RecursionError:
        raise BadSql(
            "the SQL is nested deeper than a query may be: take it apart with WITH"
        ) from None


def _tree(syntax: Callable[[str], str], sql: str) -> Node:
    try:
        data = sql.encode()
    except UnicodeEncodeError:
        raise BadSql("the SQL holds half a character (a lone surrogate), expected text") from None
    answer: Node = json.loads(syntax(sql))
    if answer["error"]:
        raise _parse_error(answer, data)
    statements = answer.get("statements", [])
    if len(statements) != 1:
        raise BadSql(
            f"a query is one SELECT statement, found {len(statements)}: run them one by one"
        )
    root: Node = statements[0]["node"]
    return root


def _parsed(root: Node, sql: str, find: Callable[[str], str]) -> Statement:
    scene = _Scene(find)
    scene.admit(root, frozenset())
    return Statement(
        sql=sql,
        root=root,
        tables=frozenset(scene.named),
        withs=frozenset(scene.withs) - {folded(name) for name in scene.named},
    )


def walk(value: object) -> Iterator[Node]:
    """Every node of a tree, parents first."""
    if isinstance(value, dict):
        yield value
        for child in value.values():
            yield from walk(child)
    elif isinstance(value, list):
        for child in value:
            yield from walk(child)


def _parse_error(answer: Node, sql: bytes) -> BadSql:
    if answer.get("error_type") == "not implemented" and "parameters" not in str(
        answer.get("error_message")
    ):
        return BadSql(
            "a query is one SELECT statement: this one does something else, and nothing was run"
        )
    message = (str(answer.get("error_message", "")).splitlines() or ["syntax error"])[0]
    message = message if len(message) <= _SHOWN else f"{message[:_SHOWN]}…"
    position = answer.get("position")
    if position is None:
        return BadSql(f"the SQL cannot be parsed: {message}")
    before = sql[: int(position)].decode(errors="replace")
    line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
    return BadSql(
        f"the SQL cannot be parsed: {message}, at line {line}, column {column}: mend it there; "
        "a column named like a word of SQL stands in double quotes",
        line=line,
        column=column,
    )


class _Scene:
    """One look over a tree: refuses what a query may not hold, and collects the tables that it
    names."""

    def __init__(self, find: Callable[[str], str]) -> None:
        self._find = find
        self._references = 0
        self.named: set[str] = set()
        self.withs: set[str] = set()

    def admit(self, value: object, ctes: frozenset[str]) -> None:
        """Refuse what may not stand below ``value``, where the names ``ctes`` mean the query's own
        WITHs."""
        if isinstance(value, list):
            for child in value:
                self.admit(child, ctes)
            return
        if not isinstance(value, dict):
            return
        kind = value.get("type")
        if "class" in value:
            _admit_expression(value)
        elif isinstance(kind, str):
            if kind in TABLE_NODES:
                self._admit_table(value, ctes)
            elif kind not in QUERY_NODES and kind not in OTHER_NODES:
                raise BadSql(f"a query only selects from its tables: {kind} is not allowed")
        ctes = self._admit_withs(value, ctes)
        for key, child in value.items():
            if key != "cte_map":
                self.admit(child, ctes)

    def _admit_withs(self, value: Node, ctes: frozenset[str]) -> frozenset[str]:
        for entry in value.get("cte_map", {}).get("map", ()):
            self._count()
            own = folded(str(entry["key"]))
            if not _WITH_NAME.fullmatch(own):
                raise BadSql(
                    f"a WITH is named {own[:60]!r}, expected letters, digits, spaces and _: "
                    "another name could be a file's"
                )
            self.withs.add(own)
            self._admit_with(entry["value"], own, ctes)
            ctes = ctes | {own}
        return ctes

    def _admit_with(self, body: Node, own: str, ctes: frozenset[str]) -> None:
        """A WITH sees those before it, and only the recursive part of a recursive one sees itself:
        elsewhere its name is still the table's, or nothing's."""
        node = body.get("query_node")
        if not isinstance(node, dict) or node.get("type") != "RECURSIVE_CTE_NODE":
            self.admit(body, ctes)
            return
        inner = self._admit_withs(node, ctes)
        for key, child in node.items():
            if key != "cte_map":
                self.admit(child, inner | {own} if key == "right" else inner)
        for key, child in body.items():
            if key != "query_node":
                self.admit(child, ctes)

    def _admit_table(self, node: Node, ctes: frozenset[str]) -> None:
        if node["type"] == "TABLE_FUNCTION":
            name = str(node.get("function", {}).get("function_name", "")).lower()
            if name not in TABLE_FUNCTIONS:
                raise BadSql(
                    f"the table function {name[:60]} is not allowed: a query reads only its "
                    "tables, not files or the engine"
                )
        elif node["type"] == "SHOW_REF" and node.get("show_type") not in SHOWN:
            raise BadSql(
                "SHOW is not allowed in a query: DESCRIBE a table, or list tables with "
                "`blockstore ls`"
            )
        elif node["type"] == "BASE_TABLE":
            self._admit_base_table(node, ctes)

    def _admit_base_table(self, node: Node, ctes: frozenset[str]) -> None:
        self._count()
        name = str(node["table_name"])
        if node.get("schema_name") or node.get("catalog_name"):
            raise UnknownTable(
                f"there is no table {_qualified(node)[:200]}: tables are named without a schema"
            )
        if "at_clause" in node:
            raise BadSql(
                f"AT is not allowed on the table {name}: ask for the version beside the SQL instead"
            )
        if folded(name) not in ctes:
            node[GIVEN] = self._find(name)
            self.named.add(node[GIVEN])

    def _count(self) -> None:
        self._references += 1
        if self._references > _MOST_REFERENCES:
            raise BadSql(
                f"the SQL names more than {_MOST_REFERENCES} tables and WITHs: take it apart"
            )


def _admit_expression(node: Node) -> None:
    if node["class"] not in EXPRESSIONS:
        raise BadSql(f"a query only selects from its tables: {node['class']} is not allowed")
    if node["class"] in ("FUNCTION", "WINDOW") and is_refused(
        str(node.get("function_name", "")).lower()
    ):
        raise BadSql(
            f"the function {node['function_name']} is not allowed: it reaches past the tables"
        )


def _qualified(node: Node) -> str:
    parts = (node.get("catalog_name"), node.get("schema_name"), node["table_name"])
    return ".".join(str(part) for part in parts if part)
