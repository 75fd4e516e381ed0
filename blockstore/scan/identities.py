"""The identities of rows as one Arrow array, and as the 64 bits that an index entry holds of each.

Rules:
- Two rows of a stream have one identity if and only if their values here are equal: equality of
  exact bytes, without collation.
- A key of several columns becomes one text: each column's text after its length, so that no two
  keys have the same.
- What is hashed does not depend on how a library prints a time: times are integers of their own
  unit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from blockstore.format.block import StreamKey
from blockstore.format.identity import Identity, RowIds
from blockstore.format.value_text import plain_values
from blockstore.index.touches import Hashes


def identities(columns: Sequence[pa.Array]) -> pa.Array:
    """Return one value for each row: that of its only identity column, or a text made of all."""
    plain = [_plain(column) for column in columns]
    return plain[0] if len(plain) == 1 else _joined(plain)


def row_texts(columns: Sequence[pa.Array]) -> pa.Array:
    """Return one text for each row, of all its columns: two rows are equal in every column, nulls
    and nested values too, if and only if their texts are."""
    return _joined([_with_nulls(_plain(column)) for column in columns])


def hashes(identity: Identity, stream: StreamKey, columns: Sequence[pa.Array]) -> Hashes:
    """Return the 64 bits of each row's identity, by which an entry says what it touched."""
    if isinstance(identity, RowIds):
        return np.asarray(columns[0].to_numpy(zero_copy_only=False), dtype=np.int64).view(np.uint64)
    named = repr((stream.labels, stream.resolution)).encode()
    salt = hashlib.blake2b(named, digest_size=16).digest()
    texts = _joined([_plain(column) for column in columns]).cast(pa.binary())
    # A copy takes half as long as a new one.
    begun, digests = hashlib.blake2b(digest_size=8, salt=salt), []
    for text in texts.to_pylist():
        digest = begun.copy()
        digest.update(text)
        digests.append(digest.digest())
    return np.frombuffer(b"".join(digests), dtype="<u8")


def ticks(times: pa.Array) -> pa.Array:
    """Return times as integers of their own unit."""
    return times.cast(pa.int32() if times.type.bit_width == 32 else pa.int64()).cast(pa.int64())


def _with_nulls(column: pa.Array) -> pa.Array:
    """A text of each value that says whether there is one."""
    if pt.is_nested(column.type) or pt.is_null(column.type):
        shown = [repr(_counted(value)).encode() for value in plain_values(column)]
        return pa.array(shown, pa.large_binary())
    empty = pa.scalar(b"", pa.large_binary())
    there = pc.binary_join_element_wise(pa.scalar(b"=", pa.large_binary()), _text(column), empty)
    return pc.fill_null(there, empty)


def _counted(value: object) -> object:
    """The value with the count of each time that Python cannot hold, which Arrow cannot write."""
    if isinstance(value, list | tuple):
        return type(value)(map(_counted, value))
    if isinstance(value, dict):
        return {name: _counted(one) for name, one in value.items()}
    return value.value if isinstance(value, pa.Scalar) else value


def _plain(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return column.dictionary_decode() if pt.is_dictionary(column.type) else column


def _joined(columns: Sequence[pa.Array]) -> pa.Array:
    """Each column's text after its length in bytes."""
    parts: list[pa.Array] = []
    for column in columns:
        text = _text(column)
        parts += [pc.binary_length(text).cast(pa.string()).cast(pa.large_binary()), text]
    return pc.binary_join_element_wise(*parts, pa.scalar(b":", pa.large_binary()))


def _text(column: pa.Array) -> pa.Array:
    kind = column.type
    if pt.is_temporal(kind):
        column = ticks(column)
    if pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind):
        return column.cast(pa.large_binary())
    return column.cast(pa.large_string()).cast(pa.large_binary())
