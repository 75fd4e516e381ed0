"""Settings of a Spark session: hold them around one action, and which ones make rows travel fast.

A setting belongs to the session, so calls from several threads share it. The first that holds it
remembers the value it found, and the last one restores that value. In between the newest value
applies.

With its default limit of 64 MB a batch, Spark measures the batch after every row. At exactly
``INT_MAX`` it does not, and an append is about twice as fast. The number of rows then bounds a
batch; it is chosen from the schema so that a batch of wide rows stays small. Spark reads both
settings when an action starts.

On the way back Spark reads every value from Arrow by a method that checks again for null and for
the buffer's bounds. Spark and the stream's decoder have checked both before. ``JVM_OPTIONS`` turn
these checks off. A JVM reads them when it starts, so they must be given when the session is started
(docs/guides/spark.md, "Tuning").

``UNIX_SOCKETS`` is also set when the session starts. Over the loopback interface, Spark's default,
each action that plans in Python waits 40 to 70 ms longer, and all rows cost both processes a tenth
more time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import types as st

BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"

JVM_OPTIONS = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
"""Arrow's own switches (org.apache.arrow.memory.BoundsChecking,
org.apache.arrow.vector.NullCheckingForGet)."""

UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"
"""If true, rows travel between Spark and Python over Unix domain sockets."""

TIME_TYPE = "spark.sql.timeType.enabled"
"""Without it Spark refuses expressions over columns of a time of day."""

UNMEASURED = 2**31 - 1
MOST_ROWS = 50_000
LEAST_ROWS = 500
TARGET_BYTES = 64 * 2**20
STRING_BYTES = 32
BINARY_BYTES = 1024
ELEMENTS = 8
"""The assumed length of a string, a binary value and a list. Only rows that are much wider need
``tune=False``."""


@dataclass(slots=True)
class _Held:
    before: str
    users: int = 0


_lock = threading.Lock()
_sessions: WeakKeyDictionary[Any, dict[str, _Held]] = WeakKeyDictionary()


@contextmanager
def held(session: Any, settings: Mapping[str, str]) -> Iterator[None]:
    """Run the body with these settings, then restore the session's own."""
    with _lock:
        known = _sessions.setdefault(session, {})
        for name, value in settings.items():
            holding = known.setdefault(name, _Held(session.conf.get(name)))
            holding.users += 1
            session.conf.set(name, value)
    try:
        yield
    finally:
        with _lock:
            for name in settings:
                holding = known[name]
                holding.users -= 1
                if holding.users == 0:
                    session.conf.set(name, holding.before)
                    del known[name]


def batch_settings(schema: st.StructType) -> dict[str, str]:
    """The settings with which rows of ``schema`` reach Python fastest."""
    return {BATCH_BYTES: str(UNMEASURED), BATCH_ROWS: str(rows_per_batch(schema))}


def rows_per_batch(schema: st.StructType) -> int:
    """The number of rows of ``schema`` in a batch of about 64 MiB, between 500 and 50,000."""
    return max(LEAST_ROWS, min(MOST_ROWS, TARGET_BYTES // max(1, _width(schema))))


def _width(kind: st.DataType) -> int:
    """The approximate number of bytes of a value of this type."""
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
