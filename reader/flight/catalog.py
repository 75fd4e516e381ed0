"""The metadata of Flight SQL: catalogs, schemas, tables with their columns, and keys.

Rules:
- Tables are named without a catalog and a schema, so there is one of each, and its name is empty:
  a client that puts the three together names the table alone.
- A caller sees the tables of its token.
- A pattern is that of LIKE: ``%`` and ``_``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from blockstore.errors import BlockstoreError
from blockstore.reader.doors.access import check_scope
from blockstore.reader.doors.seen import names_seen, seen_of
from blockstore.reader.flight.sql_info import SQL_INFO, TYPE_INFO, sql_info, type_info
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.tokens import Caller, Scope

_logger = logging.getLogger(__name__)

_NONE = ""
_TABLE = "TABLE"


def _text(name: str, *, nullable: bool = False) -> pa.Field:
    return pa.field(name, pa.string(), nullable=nullable)


_CATALOGS = pa.schema([_text("catalog_name")])
_SCHEMAS = pa.schema([_text("catalog_name", nullable=True), _text("db_schema_name")])
_TYPES = pa.schema([_text("table_type")])
_TABLES = pa.schema(
    [
        _text("catalog_name", nullable=True),
        _text("db_schema_name", nullable=True),
        _text("table_name"),
        _text("table_type"),
    ]
)
_WITH_SCHEMA = _TABLES.append(pa.field("table_schema", pa.binary(), nullable=False))
_PRIMARY = pa.schema(
    [
        _text("catalog_name", nullable=True),
        _text("db_schema_name", nullable=True),
        _text("table_name"),
        _text("column_name"),
        pa.field("key_sequence", pa.int32(), nullable=False),
        _text("key_name", nullable=True),
    ]
)
_FOREIGN = pa.schema(
    [
        _text("pk_catalog_name", nullable=True),
        _text("pk_db_schema_name", nullable=True),
        _text("pk_table_name"),
        _text("pk_column_name"),
        _text("fk_catalog_name", nullable=True),
        _text("fk_db_schema_name", nullable=True),
        _text("fk_table_name"),
        _text("fk_column_name"),
        pa.field("key_sequence", pa.int32(), nullable=False),
        _text("fk_key_name", nullable=True),
        _text("pk_key_name", nullable=True),
        pa.field("update_rule", pa.uint8(), nullable=False),
        pa.field("delete_rule", pa.uint8(), nullable=False),
    ]
)
_SCHEMA_OF = {
    "CommandGetCatalogs": _CATALOGS,
    "CommandGetDbSchemas": _SCHEMAS,
    "CommandGetTableTypes": _TYPES,
    "CommandGetPrimaryKeys": _PRIMARY,
    "CommandGetExportedKeys": _FOREIGN,
    "CommandGetImportedKeys": _FOREIGN,
    "CommandGetCrossReference": _FOREIGN,
    "CommandGetSqlInfo": SQL_INFO,
    "CommandGetXdbcTypeInfo": TYPE_INFO,
}


def schema_of(name: str, command: Any) -> pa.Schema | None:
    """The columns of the response to a command about metadata; None for another command."""
    if name == "CommandGetTables":
        return _WITH_SCHEMA if command.include_schema else _TABLES
    return _SCHEMA_OF.get(name)


def rows_of(gateway: Gateway, caller: Caller, name: str, command: Any) -> pa.Table:
    """The response to a command about metadata. Raises Problem without the scope."""
    check_scope(caller, Scope.READ)
    schema = schema_of(name, command)
    assert schema is not None, "the command is about metadata"
    make: Callable[[Gateway, Caller, Any], Sequence[Mapping[str, object]]] | None
    if name == "CommandGetSqlInfo":
        return sql_info(command.info, gateway.jobs is None)
    if name == "CommandGetXdbcTypeInfo":
        return type_info(command.data_type if command.HasField("data_type") else None)
    make = _ROWS.get(name)
    found = [] if make is None else make(gateway, caller, command)
    return pa.Table.from_pylist([dict(one) for one in found], schema)


def _catalogs(gateway: Gateway, caller: Caller, command: Any) -> Sequence[Mapping[str, object]]:
    return [{"catalog_name": _NONE}]


def _schemas(gateway: Gateway, caller: Caller, command: Any) -> Sequence[Mapping[str, object]]:
    named = _of_catalog(command) and _like(command, "db_schema_filter_pattern", _NONE)
    return [{"catalog_name": _NONE, "db_schema_name": _NONE}] if named else []


def _types(gateway: Gateway, caller: Caller, command: Any) -> Sequence[Mapping[str, object]]:
    return [{"table_type": _TABLE}]


def _tables(gateway: Gateway, caller: Caller, command: Any) -> Sequence[Mapping[str, object]]:
    kinds = list(command.table_types)
    if not _of_catalog(command) or not _like(command, "db_schema_filter_pattern", _NONE):
        return []
    if kinds and _TABLE not in kinds:
        return []
    names = [
        table
        for table in names_seen(gateway, caller)
        if _like(command, "table_name_filter_pattern", table)
    ]
    found: list[Mapping[str, object]] = []
    for table in names:
        row: dict[str, object] = {
            "catalog_name": _NONE,
            "db_schema_name": _NONE,
            "table_name": table,
            "table_type": _TABLE,
        }
        if command.include_schema:
            row["table_schema"] = _columns(gateway, caller, table, alone=len(names) == 1)
        found.append(row)
    return found


def _columns(gateway: Gateway, caller: Caller, table: str, *, alone: bool) -> bytes:
    """The columns of a table, as a message. One of many that cannot be read has none, so that the
    others are listed; a query of it says why. Raises what a query raises for one alone."""
    try:
        return _plain(seen_of(gateway, caller, table).columns)
    except BlockstoreError as error:
        if alone:
            raise
        _logger.warning("table %s is listed without columns: %s", table, error)
        return _plain(pa.schema([]))


def _primary(gateway: Gateway, caller: Caller, command: Any) -> Sequence[Mapping[str, object]]:
    seen = seen_of(gateway, caller, command.table)
    return [
        {
            "catalog_name": _NONE,
            "db_schema_name": _NONE,
            "table_name": seen.name,
            "column_name": column,
            "key_sequence": place,
            "key_name": None,
        }
        for place, column in enumerate(seen.key, start=1)
    ]


_ROWS = {
    "CommandGetCatalogs": _catalogs,
    "CommandGetDbSchemas": _schemas,
    "CommandGetTableTypes": _types,
    "CommandGetTables": _tables,
    "CommandGetPrimaryKeys": _primary,
}
"""There are no foreign keys: a command about them has no rows."""


def _plain(schema: pa.Schema) -> bytes:
    """The columns without what the table's format says of them."""
    fields = [field.remove_metadata() for field in schema]
    return pa.schema(fields).serialize().to_pybytes()


def _of_catalog(command: Any) -> bool:
    return not command.HasField("catalog") or command.catalog == _NONE


def _like(command: Any, field: str, name: str) -> bool:
    if not command.HasField(field):
        return True
    return _is_like(getattr(command, field), name)


def _is_like(pattern: str, name: str) -> bool:
    """Whether LIKE finds the name, in time that grows with one text times the other: a regular
    expression of many ``%`` may take hours, and holds all threads meanwhile."""
    at = place = 0
    star, begun = -1, 0
    while place < len(name):
        if pattern[at : at + 1] == "%":
            star, begun, at = at, place, at + 1
        elif at < len(pattern) and pattern[at] in ("_", name[place]):
            at, place = at + 1, place + 1
        elif star >= 0:  # the last % takes one character more
            begun += 1
            at, place = star + 1, begun
        else:
            return False
    return not pattern[at:].strip("%")
