"""Delta's deletion vectors: the positions of a data file that are not shown. Pure.

The file has a version (one byte), the size of the bitmap, the bitmap, and its CRC-32. The bitmap is
Delta's magic number and a portable 64-bit Roaring bitmap.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Any

from pyroaring import BitMap64

from blockstore.export.own_id import own_id
from blockstore.scan.chunk import Positions

_MAGIC = 1681511377
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
"""Of base 85 as ZeroMQ writes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """A file of one deletion vector."""

    name: str
    data: bytes
    said: dict[str, Any]
    """What the log says of it."""


def vector(folder: str, path: str, positions: Positions) -> Vector:
    """Return the vector of a data file; ``folder`` is where it is kept, in the table."""
    bitmap = struct.pack("<I", _MAGIC) + BitMap64(positions.tolist()).serialize()
    own = own_id(f"{path} {bitmap.hex()}")
    return Vector(
        name=f"deletion_vector_{own}.bin",
        data=b"\x01"
        + struct.pack(">I", len(bitmap))
        + bitmap
        + struct.pack(">I", zlib.crc32(bitmap)),
        said={
            "storageType": "u",
            "pathOrInlineDv": folder + _base85(bytes.fromhex(own.replace("-", ""))),
            "offset": 1,
            "sizeInBytes": len(bitmap),
            "cardinality": len(positions),
        },
    )


def _base85(data: bytes) -> str:
    digits = ""
    for (number,) in struct.iter_unpack(">I", data):
        digits += "".join(_DIGITS[number // 85**place % 85] for place in (4, 3, 2, 1, 0))
    return digits
