"""Decimals of more digits than their type has:

Arrow's CSV reader, among others, makes such arrays without a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa

__all__ = ["long_decimals"]

_ROOMY = {
    32: (pa.decimal32, 9),
    64: (pa.decimal64, 18),
    128: (pa.decimal128, 38),
    256: (pa.decimal256, 76),
}


def long_decimals(values: Sequence[str | None], kind: pa.DataType) -> pa.Array:
    """An array of ``kind`` with exactly these values, given with all the digits of its scale."""
    make, digits = _ROOMY[kind.bit_width]
    roomy = make(digits, kind.scale)
    exact = pa.array([None if value is None else Decimal(value) for value in values], roomy)
    return pa.Array.from_buffers(kind, len(exact), exact.buffers())
