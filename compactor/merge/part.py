"""The part of a chunk that a piece of a merge reads: the pages with keys of its range.

Rules:
- The page index of a sorted chunk says which pages can have rows of the range. They, and nothing
  else of the chunk, are read, checked and decoded: n pieces together read a chunk once, and a page
  of each column twice where two pieces meet.
- A part has every row of the range and may have others, which ``ChunkRun`` leaves out.
- What is read of a chunk whose block has hashes of segments is compared with those
  (``format/segments.py``). A chunk without them is read and checked as a whole; then only the part
  is decoded.
- A chunk that cannot be read by pages is read as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate

import pyarrow as pa

from blockstore.bucket.api import ReadBucket
from blockstore.compactor.merge.order import KeyPart
from blockstore.compactor.merge.ranges import KeyRange
from blockstore.format.block import ChunkFile
from blockstore.format.footer import Footer
from blockstore.format.page_ranges import PageRange, page_ranges
from blockstore.format.part_file import FilePart, file_part
from blockstore.format.segments import SEGMENT_BYTES, FileSegments

_MOST_SHARE = 0.9
"""If a part has more of a chunk's bytes than this, the chunk is read as a whole."""


class CheckedSegments:
    """Bytes of one chunk, read by ranges and compared with the hashes of their segments.

    Ranges in ascending order read no byte twice.
    """

    def __init__(
        self, bucket: ReadBucket, key: str, segments: FileSegments, piece_bytes: int
    ) -> None:
        """``piece_bytes`` is the size of the largest request."""
        self._bucket = bucket
        self._key = key
        self._segments = segments
        self._segments_a_piece = max(1, piece_bytes // SEGMENT_BYTES)
        self._last: tuple[int, bytes] = (-1, b"")
        """The number of the last segment that was read, and its bytes."""

    def size(self) -> int:
        return self._segments.bytes

    def read_at(self, length: int, start: int, /) -> bytes:
        """Raises Corrupt, or what the bucket raises."""
        first, past = start // SEGMENT_BYTES, -(-(start + length) // SEGMENT_BYTES)
        held = []
        at = first
        if first == self._last[0]:
            held.append(self._last[1])
            at += 1
        while at < past:
            end = min(past, at + self._segments_a_piece)
            held.append(self._read(at, end))
            at = end
        data = b"".join(held)
        last = past - 1
        self._last = (last, data[(last - first) * SEGMENT_BYTES :])
        skipped = start - first * SEGMENT_BYTES
        return data[skipped : skipped + length]

    def _read(self, first: int, past: int) -> bytes:
        start = first * SEGMENT_BYTES
        asked = min(past * SEGMENT_BYTES, self.size()) - start
        data = self._bucket.get_range(self._key, start, asked)
        self._segments.check(first, data)
        return data


def part_of(
    footer: Footer, file: ChunkFile, leading: str, within: KeyRange, kind: pa.DataType
) -> FilePart | None:
    """The pages of a chunk with rows of the range; None if it is read as a whole.

    Args:
        footer: With the page index.
        file: The chunk.
        leading: The name of the leading column in the chunk.
        within: The range.
        kind: The type of the leading column in the table.
    """
    place = footer.schema.get_field_index(leading)
    if place < 0 or not footer.schema.field(place).type.equals(kind):
        return None
    pages = page_ranges(footer.parquet, footer, footer.schema.field(place))
    if not pages:
        return None
    rows = _rows_within(pages, within)
    part = file_part(footer, dict(_by_group(footer, rows)))
    return None if part is None or part.size > _MOST_SHARE * file.bytes else part


def _rows_within(pages: list[tuple[int, PageRange]], within: KeyRange) -> range:
    """At least one row, and every row of a sorted chunk that is in the range.

    Bounds do not say where nulls begin: they may be in the page before the first one without
    bounds, and are in the last range.
    """
    upto = [0, *accumulate(rows for rows, _ in pages)]
    lows = [_part(low) for _, (low, _) in pages]
    highs = [_part(high) for _, (_, high) in pages]
    first = _first(highs, lambda high: within.low is None or high >= within.low, unknown=True)
    if within.high is None and (first == len(pages) or highs[first] is None):
        first -= 1
    first = max(0, min(first, len(pages) - 1))
    past = _first(lows, lambda low: within.high is not None and low >= within.high, unknown=False)
    return range(upto[first], upto[max(past, first + 1)])


def _first(bounds: list[KeyPart | None], found: Callable[[KeyPart], bool], *, unknown: bool) -> int:
    """The first page whose bound fits, ``unknown`` if it is not known; the number of pages if there
    is none."""
    places = (
        place for place, bound in enumerate(bounds) if (unknown if bound is None else found(bound))
    )
    return next(places, len(bounds))


def _part(bound: int | str | None) -> KeyPart | None:
    return None if bound is None else (0, bound)


def _by_group(footer: Footer, rows: range) -> Iterator[tuple[int, range]]:
    """The rows of each row group, counted from its first, where there are any."""
    first = 0
    for group in range(footer.metadata.num_row_groups):
        count = footer.metadata.row_group(group).num_rows
        start, stop = max(rows.start - first, 0), min(rows.stop - first, count)
        if start < stop:
            yield group, range(start, stop)
        first += count
