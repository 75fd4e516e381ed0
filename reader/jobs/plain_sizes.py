"""A batch in pieces that stay small once their columns are written out as plain values.

The problem: a dictionary, a run or a view says one long value many times, and a list of nulls says
how many there are. A batch of a few megabytes may stand for terabytes, and a table's column holds
plain values.

Rule: the bytes of each row are computed from lengths alone, before any value is written out.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from blockstore.errors import Invalid

MOST_ROWS = 65_536
MOST_BYTES = 256 << 20
"""So large a piece becomes at most."""
_OF_NULL = 8.0
"""A null is as wide as a number once its column has a type."""
_OF_LIST = 4.0

Sizes = npt.NDArray[np.float64] | float
"""The bytes of each row, or those of every row where they are all alike. Floats: lists of lists may
say more than 64 bits hold, and a sum that begins anew below zero would let them pass."""


def pieces(
    batch: pa.RecordBatch, rows: int = MOST_ROWS, most: int = MOST_BYTES
) -> Iterator[pa.RecordBatch]:
    """Yield the batch in pieces of at most so many rows, and of so many bytes as plain values; an
    empty one as it is. Raises Invalid for a row that is larger alone."""
    for start in range(0, max(1, batch.num_rows), rows):
        some = batch.slice(start, rows)
        sizes = np.zeros(some.num_rows)
        for column in some.columns:
            sizes += plain_sizes(column)
        before = np.concatenate([[0], np.cumsum(sizes)])
        first = 0
        while first < max(1, some.num_rows):
            end = int(np.searchsorted(before, before[first] + most, side="right")) - 1
            if end == first < some.num_rows:
                raise Invalid(
                    f"row {start + first:,} of a batch of the Arrow stream (counted from 0) has "
                    f"{int(sizes[first]):,} bytes once its values are written out, and a row may "
                    f"have {most:,}: split it"
                )
            yield some.slice(first, end - first)
            first = max(end, 1)


def plain_sizes(column: pa.Array) -> Sizes:
    """The bytes that each row of a column takes as a plain value, about. Raises Invalid for a
    column that no table can hold."""
    if isinstance(column, pa.ExtensionArray):
        return plain_sizes(column.storage)
    kind = column.type
    if pt.is_null(kind):
        return _OF_NULL
    if pt.is_dictionary(kind):
        each = _inner(column.dictionary)
        if not isinstance(each, np.ndarray) or not len(each):
            return each if len(column.dictionary) else 0.0
        return np.where(_is_valid(column), each[_numbers(column.indices)], 0.0)
    if pt.is_run_end_encoded(kind):
        return _of_runs(column)
    if pt.is_struct(kind):
        parts = [plain_sizes(column.field(place)) for place in range(kind.num_fields)]
        return sum(parts[1:], parts[0]) if parts else 0.0
    if pt.is_fixed_size_list(kind):
        return _of_equal_lists(column)
    if pt.is_nested(kind):
        return _of_lists(column)
    if pt.is_primitive(kind) or pt.is_decimal(kind) or pt.is_fixed_size_binary(kind):
        return float((kind.bit_width + 7) // 8)
    return _lengths(column)


def _of_runs(column: pa.Array) -> Sizes:
    each = _inner(column.values)
    if not isinstance(each, np.ndarray):
        return each
    ends = column.run_ends.to_numpy().astype(np.int64)
    # Which run each row is of; a slice begins somewhere within the first of its own.
    runs = np.searchsorted(ends, np.arange(len(column)) + column.offset, side="right")
    return each[runs]


def _of_equal_lists(column: pa.Array) -> Sizes:
    length = column.type.list_size
    values = column.values.slice(column.offset * length, len(column) * length)
    each = _inner(values)
    if not isinstance(each, np.ndarray):
        return each * length
    return np.asarray(each.reshape(len(column), length).sum(axis=1))


def _of_lists(column: pa.Array) -> Sizes:
    is_map = pt.is_map(column.type)
    if pt.is_union(column.type):
        raise Invalid(f"the Arrow stream has a column of type {column.type}, which no table holds")
    lengths = _numbers(_entries(column))
    parts = [column.keys, column.items] if is_map else [column.values]
    sizes = np.full(len(column), _OF_LIST)
    for each in map(_inner, parts):
        if not isinstance(each, np.ndarray):
            sizes += lengths * each
            continue
        before = np.concatenate([[0], np.cumsum(each)])
        starts = _numbers(column.offsets)[: len(column)]
        inside = lengths > 0
        first, last = starts[inside], starts[inside] + lengths[inside]
        sizes[inside] += before[last] - before[first]
    return sizes


def _entries(column: pa.Array) -> pa.Array:
    """The number of entries of each row."""
    if not pt.is_map(column.type):
        return pc.list_value_length(column)
    offsets = column.offsets.to_numpy()
    lengths = pa.array(np.diff(offsets))
    return pc.if_else(column.is_valid(), lengths, 0) if column.null_count else lengths


def _inner(values: pa.Array) -> Sizes:
    """The sizes of values within others, where runs cannot be: they have no bound by what they
    take here."""
    if _has_runs(values.type):
        raise Invalid(
            f"the Arrow stream has a column with {values.type} within it, which no table holds: "
            "write its runs out"
        )
    return plain_sizes(values)


def _has_runs(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return _has_runs(kind.storage_type)
    if pt.is_dictionary(kind):
        return _has_runs(kind.value_type)
    return pt.is_run_end_encoded(kind) or any(
        _has_runs(kind.field(place).type) for place in range(kind.num_fields)
    )


def _lengths(column: pa.Array) -> npt.NDArray[np.float64]:
    """The bytes of each text or binary value."""
    if not (pt.is_string_view(column.type) or pt.is_binary_view(column.type)):
        return _numbers(pc.binary_length(column)).astype(np.float64)
    if not len(column):
        return np.zeros(0)
    # A view is 16 bytes, and the length of its value the first four of them.
    views = np.frombuffer(column.buffers()[1], "<i4").reshape(-1, 4)
    found = views[column.offset : column.offset + len(column), 0]
    return np.where(_is_valid(column), found, 0).astype(np.float64)


def _is_valid(column: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False), dtype=bool)


def _numbers(values: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(pc.fill_null(values, 0).to_numpy(zero_copy_only=False), dtype=np.int64)
