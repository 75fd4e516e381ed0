"""Which text columns a merge carries as numbers of a dictionary, from the files that it reads to
the one that it writes.

A text that a file stores as a number is copied as one: reading, sorting and writing take a third of
the time.

Rules:
- Only if all sampled chunks store a column that way: other chunks would have to be encoded as they
  are read, which costs more than it saves. Rows are correct in any case, whatever the other chunks
  store.
- Only with small dictionaries: each batch brings its own, and those of a window are unified. A
  chunk with a larger one is read as texts, which are numbered batch by batch.
- No column of the sort key: keys of different files are compared as texts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from blockstore.format.coded import coded_texts
from blockstore.format.pages import dictionary_bytes

_DICTIONARY_BYTES = 16 << 10
"""What the dictionaries of all columns of a file may take together, decompressed. A batch is rarely
smaller than twice that."""


def with_small_dictionaries(
    file: pa.NativeFile,
    parquet: pq.ParquetFile,
    columns: Collection[str] | None,
    groups: Collection[int],
) -> list[str]:
    """Which of these columns, or of all, may be read as numbers: those with the smallest
    dictionaries, up to the limit."""
    sizes = [
        (_largest(file, parquet.metadata, name, groups), name)
        for name in coded_texts(parquet, columns, groups)
    ]
    chosen, left = [], _DICTIONARY_BYTES
    for size, name in sorted(sizes):
        left -= size
        if left < 0:
            break
        chosen.append(name)
    return chosen


def carried(
    files: Sequence[Collection[str]], schema: pa.Schema, sort_by: Iterable[str]
) -> frozenset[str]:
    """The columns of ``schema`` to carry as numbers, given those with small dictionaries in some
    files."""
    if not files:
        return frozenset()
    texts = {field.name for field in schema if pa.types.is_string(field.type)} - set(sort_by)
    return frozenset(texts.intersection(*files))


def _largest(
    file: pa.NativeFile, metadata: pq.FileMetaData, name: str, groups: Collection[int]
) -> int:
    """The bytes of the largest dictionary of a column; more than the limit if one is unknown."""
    sizes = [0]
    for group in map(metadata.row_group, groups):
        columns = map(group.column, range(group.num_columns))
        column = next(one for one in columns if one.path_in_schema == name)
        size = dictionary_bytes(file, column.dictionary_page_offset)
        sizes.append(_DICTIONARY_BYTES + 1 if size is None else size)
    return max(sizes)
