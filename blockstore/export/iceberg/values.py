"""Statistics as the bytes that Iceberg's manifests hold bounds in. Pure.

Rule: a bound that cannot be said exactly is left out; it may never exclude a row.
"""

from __future__ import annotations

import math
import struct
from decimal import Context, Decimal

import pyarrow as pa
import pyarrow.types as pt

from blockstore.format.block import StatValue
from blockstore.format.statistics import decode

_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_LONG = 2**63
_EXACT = Context(prec=77)
"""More digits than a decimal can have: with Python's usual 28 a bound would be rounded."""


def bound(kind: pa.DataType, now: pa.DataType, stat: StatValue | None) -> bytes | None:
    """Return a bound as Iceberg's single value.

    Args:
        kind: The type that the chunk has.
        now: The type that the table has by now, perhaps a wider one.
        stat: The statistic; None if it is not known.
    """
    value = None if stat is None else decode(kind, stat)
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if pt.is_boolean(now):
        return b"\x01" if value else b"\x00"
    if pt.is_decimal(now):
        return _decimal(Decimal(str(value)), now.scale)
    if pt.is_floating(now):
        if not math.isfinite(value):
            return None
        return struct.pack("<f" if now == pa.float32() else "<d", value)
    if pt.is_timestamp(now):
        microseconds = int(value) * _MICROSECONDS[kind.unit]
        # Iceberg has no moments beyond: such a value has no bound.
        return struct.pack("<q", microseconds) if -_LONG <= microseconds < _LONG else None
    if pt.is_time64(now):
        return struct.pack("<q", int(value))
    if pt.is_date32(now):
        return struct.pack("<i", int(value))
    if pt.is_integer(now):
        return struct.pack("<q" if now == pa.int64() else "<i", int(value))
    return None


def _decimal(value: Decimal, scale: int) -> bytes:
    unscaled = int(value.scaleb(scale, _EXACT))
    size = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    return unscaled.to_bytes(size, "big", signed=True)
