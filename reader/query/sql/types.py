"""The types that a table's columns have in SQL: those that DuckDB gives the same column of a
Parquet file.

Times are instants: a timestamp with a time zone is one, shown in UTC, whatever zone the column
names. Units finer than DuckDB's own are kept (nanoseconds have types of their own), coarser ones
become microseconds, which loses nothing. A duration is the whole number that Parquet stores, in the
column's unit.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from blockstore.errors import Invalid

_PLAIN = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.uint8(): "UTINYINT",
    pa.uint16(): "USMALLINT",
    pa.uint32(): "UINTEGER",
    pa.uint64(): "UBIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.binary(): "BLOB",
    pa.date32(): "DATE",
    pa.time32("s"): "TIME",
    pa.time32("ms"): "TIME",
    pa.time64("us"): "TIME",
    pa.time64("ns"): "TIME_NS",
}

_DIGITS = 38


def sql_type(kind: pa.DataType) -> str:
    """The name of DuckDB's type for a column of ``kind``, as a table holds it;

    Invalid for a type it cannot read.
    """
    if kind in _PLAIN:
        return _PLAIN[kind]
    if pt.is_dictionary(kind):
        return sql_type(kind.value_type)
    if pt.is_fixed_size_binary(kind):
        return "BLOB"
    if pt.is_timestamp(kind):
        name = "TIMESTAMP" if kind.tz is None else "TIMESTAMPTZ"
        return f"{name}_NS" if kind.unit == "ns" else name
    if pt.is_duration(kind):
        return "BIGINT"
    if pt.is_decimal(kind) and kind.precision <= _DIGITS:
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if pt.is_struct(kind):
        return f"STRUCT({', '.join(f'{quoted(one.name)} {sql_type(one.type)}' for one in kind.fields)})"
    if pt.is_map(kind):
        return f"MAP({sql_type(kind.key_type)}, {sql_type(kind.item_type)})"
    if pt.is_list(kind) or pt.is_fixed_size_list(kind):
        return f"{sql_type(kind.value_type)}[]"
    raise Invalid(
        f"SQL cannot read a column of the type {kind}: scan the table with Python instead"
    )


def quoted(name: str) -> str:
    """``name`` as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """``value`` as an SQL string."""
    return "'" + value.replace("'", "''") + "'"
