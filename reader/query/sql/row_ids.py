"""Row ids and versions in front of a query's result, so that its rows can be changed and written
back.

Rules:
- A query whose rows are rows of one table can have them: no join, group, DISTINCT, UNION or
  subquery in its FROM. Every other query is refused: its rows are none of a table.
- Where the query names them itself, they are moved to the front.
- ``ORDER BY 2`` still means the second column of the query.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from blockstore.reader.errors import BadSql
from blockstore.reader.query.sql.relations import whole
from blockstore.reader.query.sql.statement import GIVEN, Node, Statement
from blockstore.reader.tables.names import folded

_REFUSED = (
    "row ids need a query whose rows are those of one table, and this one has {found}: select from "
    "one table by its name, without grouping, or leave the row ids out"
)


def table_of_rows(statement: Statement) -> str:
    """The table whose rows a query returns. Raises BadSql for one that makes other rows."""
    root = statement.root
    if root.get("type") != "SELECT_NODE":
        raise BadSql(_REFUSED.format(found="a UNION or the like"))
    source = root.get("from_table", {})
    if source.get("type") != "BASE_TABLE" or GIVEN not in source:
        raise BadSql(_REFUSED.format(found="a join, a WITH, a subquery or no table in its FROM"))
    if root.get("group_expressions") or root.get("group_sets") or root.get("having"):
        raise BadSql(_REFUSED.format(found="groups"))
    if root.get("aggregate_handling") not in (None, "STANDARD_HANDLING"):
        raise BadSql(_REFUSED.format(found="groups"))
    for modifier in root.get("modifiers", ()):
        if modifier.get("type") == "DISTINCT_MODIFIER":
            raise BadSql(_REFUSED.format(found="a DISTINCT"))
    return str(source[GIVEN])


def put_first(statement: Statement, columns: Sequence[str]) -> None:
    """Change the tree in place: its result begins with these hidden columns of its table."""
    root = statement.root
    source = root["from_table"]
    table = source.get("alias") or source["table_name"]
    chosen = [one for one in root["select_list"] if not _is_one_of(one, columns)]
    own = [_reference(table, column) for column in columns]
    moved = len(own) - (len(root["select_list"]) - len(chosen))
    for modifier in root.get("modifiers", ()):
        for order in modifier.get("orders", ()):
            _shift(order["expression"], moved)
    root["select_list"] = [*own, *chosen]


def _reference(table: str, column: str) -> Node:
    return {
        "class": "COLUMN_REF",
        "type": "COLUMN_REF",
        "alias": "",
        "query_location": 0,
        "column_names": [table, column],
    }


def _is_one_of(expression: Any, columns: Sequence[str]) -> bool:
    return (
        isinstance(expression, dict)
        and expression.get("class") == "COLUMN_REF"
        and not expression.get("alias")
        and folded(str(expression["column_names"][-1])) in columns
    )


def _shift(expression: Node, by: int) -> None:
    """A position in ORDER BY, of which so many columns come first now."""
    if expression.get("class") == "STAR":
        raise BadSql("row ids cannot be added to a query with ORDER BY ALL: name the columns")
    literal = expression.get("literal", {})
    if expression.get("class") == "CONSTANT" and literal.get("kind") == "INTEGER":
        literal["text"] = str(whole(literal["text"]) + by)
