"""What a root says of a leaf besides its hash: sums over its blocks, by which leaves are left out
of a plan without being loaded. Pure.

Rules:
- They are a function of the leaf's content, and compared with it when it is loaded: a wrong sum
  would leave out blocks that are there. What only the JSON of its blocks says (chunks, kinds, the
  range) is not compared in a pass over many leaves, which leaves out none of them, nor what their
  sources say in one over small columns alone. Collection, tags and ``verify``, which prove a leaf,
  compare it.
- The range of the first sort column is given where every chunk states it in whole numbers, and all
  blocks have one schema; else it is not known, and leaves nothing out.
- A block's sources are between ``source_low`` and ``source_high`` of its leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from blockstore.errors import Corrupt
from blockstore.format.block import BlockKind
from blockstore.index.arrow import integers
from blockstore.index.ulids import UlidArray

_STREAMS = 16
"""More streams than these are not listed."""
_NUMBERS = 14
_INT64 = 2**63


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """The range of the first sort column over all chunks of a leaf."""

    schema_id: int
    column: str
    """As that schema calls it."""
    low: int
    high: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSums:
    """Of a leaf of blocks."""

    count: int
    first: str
    last: str
    min_time: int
    max_time: int
    max_min_time: int
    """The greatest of the blocks' ``min_time``."""
    min_max_time: int
    """The least of the blocks' ``max_time``."""
    rows: int
    bytes: int
    chunks: int
    min_version: int
    max_version: int
    excepted: int
    """Blocks with sources that are hidden."""
    changes: int
    """Blocks of changes."""
    history: int
    """Blocks of former versions of rows."""
    merged: int
    """Blocks that account for others than themselves alone."""
    source_low: str
    source_high: str
    streams: tuple[str, ...] | None
    """None where there are many."""
    key: KeyRange | None

    def to_json(self) -> list[object]:
        """As a root holds them, without first and last."""
        key = self.key
        return [
            self.min_time,
            self.max_time,
            self.max_min_time,
            self.min_max_time,
            self.rows,
            self.bytes,
            self.chunks,
            self.min_version,
            self.max_version,
            self.excepted,
            self.changes,
            self.history,
            self.merged,
            self.count,
            self.source_low,
            self.source_high,
            self.streams,
            None if key is None else [key.schema_id, key.column, key.low, key.high],
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSums:
    """Of a leaf of sources."""

    count: int
    first: str
    last: str

    def to_json(self) -> list[object]:
        """As a root holds them, without first and last."""
        return [self.count]


Sums = BlockSums | SourceSums


def sums_of_blocks(rows: pa.Table, like: BlockSums | None = None) -> BlockSums:
    """Those of the rows of a leaf, which is not empty. With ``like`` what only the JSON of the
    blocks says is taken from there, at a fourth of the cost. Raises Corrupt for a block that is not
    JSON."""
    sources = pc.min_max(rows["sources"].combine_chunks().flatten())
    alone = rows["ulid"].filter(rows["sources"].is_null())
    lows = [one for one in (sources["min"].as_py(), pc.min(alone).as_py()) if one]
    highs = [one for one in (sources["max"].as_py(), pc.max(alone).as_py()) if one]
    facts = _facts(rows) if like is None else like
    return BlockSums(
        **_of_columns(rows),
        chunks=facts.chunks,
        changes=facts.changes,
        history=facts.history,
        merged=len(rows) - rows["sources"].null_count,
        source_low=min(lows, default=""),
        source_high=max(highs, default=""),
        key=facts.key,
    )


def sums_of_frame(rows: pa.Table, like: BlockSums) -> BlockSums:
    """The same of rows of which only some small columns are there: what the others say is taken
    from ``like``."""
    return replace(like, **_of_columns(rows))


def _of_columns(rows: pa.Table) -> dict[str, Any]:
    """What the small columns that are there say."""
    found: dict[str, Any] = {"count": len(rows)}
    for name in rows.column_names:
        if name in _SUMS:
            found |= _SUMS[name](rows[name])
    return found


def _range(column: pa.ChunkedArray, least: str, greatest: str) -> dict[str, int]:
    values = integers(column)
    return {least: int(values.min()), greatest: int(values.max())}


def _streams_of(column: pa.ChunkedArray) -> dict[str, tuple[str, ...] | None]:
    streams = sorted(pc.unique(column).to_pylist())
    return {"streams": tuple(streams) if len(streams) <= _STREAMS else None}


_SUMS: Mapping[str, Callable[[pa.ChunkedArray], dict[str, Any]]] = {
    "ulid": lambda column: {"first": column[0].as_py(), "last": column[-1].as_py()},
    "min_time": lambda column: _range(column, "min_time", "max_min_time"),
    "max_time": lambda column: _range(column, "min_max_time", "max_time"),
    "rows": lambda column: {"rows": int(integers(column).sum())},
    "bytes": lambda column: {"bytes": int(integers(column).sum())},
    "stream": _streams_of,
    "version": lambda column: _range(column, "min_version", "max_version"),
    "excepted": lambda column: {"excepted": len(column) - column.null_count},
}
"""By small column: the sums that it alone says."""


def _facts(rows: pa.Table) -> _Facts:
    facts = _Facts()
    for data in rows["meta"].to_pylist():
        facts.take(data)
    return facts


def sums_of_sources(sources: UlidArray) -> SourceSums:
    """Those of a leaf of sources, which is not empty."""
    return SourceSums(
        count=len(sources), first=sources[0].decode("ascii"), last=sources[-1].decode("ascii")
    )


def read_block_sums(first: str, last: str, found: list[Any]) -> BlockSums:
    """The sums in a root. Raises Corrupt."""
    match found:
        case [*numbers, str(low), str(high), streams, key] if len(numbers) == _NUMBERS and all(
            type(one) is int and -_INT64 <= one < _INT64 for one in numbers
        ):
            return BlockSums(
                min_time=numbers[0],
                max_time=numbers[1],
                max_min_time=numbers[2],
                min_max_time=numbers[3],
                rows=numbers[4],
                bytes=numbers[5],
                chunks=numbers[6],
                min_version=numbers[7],
                max_version=numbers[8],
                excepted=numbers[9],
                changes=numbers[10],
                history=numbers[11],
                merged=numbers[12],
                count=numbers[13],
                first=first,
                last=last,
                source_low=low,
                source_high=high,
                streams=_streams(streams),
                key=_key(key),
            )
    raise Corrupt(f"the sums of a leaf are {found!r}")


def read_source_sums(first: str, last: str, found: list[Any]) -> SourceSums:
    """The same of a leaf of sources."""
    match found:
        case [int(count)] if type(count) is int:
            return SourceSums(count=count, first=first, last=last)
    raise Corrupt(f"the sums of a leaf are {found!r}")


def _streams(found: object) -> tuple[str, ...] | None:
    if found is None:
        return None
    if isinstance(found, list) and all(isinstance(one, str) for one in found):
        return tuple(found)
    raise Corrupt(f"the streams of a leaf are {found!r}")


def _key(found: object) -> KeyRange | None:
    match found:
        case None:
            return None
        case [int(id_), str(column), int(low), int(high)]:
            return KeyRange(schema_id=id_, column=column, low=low, high=high)
    raise Corrupt(f"the range of a leaf is {found!r}")


class _Facts:
    """What is gathered out of the JSON of a leaf's blocks."""

    def __init__(self) -> None:
        self.chunks = 0
        self.kinds: dict[str, int] = {}
        self._columns: set[tuple[int, str] | None] = set()
        self._low = _INT64
        self._high = -_INT64

    def take(self, data: bytes) -> None:
        try:
            block = orjson.loads(data)["blockstore"]
            kind = block.get("rows")
            self.kinds[kind] = self.kinds.get(kind, 0) + 1
            sort_by = block["sort_by"]
            column = (block["schema_id"], sort_by[0]) if sort_by else None
            self._columns.add(column)
            for file in _chunks(block):
                self.chunks += 1
                self._add(file, column)
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            raise Corrupt(f"a block of a leaf cannot be read ({error!r})") from None

    def _add(self, file: Mapping[str, Any], column: tuple[int, str] | None) -> None:
        stats = None if column is None else file.get("columns", {}).get(column[1])
        low, high = (None, None) if stats is None else (stats.get("min"), stats.get("max"))
        if type(low) is int and type(high) is int and -_INT64 <= low <= high < _INT64:
            self._low, self._high = min(self._low, low), max(self._high, high)
        else:
            self._columns.add(None)

    @property
    def changes(self) -> int:
        return self.kinds.get(BlockKind.CHANGES.value, 0)

    @property
    def history(self) -> int:
        return self.kinds.get(BlockKind.HISTORY.value, 0)

    @property
    def key(self) -> KeyRange | None:
        if len(self._columns) != 1 or None in self._columns or self._low > self._high:
            return None
        ((id_, name),) = [one for one in self._columns if one is not None]
        return KeyRange(schema_id=id_, column=name, low=self._low, high=self._high)


def _chunks(block: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return (file for file in block["files"] if file["path"].startswith("chunks/"))
