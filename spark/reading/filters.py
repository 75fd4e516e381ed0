"""A complete condition of Blockstore as a Spark column, exactly, or None if a part of it has no
counterpart.

Both sides order values alike: NaN equals itself and is greater than every other float, strings
compare by their UTF-8 bytes, and a null satisfies only IS NULL.
"""

from __future__ import annotations

import datetime

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as sf

from blockstore.predicate.nodes import (
    Always,
    And,
    Compare,
    IsNull,
    Key,
    Node,
    OneOf,
    Op,
    Or,
    Prefix,
)
from blockstore.spark.types import quoted

_US = 1_000
_DAY_NS = 86_400_000_000_000
_EPOCH = datetime.datetime(1970, 1, 1)
_FIRST_US = (datetime.datetime.min - _EPOCH) // datetime.timedelta(microseconds=1)
_LAST_US = (datetime.datetime.max - _EPOCH) // datetime.timedelta(microseconds=1)


def has_counterpart(node: Node) -> bool:
    """Whether ``to_spark`` returns a column; makes no call to Spark."""
    if isinstance(node, And | Or):
        return all(has_counterpart(part) for part in node.parts)
    if isinstance(node, Compare):
        return _has_literal(node.column.type, node.key)
    return not isinstance(node, OneOf) or all(
        _has_literal(node.column.type, key) for key in node.keys
    )


def to_spark(node: Node) -> SparkColumn | None:
    """A Spark column that is true for exactly the same rows, or None if there is none."""
    return _column(node) if has_counterpart(node) else None


def _column(node: Node) -> SparkColumn:
    if isinstance(node, And | Or):
        first, *rest = (_column(part) for part in node.parts)
        for part in rest:
            first = first & part if isinstance(node, And) else first | part
        return first
    if isinstance(node, Always):
        return sf.lit(node.value)
    column = sf.col(quoted(node.column.name))
    if isinstance(node, IsNull):
        return column.isNotNull() if node.negated else column.isNull()
    if isinstance(node, Prefix):
        starts = column.startswith(node.prefix)
        return ~starts if node.negated else starts
    if isinstance(node, OneOf):
        among = column.isin([_literal(node.column.type, key) for key in node.keys])
        return ~among if node.negated else among
    return _comparison(column, node)


def _comparison(column: SparkColumn, node: Compare) -> SparkColumn:
    value = _literal(node.column.type, node.key)
    if node.op is Op.EQ:
        return column == value
    if node.op is Op.NE:
        return column != value
    if node.op is Op.LT:
        return column < value
    if node.op is Op.LE:
        return column <= value
    return column > value if node.op is Op.GT else column >= value


def _has_literal(kind: pa.DataType, key: Key) -> bool:
    """Whether Spark has a literal for a key of a column of this type."""
    if pa.types.is_date(kind):
        return True
    if pa.types.is_timestamp(kind):
        micros, rest = divmod(int(key), _US)
        return rest == 0 and (kind.tz is not None or _FIRST_US <= micros <= _LAST_US)
    if pa.types.is_time(kind):
        return False
    return not isinstance(key, int) or -(2**63) <= key < 2**63


def _literal(kind: pa.DataType, key: Key) -> SparkColumn:
    """A key of a column as a Spark literal, of the type with which Spark reads the column."""
    if pa.types.is_date(kind):
        return sf.date_from_unix_date(sf.lit(int(key) // _DAY_NS))
    if pa.types.is_timestamp(kind):
        micros = int(key) // _US
        if kind.tz is not None:
            return sf.timestamp_micros(sf.lit(micros))
        moment = (_EPOCH + datetime.timedelta(microseconds=micros)).isoformat(sep=" ")
        return sf.expr(f"TIMESTAMP_NTZ '{moment}'")
    return sf.lit(bytearray(key) if isinstance(key, bytes) else key)
