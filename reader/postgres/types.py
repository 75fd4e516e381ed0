"""PostgreSQL's types of the columns of a result, by their OIDs.

Rules:
- A column has the smallest type that holds all its values: unsigned 64-bit integers are numeric.
- What PostgreSQL does not have is JSON: structs, maps, unions, and lists in lists.
- Moments are exact to the microsecond, as PostgreSQL's are: finer digits are cut off.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from blockstore.reader.postgres.wire import Column

BOOL, BYTEA, INT8, INT2, INT4, TEXT, OID = 16, 17, 20, 21, 23, 25, 26
JSON, FLOAT4, FLOAT8, UNKNOWN, VARCHAR, BPCHAR = 114, 700, 701, 705, 1043, 1042
INET, JSONB = 869, 3802  # no column has them; clients look for them
DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL, NUMERIC = 1082, 1083, 1114, 1184, 1186, 1700
UUID, NAME, CHAR = 2950, 19, 18
VECTOR = 22
"""``int2vector``: the places of columns, as catalogs have them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Type:
    """A type of PostgreSQL."""

    oid: int
    name: str
    """Its name in ``pg_type``."""
    shown: str
    """Its name in SQL."""
    size: int
    """Its bytes in ``pg_type``; -1 where they vary."""
    array: int
    """The OID of its arrays."""
    category: str
    by_value: bool = False


def _types() -> tuple[Type, ...]:
    rows = (
        (BOOL, "bool", "boolean", 1, 1000, "B"),
        (BYTEA, "bytea", "bytea", -1, 1001, "U"),
        (CHAR, "char", '"char"', 1, 1002, "Z"),
        (NAME, "name", "name", 64, 1003, "S"),
        (INT8, "int8", "bigint", 8, 1016, "N"),
        (INT2, "int2", "smallint", 2, 1005, "N"),
        (VECTOR, "int2vector", "int2vector", -1, 1006, "A"),
        (INT4, "int4", "integer", 4, 1007, "N"),
        (TEXT, "text", "text", -1, 1009, "S"),
        (OID, "oid", "oid", 4, 1028, "N"),
        (JSON, "json", "json", -1, 199, "U"),
        (FLOAT4, "float4", "real", 4, 1021, "N"),
        (FLOAT8, "float8", "double precision", 8, 1022, "N"),
        (UNKNOWN, "unknown", "unknown", -2, 0, "X"),
        (BPCHAR, "bpchar", "character", -1, 1014, "S"),
        (VARCHAR, "varchar", "character varying", -1, 1015, "S"),
        (DATE, "date", "date", 4, 1182, "D"),
        (TIME, "time", "time without time zone", 8, 1183, "D"),
        (TIMESTAMP, "timestamp", "timestamp without time zone", 8, 1115, "D"),
        (TIMESTAMPTZ, "timestamptz", "timestamp with time zone", 8, 1185, "D"),
        (INTERVAL, "interval", "interval", 16, 1187, "T"),
        (NUMERIC, "numeric", "numeric", -1, 1231, "N"),
        (UUID, "uuid", "uuid", 16, 2951, "U"),
        (INET, "inet", "inet", -1, 1041, "I"),
        (JSONB, "jsonb", "jsonb", -1, 3807, "U"),
    )
    return tuple(
        Type(
            oid=oid,
            name=name,
            shown=shown,
            size=size,
            array=array,
            category=category,
            by_value=0 < size <= 8,
        )
        for oid, name, shown, size, array, category in rows
    )


TYPES = {one.oid: one for one in _types()}
"""All types but arrays, by their OIDs."""
ELEMENTS = {one.array: one.oid for one in TYPES.values() if one.array}
"""The type of the elements of each type of arrays."""

_PLAIN = {
    pa.bool_(): BOOL,
    pa.int8(): INT2,
    pa.uint8(): INT2,
    pa.int16(): INT2,
    pa.uint16(): INT4,
    pa.int32(): INT4,
    pa.uint32(): INT8,
    pa.int64(): INT8,
    pa.uint64(): NUMERIC,
    pa.float16(): FLOAT4,
    pa.float32(): FLOAT4,
    pa.float64(): FLOAT8,
}


def type_of(kind: pa.DataType) -> int:
    """The OID of the type of a column."""
    if isinstance(kind, pa.ExtensionType):
        return UUID if kind.extension_name == "arrow.uuid" else type_of(kind.storage_type)
    if kind in _PLAIN:
        return _PLAIN[kind]
    if pt.is_dictionary(kind):
        return type_of(kind.value_type)
    if is_list(kind):
        inner = type_of(kind.value_type)
        plain = inner != JSON and inner in TYPES
        return TYPES[inner].array if plain else JSON
    if pt.is_nested(kind):
        return JSON
    if pt.is_decimal(kind):
        return NUMERIC
    if is_bytes(kind):
        return BYTEA
    if pt.is_date(kind):
        return DATE
    if pt.is_time(kind):
        return TIME
    if pt.is_timestamp(kind):
        return TIMESTAMP if kind.tz is None else TIMESTAMPTZ
    if pt.is_interval(kind) or pt.is_duration(kind):
        return INTERVAL
    return TEXT


def modifier_of(kind: pa.DataType) -> int:
    """What PostgreSQL keeps of a type besides its OID: the digits of a decimal; -1 for none."""
    if pt.is_decimal(kind):
        return ((kind.precision << 16) | kind.scale) + 4
    return -1


def oid_of(kind: pa.DataType) -> int:
    """The OID of the type of a column of a catalog, whose unsigned numbers are OIDs."""
    if kind == pa.uint32():
        return OID
    if is_list(kind) and kind.value_type == pa.uint32():
        return TYPES[OID].array
    if is_list(kind) and kind.value_type == pa.uint16():
        return VECTOR
    return type_of(kind)


def columns_of(schema: pa.Schema, *, oids: bool = False) -> list[Column]:
    """The columns of a result; ``oids``: of a catalog."""
    return [
        Column(
            name=field.name,
            type=(oid := oid_of(field.type) if oids else type_of(field.type)),
            size=TYPES[oid].size if oid in TYPES else -1,
            modifier=modifier_of(field.type),
        )
        for field in schema
    ]


def is_list(kind: pa.DataType) -> bool:
    """Whether values are lists."""
    return bool(
        pt.is_list(kind)
        or pt.is_large_list(kind)
        or pt.is_fixed_size_list(kind)
        or pt.is_list_view(kind)
        or pt.is_large_list_view(kind)
    )


def is_bytes(kind: pa.DataType) -> bool:
    """Whether values are bytes."""
    return bool(
        pt.is_binary(kind)
        or pt.is_large_binary(kind)
        or pt.is_binary_view(kind)
        or pt.is_fixed_size_binary(kind)
    )


def sql_of(oid: int, modifier: int = -1) -> str:
    """The type in the engine's SQL; empty for one that it does not have."""
    if oid in ELEMENTS:
        inner = sql_of(ELEMENTS[oid])
        return f"{inner}[]" if inner else ""
    if oid == NUMERIC and modifier > 4:
        precision, scale = (modifier - 4) >> 16, (modifier - 4) & 0xFFFF
        return f"DECIMAL({precision}, {scale})"
    return _SQL.get(oid, "")


_SQL = {
    BOOL: "BOOLEAN",
    BYTEA: "BLOB",
    INT8: "BIGINT",
    INT2: "SMALLINT",
    INT4: "INTEGER",
    TEXT: "VARCHAR",
    VARCHAR: "VARCHAR",
    BPCHAR: "VARCHAR",
    NAME: "VARCHAR",
    CHAR: "VARCHAR",
    OID: "UINTEGER",
    JSON: "VARCHAR",
    FLOAT4: "FLOAT",
    FLOAT8: "DOUBLE",
    DATE: "DATE",
    TIME: "TIME",
    TIMESTAMP: "TIMESTAMP",
    TIMESTAMPTZ: "TIMESTAMPTZ",
    INTERVAL: "INTERVAL",
    NUMERIC: "DECIMAL(38, 9)",
    UUID: "UUID",
}
