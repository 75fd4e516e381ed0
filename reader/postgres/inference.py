"""The types of the parameters of a statement, before their values are known.

A client that sends values in binary must know their types first. DuckDB decides them only when it
has the values, so here they follow from the tree: a parameter has the type to which it is cast, of
the column with which it is compared, or of the number beside it; it is a text where nothing says
more. A text is right for every type: the engine casts it as it casts a quoted constant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from blockstore.reader.postgres import types as t
from blockstore.reader.query.sql.statement import walk

Node = dict[str, Any]

_CAST = {  # the engine gives a name in double quotes as it is
    "BOOLEAN": t.BOOL,
    "BOOL": t.BOOL,
    "INT2": t.INT2,
    "INT4": t.INT4,
    "INT8": t.INT8,
    "FLOAT4": t.FLOAT4,
    "FLOAT8": t.FLOAT8,
    "JSON": t.JSON,
    "TINYINT": t.INT2,
    "SMALLINT": t.INT2,
    "INTEGER": t.INT4,
    "INT": t.INT4,
    "BIGINT": t.INT8,
    "HUGEINT": t.NUMERIC,
    "FLOAT": t.FLOAT4,
    "REAL": t.FLOAT4,
    "DOUBLE": t.FLOAT8,
    "DECIMAL": t.NUMERIC,
    "NUMERIC": t.NUMERIC,
    "VARCHAR": t.TEXT,
    "TEXT": t.TEXT,
    "BLOB": t.BYTEA,
    "BYTEA": t.BYTEA,
    "DATE": t.DATE,
    "TIME": t.TIME,
    "TIMESTAMP": t.TIMESTAMP,
    "TIMESTAMPTZ": t.TIMESTAMPTZ,
    "TIMESTAMP WITH TIME ZONE": t.TIMESTAMPTZ,
    "INTERVAL": t.INTERVAL,
    "UUID": t.UUID,
    "UINTEGER": t.OID,
}
_SIGNS = frozenset({"+", "-", "*", "/", "%", "//", "^"})
_ALIKE = frozenset({"coalesce", "ifnull", "nullif", "greatest", "least"})


def parameter_types(root: Node, columns: Mapping[str, int]) -> dict[str, int]:
    """The types of the parameters of a tree, by their names; ``columns`` are those of the tables
    that it names, by their names in lower case."""
    found: dict[str, int] = {}
    for node in walk(root):
        for parameter, oid in _hints(node, columns):
            found.setdefault(parameter, oid)
    for node in walk(root):
        if node.get("class") == "PARAMETER":
            found.setdefault(str(node.get("identifier")), t.TEXT)
    return found


def _hints(node: Node, columns: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    kind = node.get("class")
    if kind == "CAST" and _name(node.get("child")):
        oid = _of_type(node)
        if oid:
            yield _name(node["child"]), oid
    elif kind == "CAST" and _of_type(node) in t.ELEMENTS:  # array[$1]::int8[]
        for one in _operands(node.get("child") or {}):
            if _name(one):
                yield _name(one), t.ELEMENTS[_of_type(node)]
    elif kind in ("COMPARISON", "BETWEEN", "OPERATOR", "CASE") or (
        kind == "FUNCTION" and str(node.get("function_name")) in _SIGNS | _ALIKE
    ):
        yield from _same(list(_operands(node)), columns)
    elif kind == "SUBQUERY" and isinstance(node.get("child"), dict):
        oid = _type(node["child"], columns) or t.TEXT
        query = (node.get("subquery") or {}).get("node") or {}
        for inner in query.get("select_list") or ():  # = ANY($1) is IN (SELECT unnest($1))
            if inner.get("function_name") == "unnest" and oid in t.TYPES:
                names = [_name(one) for one in _operands(inner)]
                yield from ((name, t.TYPES[oid].array) for name in names if name)
    for limit in ("limit", "offset"):
        name = _name(node.get(limit))
        if name:
            yield name, t.INT8


def _operands(node: Node) -> Iterator[Node]:
    for key in ("left", "right", "input", "lower", "upper"):
        if isinstance(node.get(key), dict):
            yield node[key]
    for child in (*node.get("children", ()), *node.get("arguments", ())):
        if isinstance(child, dict):
            yield child.get("expression", child)


def _same(operands: list[Node], columns: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """The parameters among operands that have one type."""
    types = [oid for one in operands if (oid := _type(one, columns))]
    if types:
        for one in operands:
            if _name(one):
                yield _name(one), types[0]


def _type(node: Node, columns: Mapping[str, int]) -> int:
    """The type of an expression; 0 if it does not show."""
    match node.get("class"):
        case "COLUMN_REF":
            names = node.get("column_names") or node.get("qualified_name", {}).get("path") or [""]
            return columns.get(str(names[-1]).lower(), 0)
        case "CAST":
            return _of_type(node)
        case "CONSTANT":
            kinds = {"INTEGER": t.INT8, "DOUBLE": t.FLOAT8, "NUMERIC": t.NUMERIC, "STRING": t.TEXT}
            return kinds.get(str(node.get("literal", {}).get("kind")), 0)
        case "FUNCTION" | "OPERATOR":
            named = str(node.get("function_name")) in _SIGNS | _ALIKE
            if named or node.get("type") == "OPERATOR_COALESCE":
                found = (_type(one, columns) for one in _operands(node))
                return next((oid for oid in found if oid), 0)
    return 0


def _of_type(cast: Node) -> int:
    return _of_name(cast.get("type_expr") or {})


def _of_name(kind: Node) -> int:
    name = str(kind.get("type_name", ""))
    if name == "list":
        inner = [_of_name(one) for one in kind.get("children", ())]
        return t.TYPES[inner[0]].array if inner and inner[0] in t.TYPES else 0
    return _CAST.get(name.upper(), 0)


def _name(node: object) -> str:
    """The name of a parameter; empty if the node is none."""
    if isinstance(node, dict) and node.get("class") == "PARAMETER":
        return str(node.get("identifier"))
    return ""
