"""The digest over the rows of a checkpoint: what a reader compares before it believes them.

Defined by values alone, so that any process, and any language, computes the same from the same rows
however the file was packed (docs/format.md, "The content of a checkpoint"):
- Each column gives one to three strings of bytes, its parts. A column of numbers: each value as 8
  bytes, little-endian, two's complement; of booleans: each as 1 byte, 0 or 1. Of texts or bytes:
  each length as such a number, then all values end to end. Of lists: each row's number of items, -1
  for null; then the lengths of the items; then the items end to end.
- The digest is the SHA-256 of the SHA-256 digests of all parts, 32 bytes each, in the order of the
  columns and parts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from blockstore.index.rows import BULK, FRAME


def content_of(frame: pa.Table, bulk: Iterable[pa.Table]) -> str:
    """The digest of these rows, their large columns in pieces.

    Raises ValueError for a null where none may be.
    """
    return hashlib.sha256(b"".join([*_digests(FRAME, [frame]), *_digests(BULK, bulk)])).hexdigest()


def _digests(columns: pa.Schema, tables: Iterable[pa.Table]) -> list[bytes]:
    hashers = [[hashlib.sha256() for _ in range(_parts(field.type))] for field in columns]
    for table in tables:
        for field, of_column in zip(columns, hashers, strict=True):
            for chunk in table[field.name].chunks:
                for hasher, part in zip(of_column, parts_of(chunk), strict=True):
                    hasher.update(part)
    return [hasher.digest() for of_column in hashers for hasher in of_column]


def _parts(kind: pa.DataType) -> int:
    return 3 if pa.types.is_list(kind) else 1 if pa.types.is_primitive(kind) else 2


def parts_of(array: pa.Array) -> Iterator[memoryview]:
    """The parts of one piece of a column."""
    import pyarrow.compute as pc

    if pa.types.is_list(array.type):
        lengths = _integers(pc.fill_null(pc.list_value_length(array), -1))
        yield lengths.data
        yield from parts_of(array.flatten())
    elif array.null_count:
        raise ValueError(f"a {array.type} is null, expected a value in each row")
    elif pa.types.is_boolean(array.type):
        yield np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.uint8).data
    elif pa.types.is_integer(array.type):
        yield _integers(array).data
    else:
        yield from _texts(array)


def _integers(array: pa.Array) -> npt.NDArray[np.int64]:
    return np.ascontiguousarray(array.to_numpy(zero_copy_only=False), dtype="<i8")


def _texts(array: pa.Array) -> Iterator[memoryview]:
    _, offset_buffer, data = array.buffers()
    if len(array) == 0:
        offsets = np.zeros(1, dtype=np.int32)
    else:
        offsets = np.frombuffer(offset_buffer, dtype=np.int32)[
            array.offset : array.offset + len(array) + 1
        ]
    yield np.diff(offsets).astype("<i8").data
    yield memoryview(data or b"")[int(offsets[0]) : int(offsets[-1])]
