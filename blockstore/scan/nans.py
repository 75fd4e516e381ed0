"""Whether chunks may hold NaN, for engines that prune by Parquet's own bounds.

Those bounds never include NaN, which SQL orders above every number: an engine that takes them for
the bounds of all values leaves out rows that match.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.types as pt

from blockstore.scan.chunk import ScanChunk


def may_hold_nan(chunks: Iterable[ScanChunk], field: pa.Field) -> bool:
    """Return whether a stored column of chunks of one schema may hold NaN.

    Statistics count the NaNs of a column, but not those inside nested values.
    """
    if not pt.is_floating(field.type):
        return _holds_float(field.type)
    counted = (chunk.file.columns.get(field.name) for chunk in chunks)
    return any(stats is None or stats.nans > 0 for stats in counted)


def _holds_float(type_: pa.DataType) -> bool:
    return bool(pt.is_floating(type_)) or any(_holds_float(inner.type) for inner in _inner(type_))


def _inner(type_: pa.DataType) -> Iterable[pa.Field]:
    return [type_.field(place) for place in range(type_.num_fields)] if pt.is_nested(type_) else []
