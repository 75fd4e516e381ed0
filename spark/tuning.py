"""The settings that decide how fast rows go between Spark and Python.

With its default limit of 64 MB a batch, Spark measures the batch after every row; at exactly
``INT_MAX`` it does not, and an append is about twice as fast. What then bounds a batch is its
number of rows, chosen from the schema so that a batch of wide rows stays small. Spark reads both
when an action starts.

On the way back Spark takes every value out of Arrow by a method that looks once more whether it is
null and whether it lies inside its buffer, both of which Spark and the stream's decoder have made
sure of. ``JVM_OPTIONS`` leave these looks out; a JVM takes them when it starts, so whoever starts
the session must give them (docs/guides/spark.md, "Tuning").

``UNIX_SOCKETS`` is a setting of the session's start as well: over the loopback interface, Spark's
default, each action that plans in Python waits 40 to 70 ms longer, and all rows take a tenth more
of both processes' time.
"""

from __future__ import annotations

from pyspark.sql import types as st

__all__ = [
    "BATCH_BYTES",
    "BATCH_ROWS",
    "JVM_OPTIONS",
    "UNIX_SOCKETS",
    "batch_settings",
    "rows_per_batch",
]

BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"

JVM_OPTIONS = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
"""Arrow's own switches (org.apache.arrow.memory.BoundsChecking,
org.apache.arrow.vector.NullCheckingForGet)."""

UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"
"""Set to true, rows go between Spark and Python over Unix domain sockets."""

UNMEASURED = 2**31 - 1
MOST_ROWS = 50_000
LEAST_ROWS = 500
TARGET_BYTES = 64 * 2**20
STRING_BYTES = 32
BINARY_BYTES = 1024
ELEMENTS = 8
"""How long a string, a binary value and a list are taken to be: only rows that are wider by far
need ``tune=False``."""


def batch_settings(schema: st.StructType) -> dict[str, str]:
    """The settings under which rows of ``schema`` reach Python fastest."""
    return {BATCH_BYTES: str(UNMEASURED), BATCH_ROWS: str(rows_per_batch(schema))}


def rows_per_batch(schema: st.StructType) -> int:
    """How many rows of ``schema`` make a batch of about 64 MiB, between 500 and 50,000."""
    return max(LEAST_ROWS, min(MOST_ROWS, TARGET_BYTES // max(1, _width(schema))))


def _width(kind: st.DataType) -> int:
    """About how many bytes a value of this type takes."""
    if isinstance(kind, st.StructType):
        return sum(_width(field.dataType) for field in kind.fields)
    if isinstance(kind, st.ArrayType):
        return ELEMENTS * _width(kind.elementType)
    if isinstance(kind, st.MapType):
        return ELEMENTS * (_width(kind.keyType) + _width(kind.valueType))
    if isinstance(kind, st.StringType):
        return STRING_BYTES
    if isinstance(kind, st.BinaryType):
        return BINARY_BYTES
    return 16 if isinstance(kind, st.DecimalType) else 8
