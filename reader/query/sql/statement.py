"""What a query may be: one SELECT over the given tables that reads nothing else.

DuckDB's own parser decides what the SQL means (``json_serialize_sql``), so the query that is
admitted, the one that prunes files and the one that runs are always the same. The rules fail
closed:

- One statement, and it only selects: no COPY, ATTACH, INSTALL, LOAD, SET, PRAGMA, CALL, CREATE,
  INSERT, and no INSERT inside a WITH.
- A table is one of the given ones or the query's own WITH; a file name is not a table.
- A table function makes rows from its arguments (``range``, ``unnest``, …); none may read files,
  run other SQL or reveal the engine.
- ``AT (VERSION => 3)``, ``AT (VERSION => 'tag')`` and ``AT (TIMESTAMP => '…')`` name a table at a
  version, by a constant; in the tree it then has a name of its own.
- ``t.history`` and the other relations of a table (``relations.py``) are those of a given table.
- A kind of node that is not listed in ``allowed.py`` is refused by its name.
- A name refers to the query's own WITH only where DuckDB resolves it so; elsewhere it must be a
  table's, since DuckDB would search an unknown name among files. The engine blocks the names of
  WITHs a second time (``views.py``).
- The cost of checking a tree is bounded: its length, its depth, and the number of tables and WITHs
  that it names.

The engine's own lock (``instance.py``) is a second line: each protects without the other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from blockstore.errors import Invalid
from blockstore.reader.errors import BadSql, NotAQuery, UnknownTable
from blockstore.reader.query.sql.allowed import (
    EXPRESSIONS,
    OTHER_NODES,
    QUERY_NODES,
    SHOWN,
    TABLE_FUNCTIONS,
    TABLE_NODES,
    is_refused,
)
from blockstore.reader.query.sql.relations import Relation, asked, relation_of, replace_node, whole
from blockstore.reader.tables.at import At
from blockstore.reader.tables.names import folded

Node = dict[str, Any]
"""One node of DuckDB's syntax tree, as JSON."""

GIVEN = "given_table"
"""The key of an admitted BASE_TABLE node for the given table that it refers to; a node of a WITH
does not have it."""

_LONGEST = 256 * 1024
_SURROGATE = re.compile("[\ud800-\udfff]")
_MOST_REFERENCES = 256
_SHOWN = 300
_WITH_NAME = re.compile(r"[\w $]{1,200}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """An admitted query: its text, its tree, and the tables that it names, in their own
    spelling."""

    sql: str
    root: Node
    tables: frozenset[str]
    earlier: Mapping[str, tuple[str, At]]
    """The tables that it names at a version, by the names that they have in the tree."""
    relations: Mapping[str, Relation]
    """What it reads of tables besides their rows, by the names that they have in the tree."""
    withs: frozenset[str]
    """The names of its WITHs that differ from all named tables; outside their scope they must
    refer to nothing."""

    @property
    def newest(self) -> frozenset[str]:
        """The tables that it names as they are now."""
        return self.tables - self.earlier.keys()

    @property
    def all(self) -> frozenset[str]:
        """The tables of which it reads anything."""
        others = {table for table, _ in self.earlier.values()}
        return self.newest.union(others, (one.table for one in self.relations.values()))


def check_length(sql: str) -> None:
    """Raises BadSql for a query that is too long. To be called before DuckDB parses it in whatever
    way: that may take seconds."""
    if len(sql) > _LONGEST:
        raise BadSql(
            f"the SQL has {len(sql):,} characters, expected at most {_LONGEST:,}: pass values as "
            "parameters"
        )


def parse(
    syntax: Callable[[str], str],
    sql: str,
    find: Callable[[str], str],
    given: Collection[str] = (),
) -> Statement:
    """Parse and admit a query. ``syntax`` is DuckDB's parser (``syntax.py``); ``find`` returns a
    table's own spelling or raises UnknownTable; ``given`` are the names of rows that come with the
    query. Raises BadSql, UnknownTable."""
    if not isinstance(sql, str):
        raise Invalid(f"the SQL is {type(sql).__name__}, expected text")
    check_length(sql)
    check_characters(sql)
    try:
        return _parsed(_tree(syntax, sql), sql, find, given)
    except RecursionError:
        raise BadSql("the SQL is nested too deeply: split it with WITH") from None


def _tree(syntax: Callable[[str], str], sql: str) -> Node:
    try:
        data = sql.encode()
    except UnicodeEncodeError:
        raise BadSql(
            "the SQL contains a lone surrogate, which is not valid text: remove it"
        ) from None
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


def _parsed(root: Node, sql: str, find: Callable[[str], str], given: Collection[str]) -> Statement:
    scene = _Scene(find, given)
    scene.admit(root, frozenset())
    return Statement(
        sql=sql,
        root=root,
        tables=frozenset(scene.named),
        earlier=scene.earlier,
        relations=scene.relations,
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
        return NotAQuery(
            "a query must be one SELECT statement: this is another statement, and nothing was run: "
            "run it with blockstore sql, or send it to /v1/statements of a gateway"
        )
    message = (str(answer.get("error_message", "")).splitlines() or ["syntax error"])[0]
    message = message if len(message) <= _SHOWN else f"{message[:_SHOWN]}…"
    position = answer.get("position")
    if position is None:
        return BadSql(f"the SQL cannot be parsed: {message}")
    before = sql[: int(position)].decode(errors="replace")
    line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
    return BadSql(
        f"the SQL cannot be parsed: {message}, at line {line}, column {column}; put a column that "
        "is named like a keyword in double quotes",
        line=line,
        column=column,
    )


class _Scene:
    """One pass over a tree: refuses what a query may not contain, and collects the tables that it
    names."""

    def __init__(self, find: Callable[[str], str], given: Collection[str]) -> None:
        self._find = find
        self._given = given
        self._references = 0
        self.named: set[str] = set()
        self.earlier: dict[str, tuple[str, At]] = {}
        self.relations: dict[str, Relation] = {}
        self.withs: set[str] = set()

    def admit(self, value: object, ctes: frozenset[str]) -> None:
        """Refuse what is not allowed under ``value``, where the names ``ctes`` refer to the query's
        own WITHs."""
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
                raise BadSql(f"a query may only select from its tables: {kind} is not allowed")
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
                    f"a WITH is named {own[:60]!r}, expected letters, digits, spaces and _: any "
                    "other name could be a file's"
                )
            self.withs.add(own)
            self._admit_with(entry["value"], own, ctes)
            ctes = ctes | {own}
        return ctes

    def _admit_with(self, body: Node, own: str, ctes: frozenset[str]) -> None:
        """A WITH can use those before it, and only the recursive part of a recursive one can use
        itself: elsewhere its name is still the table's, or unknown."""
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
        relation = asked(node)
        if relation is not None:
            self._admit_relation(node, *relation)
        elif node["type"] == "TABLE_FUNCTION":
            name = str(node.get("function", {}).get("function_name", "")).lower()
            if name not in TABLE_FUNCTIONS:
                raise BadSql(
                    f"the table function {name[:60]} is not allowed: a query may read its tables "
                    "only, not files or the engine"
                )
        elif node["type"] == "SHOW_REF" and node.get("show_type") not in SHOWN:
            raise BadSql(
                "SHOW is not allowed in a query: use DESCRIBE for a table, or list tables with "
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
            self._admit_earlier(node, name)
        elif folded(name) not in ctes and name not in self._given:
            node[GIVEN] = self._find(name)
            self.named.add(node[GIVEN])

    def _admit_earlier(self, node: Node, name: str) -> None:
        """A table at a version: in the tree it gets a name that no table has."""
        table, at = self._find(name), _at(node.pop("at_clause"), name)
        own = f"{table} at {at.name}"
        self.earlier[own] = (table, at)
        node.update(alias=node.get("alias") or name, table_name=own, qualified_name={"path": [own]})
        node[GIVEN] = own
        self.named.add(own)

    def _admit_relation(self, node: Node, table: str, kind: str) -> None:
        """A relation of a table: in the tree it gets a name that no WITH can have."""
        self._count()
        relation = relation_of(node, self._find(table), kind)
        own = f"blockstore:{kind}:{len(self.relations)}"
        self.relations[own] = relation
        replace_node(node, kind, own)

    def _count(self) -> None:
        self._references += 1
        if self._references > _MOST_REFERENCES:
            raise BadSql(f"the SQL names more than {_MOST_REFERENCES} tables and WITHs: split it")


def check_characters(sql: str) -> None:
    """Raise BadSql for a text with characters that no SQL has."""
    if "\0" in sql:
        raise BadSql("the SQL contains a NUL character: remove it")
    if not sql.isascii() and _SURROGATE.search(sql):
        raise BadSql("the SQL contains one half of a character (a lone surrogate): remove it")


def _at(clause: Node, name: str) -> At:
    """The version that an AT names. Raises BadSql for one that is computed."""
    unit, value = str(clause.get("unit", "")).upper(), clause.get("expr", {})
    while value.get("class") == "CAST":
        value = value.get("child", {})
    literal = value.get("literal", {}) if value.get("class") == "CONSTANT" else {}
    text = literal.get("text")
    if unit == "VERSION" and literal.get("kind") == "INTEGER" and text is not None:
        return At(version=whole(text))
    if unit == "VERSION" and literal.get("kind") == "STRING" and text is not None:
        return At(tag=str(text))
    if unit == "TIMESTAMP" and text is not None:
        return At(as_of=str(text))
    raise BadSql(
        f"AT of table {name} is not a constant: write AT (VERSION => 3), AT (VERSION => 'tag') or "
        "AT (TIMESTAMP => '2024-01-31T12:00:00Z')"
    )


def _admit_expression(node: Node) -> None:
    if node["class"] not in EXPRESSIONS:
        raise BadSql(f"a query may only select from its tables: {node['class']} is not allowed")
    if node["class"] in ("FUNCTION", "WINDOW") and is_refused(
        str(node.get("function_name", "")).lower()
    ):
        raise BadSql(
            f"the function {node['function_name']} is not allowed: it reads more than the tables"
        )


def _qualified(node: Node) -> str:
    parts = (node.get("catalog_name"), node.get("schema_name"), node["table_name"])
    return ".".join(str(part) for part in parts if part)
