"""The values that a merge computes, as the columns of its table store them.

Spark brings the branches of a ``CASE`` to one type, which would change values that no clause sets:
an integer beyond 2^53 next to a double. So each value gets its column's type by itself.

Rules:
- Numbers become numbers, where nothing is lost; a double may be rounded to fewer digits, as by any
  assignment.
- Of other types only those that hold the same values become another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import types as st

from blockstore.errors import Invalid
from blockstore.format.types import fits
from blockstore.spark.types import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import Column

_FLOATS = (st.FloatType, st.DoubleType)


def assigned(value: Column, found: st.DataType, field: pa.Field, kind: st.DataType) -> Column:
    """Return a value of the type ``found`` as a value of a column, which Spark reads as ``kind``;
    Spark raises an error for one that does not fit. Raises Invalid if no value of it does."""
    from pyspark.sql import functions as sf

    if _same(found, kind):
        return value
    if isinstance(found, st.NumericType) and isinstance(kind, st.NumericType):
        cast = value.try_cast(kind)
        kept = cast.isNotNull() if _may_round(found, kind) else cast.try_cast(found) == value
        return sf.when(value.isNull() | kept, cast).otherwise(
            sf.raise_error(
                sf.concat(
                    sf.lit(
                        f"the merge gives column {field.name!r} of type {field.type} the value "
                    ),
                    value.cast("string"),
                    sf.lit(", which it cannot hold as it is: cast it"),
                )
            ).cast(kind)
        )
    if not isinstance(found, st.NullType):
        try:
            (own,) = arrow_schema(st.StructType([st.StructField(field.name, found)]))
        except Invalid:
            own = None
        if own is None or not fits(own.type, field.type):
            raise Invalid(
                f"the merge gives column {field.name!r} of type {kind.simpleString()} a value of "
                f"type {found.simpleString()}: cast it"
            )
    return value.cast(kind)


def _same(found: st.DataType, kind: st.DataType) -> bool:
    texts = isinstance(found, st.StringType) and isinstance(kind, st.StringType)
    return texts or found == kind or found.simpleString() == kind.simpleString()


def _may_round(found: st.NumericType, kind: st.NumericType) -> bool:
    """Whether an assignment rounds: to fewer binary digits, or from binary to decimal ones."""
    if not isinstance(found, _FLOATS):
        return isinstance(found, st.DecimalType) and isinstance(kind, _FLOATS)
    return isinstance(kind, (*_FLOATS, st.DecimalType))
