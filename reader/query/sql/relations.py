"""What a query may read of a table besides its rows: ``t.history``, ``t.blocks``, ``t.tags``,
``t.rows_history(row)`` and ``t.changes(after => 3)``.

Rules:
- A relation is one of a table that the caller may see, and its arguments are constants.
- In the tree it becomes a table of a name that no WITH can have; its rows are given to the engine
  with the query.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from blockstore.reader.errors import BadSql

Value: TypeAlias = int | str

RELATIONS = frozenset({"history", "blocks", "tags", "rows_history", "changes"})

_FORMS = {
    "history": "t.history",
    "blocks": "t.blocks",
    "tags": "t.tags",
    "rows_history": "t.rows_history(5), or the value of the key",
    "changes": "t.changes(after => 3), or t.changes(after => 3, until => 9)",
}
_DIGITS = 39
_NAMED = {"changes": ("after", "until")}
_ARGUMENTS = {"rows_history": (1, 16), "changes": (1, 2)}
"""How many each takes; others take none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A relation of a table."""

    table: str
    kind: str
    arguments: tuple[Value, ...] = ()
    named: tuple[tuple[str, Value], ...] = ()


def asked(node: dict[str, Any]) -> tuple[str, str] | None:
    """The table and the kind of relation that a node of a FROM names; None if it names none."""
    own = node.get("function", {}) if node["type"] == "TABLE_FUNCTION" else node
    name = own.get("function_name") if node["type"] == "TABLE_FUNCTION" else own.get("table_name")
    schema, catalog = own.get("schema") or own.get("schema_name"), own.get("catalog")
    if not schema or catalog or own.get("catalog_name") or str(name).lower() not in RELATIONS:
        return None
    return str(schema), str(name).lower()


def relation_of(node: dict[str, Any], table: str, kind: str) -> Relation:
    """The relation of a table that a node asks for. Raises BadSql for other arguments."""
    given = node.get("function", {}).get("arguments", [])
    values = [(one.get("name") or "", _constant(one.get("expression", {}))) for one in given]
    low, high = _ARGUMENTS.get(kind, (0, 0))
    named = tuple((name.lower(), value) for name, value in values if name)
    wrong = (
        not low <= len(values) <= high
        or "at_clause" in node
        or any(name not in _NAMED.get(kind, ()) for name, _ in named)
        or len(dict(named)) < len(named)
        or any(value is None for _, value in values)
    )
    if wrong:
        raise BadSql(
            f"{kind} of table {table} is not read so: write {_FORMS[kind]}; its arguments are "
            "constants"
        )
    return Relation(
        table=table,
        kind=kind,
        arguments=tuple(value for name, value in values if not name and value is not None),
        named=tuple((name, value) for name, value in named if value is not None),
    )


def replace_node(node: dict[str, Any], kind: str, own: str) -> None:
    """Make the node one of a table named ``own``, known in the query by the name that it had."""
    alias = node.get("alias") or kind
    kept = {name: node[name] for name in ("column_name_alias", "sample") if name in node}
    node.clear()
    node.update(
        type="BASE_TABLE",
        alias=alias,
        table_name=own,
        qualified_name={"path": [own]},
        **kept,
    )


def _constant(value: dict[str, Any]) -> Value | None:
    literal = value.get("literal", {}) if value.get("class") == "CONSTANT" else {}
    text = literal.get("text")
    if text is None:
        return None
    return whole(text) if literal.get("kind") == "INTEGER" else str(text)


def whole(text: object) -> int:
    """The number that the digits of a query mean. Raises BadSql for more than any type has: Python
    refuses very many, with advice to its programmers."""
    digits = str(text)
    if len(digits) > _DIGITS:
        raise BadSql(
            f"the number {digits[:20]}… has {len(digits):,} digits, expected at most {_DIGITS}: "
            "shorten it"
        )
    return int(digits)
