"""Spark schemas as Arrow schemas, and back.

- A type that both a table and Spark have maps both ways by value. Any other type is refused with
  the column's name before a byte is read or written.
- Columns are nullable on both sides: a table promises no more, and Spark's ``not null`` is a hint
  of one query. A reader may request that hint (``option("not_null", "true")``).
- A column's comment and its ``blockstore.*`` metadata are kept in both directions. Other metadata
  is dropped.
- Timestamps with a zone are instants and reach Spark in UTC. Those without one are
  ``timestamp_ntz``.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as at
from pyspark.sql import types as st
from pyspark.sql.pandas.types import to_arrow_schema

from blockstore.errors import Invalid

if TYPE_CHECKING:
    from pyspark.sql import Column

METADATA_PREFIX = "blockstore."
COMMENT = "comment"
"""The metadata key under which Spark keeps a column's comment."""

_REFUSED = (
    st.NullType,
    st.VariantType,
    st.CalendarIntervalType,
    st.YearMonthIntervalType,
    st.DayTimeIntervalType,
    st.GeometryType,
    st.GeographyType,
    st.UserDefinedType,
)

_SCALARS: dict[pa.DataType, st.DataType] = {
    pa.bool_(): st.BooleanType(),
    pa.int8(): st.ByteType(),
    pa.int16(): st.ShortType(),
    pa.int32(): st.IntegerType(),
    pa.int64(): st.LongType(),
    pa.uint8(): st.ShortType(),
    pa.uint16(): st.IntegerType(),
    pa.uint32(): st.LongType(),
    pa.uint64(): st.DecimalType(20, 0),
    pa.float32(): st.FloatType(),
    pa.float64(): st.DoubleType(),
    pa.string(): st.StringType(),
    pa.binary(): st.BinaryType(),
    pa.date32(): st.DateType(),
    pa.time64("us"): st.TimeType(),
    pa.time64("ns"): st.TimeType(),
    pa.time32("s"): st.TimeType(),
    pa.time32("ms"): st.TimeType(),
}

_NATIVE = {
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(),
    pa.date32(),
    pa.string(), pa.binary(),
}  # fmt: skip


def arrow_schema(schema: st.StructType) -> pa.Schema:
    """The Arrow schema of a DataFrame's rows. Raises Invalid for a type that no table can store."""
    for field in schema.fields:
        refused = _refused_part(field.dataType)
        if refused is not None:
            raise Invalid(
                f"column {field.name!r} has Spark type {refused.simpleString()}, which a table "
                "cannot store: cast it to a number, a string, a timestamp or a struct of these, or "
                "drop it."
            )
    return pa.schema(
        [
            pa.field(field.name, arrow.type, nullable=True, metadata=_kept(field.metadata))
            for field, arrow in zip(
                schema.fields, to_arrow_schema(schema, timezone="UTC"), strict=True
            )
        ]
    )


def spark_schema(schema: pa.Schema, not_null: Collection[str] = ()) -> st.StructType:
    """The Spark schema of rows of ``schema``, with the given columns declared ``not null``.

    Raises Invalid for a type that Spark lacks.
    """
    return st.StructType(
        [
            st.StructField(
                field.name,
                _spark_type(field.type, field.name),
                field.name not in not_null,
                _shown(field.metadata),
            )
            for field in schema
        ]
    )


def batch_schema(schema: st.StructType) -> pa.Schema:
    """The exact Arrow schema that Spark requires of every batch of a DataFrame of ``schema``."""
    return to_arrow_schema(schema, timezone="UTC")


def native_can_read(kind: pa.DataType) -> bool:
    """Whether Spark's Parquet reader returns the same values for a column that pyarrow wrote with
    this type."""
    if at.is_decimal128(kind):
        return True
    if at.is_timestamp(kind):
        return kind.unit != "ns"
    if at.is_list(kind):
        return native_can_read(kind.value_type)
    if at.is_map(kind):
        return native_can_read(kind.key_type) and native_can_read(kind.item_type)
    if at.is_struct(kind):
        return all(native_can_read(field.type) for field in kind)
    return kind in _NATIVE


def literal(value: pa.Scalar, column: str) -> Column:
    """A value of a column as Spark has it. Raises Invalid for one that Spark cannot hold."""
    from pyspark.sql import functions as sf

    kind = value.type
    finer = (at.is_timestamp(kind) or at.is_time(kind)) and kind.unit == "ns"
    if finer and pc.remainder(value.cast(pa.int64()), 1000).as_py():
        raise Invalid(
            f"column {column!r} has the default {value}, and Spark has microseconds: say a value "
            "for this column"
        )
    return sf.lit(value.cast(pa.string()).as_py()).cast(_spark_type(kind, column))


def quoted(name: str) -> str:
    """A column's name as Spark's parser reads it, with any characters."""
    return "`" + name.replace("`", "``") + "`"


def _spark_type(kind: pa.DataType, column: str) -> st.DataType:
    scalar = _SCALARS.get(kind)
    if scalar is not None:
        return scalar
    if at.is_timestamp(kind):
        return st.TimestampNTZType() if kind.tz is None else st.TimestampType()
    if at.is_decimal128(kind):
        return st.DecimalType(kind.precision, kind.scale)
    if at.is_fixed_size_binary(kind):
        return st.BinaryType()
    if at.is_list(kind) or at.is_fixed_size_list(kind):
        return st.ArrayType(_spark_type(kind.value_type, column), True)
    if at.is_map(kind):
        return st.MapType(
            _spark_type(kind.key_type, column), _spark_type(kind.item_type, column), True
        )
    if at.is_struct(kind):
        return st.StructType(
            [st.StructField(f.name, _spark_type(f.type, column), True) for f in kind]
        )
    raise Invalid(
        f"column {column!r} has type {kind}, which Spark does not have: read the other columns "
        "with option('columns', 'a,b,…')."
    )


def _refused_part(kind: st.DataType) -> st.DataType | None:
    """The first part of a Spark type that no table can store, or None."""
    if isinstance(kind, _REFUSED):
        return kind
    parts: list[st.DataType] = []
    if isinstance(kind, st.ArrayType):
        parts = [kind.elementType]
    elif isinstance(kind, st.MapType):
        parts = [kind.keyType, kind.valueType]
    elif isinstance(kind, st.StructType):
        parts = [field.dataType for field in kind.fields]
    return next((found for part in parts if (found := _refused_part(part)) is not None), None)


def _kept(metadata: dict[str, Any] | None) -> dict[str, str] | None:
    """The part of a Spark column's metadata that becomes part of the table."""
    kept = {key: str(value) for key, value in (metadata or {}).items() if _is_kept(key)}
    return kept or None


def _shown(metadata: dict[bytes, bytes] | None) -> dict[str, str] | None:
    """The part of a table column's metadata that a DataFrame's column has."""
    texts = {key.decode(errors="replace"): value for key, value in (metadata or {}).items()}
    shown = {key: value.decode(errors="replace") for key, value in texts.items() if _is_kept(key)}
    return shown or None


def _is_kept(key: str) -> bool:
    return key == COMMENT or key.startswith(METADATA_PREFIX)
