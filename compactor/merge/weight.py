"""What the rows of an open chunk take in memory: all of them, any part of them, and the reader that
decodes them.

Rules:
- Compressed bytes say nothing: a page of repeated texts is a hundredth or a thousandth of its rows.
  What counts is what the file records about its texts, page by page (``pages.py``); everything else
  has a fixed width. Files of our own writer record it, so for them only the position of bytes
  inside a page is guessed: evenly.
- If a file does not record it, the uncompressed size is used for its texts, evenly over the row
  group, and the weight is not ``sure``: that is far too little for dictionaries and shared
  prefixes, and does not show where wide rows begin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from blockstore.format.pages import ColumnPages, column_pages

STREAM_BYTES = 64 << 10
"""Read-ahead per column of an open chunk: small, since a merge keeps many chunks open."""

COLUMN_BYTES = 300 << 10
"""The measured memory of an open column of a chunk, unless a text makes a page larger: read-ahead,
one decompressed page, its dictionary."""

_PAGE_ROWS = 1_024
"""Writers check a page's size after this many rows at the latest: wide rows make pages of many
megabytes."""

_SHARED_BEGINNINGS = "DELTA_BYTE_ARRAY"
_LENGTH_BYTES = 4
_VALUE_BYTES = {
    "BOOLEAN": 1,
    "INT32": 4,
    "FLOAT": 4,
    "BYTE_ARRAY": _LENGTH_BYTES,
    "FIXED_LEN_BYTE_ARRAY": 16,
}
"""What a value in a list takes, by its type in Parquet; all others have 8 bytes."""

Floats = npt.NDArray[np.float64]
Curve = tuple[Floats, Floats]
"""Places between the rows of a row group, and the bytes before each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """What the rows of some consecutive row groups weigh in Arrow."""

    rows: Floats
    """Places between the rows, ascending from 0."""
    upto: Floats
    """The bytes of all rows before each place."""
    reader_bytes: int
    """What a reader takes in addition to the rows that it returns: pages, dictionaries,
    read-ahead."""
    page_bytes: int
    """The sum of the heaviest page of each column: inside a page the weight of a row is unknown."""
    sure: bool

    @property
    def bytes(self) -> int:
        """All rows."""
        return int(self.upto[-1])

    def before(self, row: int) -> float:
        """The bytes of all rows before this one."""
        return float(np.interp(row, self.rows, self.upto))

    def row_at(self, weight: float) -> int:
        """The row that has this many bytes before it."""
        return int(np.interp(weight, self.upto, self.rows))


def row_width(schema: pa.Schema, text_bytes: int = 0) -> int:
    """The bytes of a row in Arrow, if each text has ``text_bytes``."""
    return sum(_width(field.type, text_bytes) for field in schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class Varying:
    """A column whose bytes do not follow from the number of rows."""

    place: int
    is_text: bool
    value_bytes: int
    """The bytes of each value without its text, if it is in a list or a struct: the number of
    values does not follow from the rows."""


def varying(metadata: pq.FileMetaData) -> tuple[Varying, ...]:
    """The varying columns of a file that has at least one row group."""
    group = metadata.row_group(0)
    columns = map(group.column, range(group.num_columns))
    found = (
        Varying(
            place=place,
            is_text=column.physical_type == "BYTE_ARRAY",
            value_bytes=_VALUE_BYTES.get(column.physical_type, 8)
            if "." in column.path_in_schema
            else 0,
        )
        for place, column in enumerate(columns)
    )
    return tuple(one for one in found if one.is_text or one.value_bytes)


def weigh_plain(metadata: pq.FileMetaData, columns: Sequence[Varying], width: int) -> int | None:
    """The bytes of all rows, if the footer alone shows them: if no text is in a dictionary or
    shares a prefix.

    Fast, since a merge of many small chunks needs it for each. ``width`` is the fixed part of a
    row.
    """
    found = 0
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for one in columns:
            column = group.column(one.place)
            if _hides(one, column):
                return None
            found += _texts(one, column) + _values(one, column)
    return int(metadata.num_rows) * width + found


def weigh(
    file: pa.NativeFile,
    metadata: pq.FileMetaData,
    groups: Sequence[int],
    varying: Sequence[Varying],
    width: int,
    *,
    without: str,
) -> Weight:
    """The weight of the rows of these row groups, without the texts of the column ``without``."""
    pages = column_pages(file, groups, [one.place for one in varying])
    curves: list[Curve] = []
    readers, heaviest, sure = [0], [0], True
    for number in groups:
        group = metadata.row_group(number)
        rows = group.num_rows
        columns = [
            (group.column(place), pages.get((number, place))) for place in range(group.num_columns)
        ]
        readers.append(sum(_reader_bytes(column, known, rows) for column, known in columns))
        counted = [
            (one, *columns[one.place])
            for one in varying
            if columns[one.place][0].path_in_schema != without
        ]
        own = [_curve(*one, rows) for one in counted]
        curves.append(_together(own, rows, width))
        heaviest.append(int(sum(np.diff(upto).max() for _, upto in own)))
        sure = sure and all(_is_known(*one) for one in counted)
    rows_before, bytes_before = _in_turn(curves)
    return Weight(
        rows=rows_before,
        upto=bytes_before,
        reader_bytes=max(readers),
        page_bytes=max(heaviest),
        sure=sure,
    )


def _width(kind: pa.DataType, text_bytes: int) -> int:
    try:
        return int(kind.bit_width + 7) // 8
    except ValueError:  # no fixed width
        return _LENGTH_BYTES + text_bytes


def _hides(one: Varying, column: pq.ColumnChunkMetaData) -> bool:
    """Whether its texts may be much larger than their uncompressed bytes in the file."""
    return one.is_text and (column.has_dictionary_page or _SHARED_BEGINNINGS in column.encodings)


def _is_known(one: Varying, column: pq.ColumnChunkMetaData, pages: ColumnPages | None) -> bool:
    """Whether the pages record the size of their texts.

    For texts with shared prefixes pyarrow counts repeated parts only sometimes.
    """
    if pages is None or not one.is_text:
        return pages is not None
    return pages.texts is not None and _SHARED_BEGINNINGS not in column.encodings


def _texts(one: Varying, column: pq.ColumnChunkMetaData) -> int:
    return max(0, column.total_uncompressed_size) if one.is_text else 0


def _values(one: Varying, column: pq.ColumnChunkMetaData) -> int:
    return one.value_bytes * int(column.num_values) if one.value_bytes else 0


def _curve(
    one: Varying, column: pq.ColumnChunkMetaData, pages: ColumnPages | None, rows: int
) -> Curve:
    """One column of a row group."""
    texts, values = _texts(one, column), _values(one, column)
    if pages is None:
        return np.array([0.0, rows]), np.array([0.0, texts + values])
    # How many values of lists each page has is not recorded. Compressed, they have about the same
    # size.
    shares = np.array(pages.compressed, dtype=float) / max(1, sum(pages.compressed))
    sizes = texts * shares if pages.texts is None else np.array(pages.texts, dtype=float)
    upto = np.cumsum(sizes + values * shares)
    return np.array([*pages.first_rows, rows], dtype=float), np.concatenate([[0.0], upto])


def _together(curves: Sequence[Curve], rows: int, width: int) -> Curve:
    """Several columns of one row group, and everything with a fixed width."""
    places = np.unique(np.concatenate([np.array([0.0, rows]), *(places for places, _ in curves)]))
    upto = places * max(1, width)
    for own, bytes_before in curves:
        upto += np.interp(places, own, bytes_before)
    return places, upto


def _in_turn(curves: Sequence[Curve]) -> Curve:
    """Several row groups, one after the other."""
    rows, upto = [np.zeros(1)], [np.zeros(1)]
    for places, bytes_before in curves:
        rows.append(rows[-1][-1] + places[1:])
        upto.append(upto[-1][-1] + bytes_before[1:])
    return np.concatenate(rows), np.concatenate(upto)


def _reader_bytes(column: pq.ColumnChunkMetaData, pages: ColumnPages | None, rows: int) -> int:
    """The memory for reading a column of a row group: a page, compressed and decompressed, a
    dictionary, read-ahead."""
    plain, compressed = column.total_uncompressed_size, column.total_compressed_size
    largest, ahead = plain * _PAGE_ROWS // max(_PAGE_ROWS, rows), STREAM_BYTES
    if pages is not None:
        largest, ahead = max(pages.texts or (0,)), STREAM_BYTES + max(pages.compressed)
    if largest <= COLUMN_BYTES:
        return int(min(COLUMN_BYTES, plain + compressed))
    return int(min(plain, largest) + min(compressed, ahead))
