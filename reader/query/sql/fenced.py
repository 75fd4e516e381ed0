"""A fence as SQL: a view shows the rows of a condition, and some columns.

Rules:
- The engine evaluates nothing of a query for a row that the fence hides: a query's own condition
  can fail with a value of the row in its message, and DuckDB moves conditions into views and orders
  them as it likes. So a view with a fence ends with a LIMIT that no table reaches: a condition
  moved below a LIMIT would change what it returns, so no engine does it. The limit is computed, so
  that it is unknown when the query is planned: DuckDB takes away one of which it knows that it
  cannot be reached.
- Each constant has the type of its column, so that the column is never cast.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

import pyarrow as pa

from blockstore.predicate.literals import Kind, kind_of
from blockstore.predicate.nodes import (
    Always,
    And,
    Column,
    Compare,
    IsNull,
    Key,
    Node,
    OneOf,
    Or,
    Prefix,
)
from blockstore.reader.query.sql.types import quoted, sql_type, text

_LIMIT = f"(SELECT max(n) FROM (VALUES ({10**15})) AS most(n))"
"""More rows than any table has. Much larger numbers make DuckDB's estimates overflow."""
_EPOCH = dt.datetime(1970, 1, 1)
_SECOND_NS = 1_000_000_000


def fenced(body: str, columns: Iterable[str], rows: Node) -> str:
    """A SELECT of these columns of the rows of ``body`` for which the condition is true."""
    shown = ", ".join(map(quoted, columns))
    return f"SELECT {shown} FROM ({body}) AS _blockstore_all WHERE {condition(rows)} LIMIT {_LIMIT}"


def condition(node: Node) -> str:
    """The condition as SQL: true for exactly the rows for which the tree is."""
    match node:
        case Always():
            return "true" if node.value else "false"
        case And():
            return f"({' AND '.join(map(condition, node.parts))})"
        case Or():
            return f"({' OR '.join(map(condition, node.parts))})"
        case IsNull():
            return f"({quoted(node.column.name)} IS {'NOT ' if node.negated else ''}NULL)"
        case Compare():
            return f"({quoted(node.column.name)} {node.op} {_constant(node.column, node.key)})"
        case OneOf():
            keys = ", ".join(_constant(node.column, key) for key in node.keys)
            return f"({quoted(node.column.name)} {'NOT ' if node.negated else ''}IN ({keys}))"
        case Prefix():
            found = f"starts_with({quoted(node.column.name)}, {_string(node.prefix)})"
            return f"(NOT {found})" if node.negated else found


def _constant(column: Column, key: Key) -> str:
    """The value of a key in its column's type."""
    return f"CAST({_string(_text(column.type, key))} AS {sql_type(column.type)})"


def _string(value: str) -> str:
    """A text as SQL; DuckDB's parser reads none beyond a NUL."""
    pieces = " || chr(0) || ".join(map(text, value.split("\0")))
    return f"({pieces})"


def _text(type_: pa.DataType, key: Key) -> str:
    if isinstance(key, bool | str):
        return str(key)
    if isinstance(key, bytes):
        return "".join(f"\\x{byte:02X}" for byte in key)
    kind = kind_of(type_)
    if not isinstance(key, int) or kind not in (Kind.DATE, Kind.TIMESTAMP, Kind.TIME):
        return format(key, "f") if kind is Kind.DECIMAL else str(key)
    seconds, rest = divmod(key, _SECOND_NS)
    moment = _EPOCH + dt.timedelta(seconds=seconds)
    if kind is Kind.DATE:
        return moment.date().isoformat()
    zone = "+00" if kind is Kind.TIMESTAMP and type_.tz is not None else ""
    date = "" if kind is Kind.TIME else f"{moment.date().isoformat()} "
    return f"{date}{moment.time().isoformat('seconds')}.{_fraction(type_, rest)}{zone}"


def _fraction(type_: pa.DataType, rest_ns: int) -> str:
    """The digits after the seconds: as many as the column's type has in SQL."""
    return f"{rest_ns:09}" if type_.unit == "ns" else f"{rest_ns // 1000:06}"
