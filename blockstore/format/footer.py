"""The tail of a chunk: its page index and its footer, without the bytes before them.

It says where each column and each page is stored, so a reader that has it fetches only what it
needs. It is small, and is kept between queries.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pyarrow as pa

from blockstore.format.thrift import elements_at, struct_at

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_MAGIC = b"PAR1"
_END_BYTES = 8  # the footer's length, and the magic
_SCHEMA = 2  # of FileMetaData
_NAME, _CHILDREN, _REPETITION = 4, 5, 3  # of SchemaElement
_REPEATED = 2

_INDEX_FACTOR = 10
"""How many bytes of memory a decoded byte of the page index takes."""

_NOT_YET = object()

A = TypeVar("A")


def footer_start(tail: bytes, size: int) -> int:
    """Return where the footer of a file of ``size`` bytes begins, from its last bytes.

    Raises ValueError if these are not the end of a Parquet file.
    """
    if len(tail) < _END_BYTES or tail[-len(_MAGIC) :] != _MAGIC:
        raise ValueError("its last bytes are not those of a Parquet file")
    (length,) = struct.unpack_from("<I", tail, len(tail) - _END_BYTES)
    start = size - _END_BYTES - length
    if start < len(_MAGIC):
        raise ValueError(f"its footer has {length:,} bytes, which are more than the file has")
    return int(start)


def column_parts(
    metadata: pq.FileMetaData, columns: Iterable[str] | None, groups: Iterable[int]
) -> Iterator[pq.ColumnChunkMetaData]:
    """Yield the column chunks of these columns in these row groups, those of all columns by None.

    All parts of a nested column are included: their paths begin with its name.
    """
    names = None if columns is None else frozenset(columns)
    if names is not None and not names:
        return
    paths = (metadata.schema.column(leaf).path for leaf in range(metadata.num_columns))
    leaves = [leaf for leaf, path in enumerate(paths) if names is None or _is_part(path, names)]
    for group in map(metadata.row_group, groups):
        yield from map(group.column, leaves)


def _is_part(path: str, names: Collection[str]) -> bool:
    return path in names or any(
        path[:at] in names for at, character in enumerate(path) if character == "."
    )


def column_range(part: pq.ColumnChunkMetaData) -> tuple[int, int]:
    """Return where a column chunk is in the file, with its dictionary: its start and its length."""
    start = part.data_page_offset
    if part.has_dictionary_page and part.dictionary_page_offset:
        start = min(start, part.dictionary_page_offset)
    return start, part.total_compressed_size


class Footer:
    """A chunk's footer, parsed, with the page index as far as the tail has it.

    It serves ``format.pages`` as the file: a read of bytes before the tail raises IndexError, which
    means there that the pages are not known. Threads may share it.
    """

    def __init__(self, tail: bytes, size: int) -> None:
        """``tail`` are the last bytes of a file of ``size`` bytes, at least the footer.

        Raises ValueError or what Arrow raises if they are not.
        """
        import pyarrow.parquet as pq

        start = footer_start(tail, size)
        first = size - len(tail)
        if start < first:
            raise ValueError(f"its footer begins at byte {start:,}, found the bytes from {first:,}")
        self._tail = tail
        self._first = first
        self._size = size
        self.encoded = tail[start - first : -_END_BYTES]
        self._found: dict[Hashable, Any] = {}
        alone = b"".join((_MAGIC, tail[start - first :]))
        self.parquet = pq.ParquetFile(pa.BufferReader(alone), pre_buffer=False)
        """For what the footer says: the file that it was opened with has no rows."""

    @property
    def metadata(self) -> pq.FileMetaData:
        return self.parquet.metadata

    @cached_property
    def schema(self) -> pa.Schema:
        """The file's schema, which Arrow makes at each look."""
        return self.parquet.schema_arrow

    @cached_property
    def fields(self) -> dict[int, Any]:
        """The footer's fields by their numbers. Raises one of ``thrift.MALFORMED``."""
        return struct_at(self.encoded, 0)

    @cached_property
    def flat(self) -> dict[str, tuple[int, bytes]]:
        """The columns that are neither nested nor repeated, by name: the place of each among the
        file's leaves, and its encoded SchemaElement. Without names that occur twice.

        Raises one of ``thrift.MALFORMED``.
        """
        encoded = elements_at(self.encoded, 0, _SCHEMA)
        elements = [struct_at(one, 0) for one in encoded]
        found: dict[str, tuple[int, bytes]] = {}
        seen: set[str] = set()
        at, leaf = 1, 0
        for _ in range(elements[0].get(_CHILDREN, 0)):
            element, name = elements[at], elements[at][_NAME].decode()
            if not element.get(_CHILDREN) and element.get(_REPETITION) != _REPEATED:
                found[name] = (leaf, encoded[at])
            if name in seen:
                found.pop(name, None)
            seen.add(name)
            at, leaves = _skipped(elements, at)
            leaf += leaves
        return found

    def ranges(self, columns: Collection[str], group: int) -> list[tuple[int, int]]:
        """Return where these columns of a row group are in the file, all parts of nested ones too:
        start and length of each."""
        parts = self.once(("ranges", group), lambda: list(self._leaf_ranges(group)))
        return [found for path, found in parts if _is_part(path, columns)] if columns else []

    def _leaf_ranges(self, group: int) -> Iterator[tuple[str, tuple[int, int]]]:
        for part in column_parts(self.metadata, None, [group]):
            yield part.path_in_schema, column_range(part)

    @cached_property
    def has_gaps(self) -> bool:
        """Whether something is between column chunks that the footer does not name. Writers that
        do not count the header of a page leave such gaps: pages that reach beyond the end that the
        footer states. The last column chunk is not judged."""
        starts, ends = set(), []
        for part in column_parts(self.metadata, None, range(self.metadata.num_row_groups)):
            start, length = column_range(part)
            starts |= {start, part.bloom_filter_offset}
            ends.append(start + length)
        return any(end not in starts for end in sorted(ends)[:-1])

    @property
    def weight(self) -> int:
        """About how many bytes of memory it takes."""
        index = len(self._tail) - len(self.encoded)
        return 16 * len(self.encoded) + _INDEX_FACTOR * index + len(self._tail)

    def once(self, name: Hashable, find: Callable[[], A]) -> A:
        """Return what ``find`` found in the tail, which it does only once for each name: a page
        index takes longer to decode than a page to read."""
        found = self._found.get(name, _NOT_YET)
        if found is _NOT_YET:
            found = self._found[name] = find()
        return cast(A, found)

    def size(self) -> int:
        """Return the size of the complete file."""
        return self._size

    def read_at(self, length: int, start: int) -> bytes:
        """Return bytes of the tail."""
        if start < self._first:
            raise IndexError(f"byte {start:,} is before the tail, which begins at {self._first:,}")
        return self._tail[start - self._first : start - self._first + length]


def _skipped(elements: list[dict[int, Any]], at: int) -> tuple[int, int]:
    """Return the place after the element at ``at`` with all that is in it, and its leaves."""
    children = elements[at].get(_CHILDREN) or 0
    at, leaves = at + 1, int(not children)
    for _ in range(children):
        at, below = _skipped(elements, at)
        leaves += below
    return at, leaves
