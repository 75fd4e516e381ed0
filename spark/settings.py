"""Settings of a Spark session, changed around one action and put back after it.

A setting belongs to the whole session, so calls from several threads share it: the first that holds
it remembers what was there, the last one puts that back, and in between the newest value stands.
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


@dataclass(slots=True)
class _Held:
    before: str
    users: int = 0


_lock = threading.Lock()
_sessions: WeakKeyDictionary[Any, dict[str, _Held]] = WeakKeyDictionary()


@contextmanager
def held(session: Any, settings: Mapping[str, str]) -> Iterator[None]:
    """Run the body with these settings; the session is left as it was found."""
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
