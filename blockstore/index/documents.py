"""Fields out of the JSON of many stored blocks at once, as columns: no block becomes an object.

Rules:
- A field is read as the type that is asked for and as no other: a text is no number, and nothing is
  rounded to an integer. Where one document does not fit, nothing is returned; the caller then makes
  the blocks, and finds out what is wrong.
- A field that is missing, or null, is null. Fields that were not asked for are not looked at.
- What is returned is of the blocks in their order: the ULID in each document is compared with the
  row's.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

_ULID = pa.field("ulid", pa.string())
_MOST_BYTES = 1 << 30
"""Arrow counts the bytes of a piece in 32 bits."""


def read_documents(rows: pa.Table, field: pa.Field) -> pa.Array | None:
    """The top-level ``field`` of the JSON of these rows (``rows.py``), in their order; None where
    one of them holds another type, or is not JSON of its block."""
    import pyarrow.json as pj

    if not len(rows):
        return pa.nulls(0, field.type)
    data = _end_to_end(rows["meta"].combine_chunks())
    if data is None:
        return None
    try:
        found = pj.read_json(
            pa.BufferReader(data),
            # One piece, in this thread: where a piece ends is looked for, and pieces are joined.
            read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
            parse_options=pj.ParseOptions(
                explicit_schema=pa.schema([_ULID, field]), unexpected_field_behavior="ignore"
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    same = found.schema.types == [_ULID.type, field.type] and found["ulid"].equals(rows["ulid"])
    return found[field.name].combine_chunks() if same else None


def _end_to_end(documents: pa.Array) -> pa.Buffer | None:
    """The bytes of all documents, one after the other; None where one is null, or they are too
    many for one piece."""
    if isinstance(documents, pa.ChunkedArray) or documents.null_count:
        return None
    _, offset_buffer, data = documents.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int32)
    first, last = offsets[documents.offset], offsets[documents.offset + len(documents)]
    if not 0 < last - first <= _MOST_BYTES:
        return None
    return data.slice(int(first), int(last - first))
