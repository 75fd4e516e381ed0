"""The usual block of an index entry, decoded at once.

Nearly every block that an index names is a plain append: one write, no parents, no labels, no job,
columns with plain bounds. A reader decodes one for every write of everybody, so this shape is
looked at as a whole: its keys and types in a few comparisons, then its numbers.

Rule: what is not exactly of this shape is None, which says nothing against it: ``meta.py`` looks at
it field by field, and names what is wrong. What is answered is what ``meta.py`` would answer (a
test holds the two together).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from operator import itemgetter

from blockstore.errors import Invalid
from blockstore.format.block import BlockMeta, ChunkFile, ColumnStats, VisibleBy
from blockstore.names import is_chunk_path, is_ulid

__all__ = ["usual_block"]

_TOP = frozenset({"ulid", "minTime", "maxTime", "stats", "compaction", "blockstore"})
_STATS = frozenset({"numRows", "numBytes", "numChunks"})
_COMPACTION: Mapping[str, object] = {"level": 1, "parents": []}
_CONSTANT: Mapping[str, object] = {"labels": {}, "resolution": 0, "job": None, "revision": 0}
_NAMES = (
    "visible_by",
    "ignore_delay",
    "own",
    "uploaded_time",
    "producer",
    "sort_by",
    "schema_id",
    "files",
)
_TYPES = (str, bool, bool, int, str, list, int, list)
_BLOCK = frozenset({*_CONSTANT, *_NAMES, "time_column"})
_FILE_NAMES = ("path", "bytes", "rows", "sha256", "columns")
_FILE_TYPES = (str, int, int, str, dict)
_FILE = frozenset(_FILE_NAMES)
_COLUMN = frozenset({"min", "max", "nulls"})
_SCALARS = frozenset({type(None), bool, int, float, str})
_VISIBLE = {one.value: one for one in VisibleBy}

_take_block = itemgetter(*_NAMES)
_take_constant = itemgetter(*_CONSTANT)
_take_file = itemgetter(*_FILE_NAMES)
_CONSTANTS = tuple(_CONSTANT.values())
_CONSTANT_TYPES = tuple(type(value) for value in _CONSTANTS)

_SHA256 = re.compile(r"[0-9a-f]{64}")
_INT64_MAX = 2**63 - 1
_SMALL = 2**31 - 1
_TEXT = 10_000_000


def usual_block(value: Mapping[str, object]) -> BlockMeta | None:
    """The block that this JSON holds as an entry has it, its only source itself;

    None if it is not of the usual shape.
    """
    if value.keys() != _TOP:
        return None
    ulid, low, high, stats, compaction, block = map(value.__getitem__, _ORDER)
    if not (
        type(ulid) is str
        and type(low) is int
        and type(high) is int
        and -_INT64_MAX <= low < high <= _INT64_MAX
        and type(stats) is dict
        and stats.keys() == _STATS
        and compaction == _COMPACTION
        and type(compaction["level"]) is int
        and type(block) is dict
        and block.keys() == _BLOCK
        and is_ulid(ulid)
    ):
        return None
    constant = _take_constant(block)
    if constant != _CONSTANTS or tuple(map(type, constant)) != _CONSTANT_TYPES:
        return None
    found = _take_block(block)
    if tuple(map(type, found)) != _TYPES:
        return None
    visible_by, ignore_delay, own, uploaded, producer, sort_by, schema_id, listed = found
    time_column = block["time_column"]
    files = tuple([_file(one) for one in listed])
    rows, size, chunks = stats["numRows"], stats["numBytes"], stats["numChunks"]
    if not (
        visible_by in _VISIBLE
        and 0 <= uploaded <= _INT64_MAX
        and 0 <= schema_id <= _SMALL
        and len(producer) <= _TEXT
        and (time_column is None or (type(time_column) is str and len(time_column) <= _TEXT))
        and all(type(name) is str for name in sort_by)
        and None not in files
        and type(rows) is int
        and type(size) is int
        and type(chunks) is int
        and 0 <= size <= _INT64_MAX
        and chunks == len(files)
        and rows == sum([one.rows for one in files if one is not None])
        and rows <= _INT64_MAX
    ):
        return None
    try:
        return BlockMeta(
            ulid=ulid,
            min_time=low,
            max_time=high,
            rows=rows,
            bytes=size,
            level=1,
            sources=(ulid,),
            visible_by=_VISIBLE[visible_by],
            ignore_delay=ignore_delay,
            own=own,
            uploaded_time=uploaded,
            producer=producer,
            time_column=time_column,
            sort_by=tuple(sort_by),
            schema_id=schema_id,
            files=files,  # type: ignore[arg-type]
        )
    except Invalid:
        return None


_ORDER = ("ulid", "minTime", "maxTime", "stats", "compaction", "blockstore")


def _file(value: object) -> ChunkFile | None:
    if type(value) is not dict or value.keys() != _FILE:
        return None
    found = _take_file(value)
    path, size, rows, sha256, columns = found
    if not (
        tuple(map(type, found)) == _FILE_TYPES
        and 0 <= size <= _INT64_MAX
        and 0 <= rows <= _INT64_MAX
        and len(path) <= 200
        and is_chunk_path(path)
        and _SHA256.fullmatch(sha256) is not None
    ):
        return None
    bounds = {}
    for name, one in columns.items():
        if type(one) is not dict or one.keys() != _COLUMN:
            return None
        low, high, nulls = one["min"], one["max"], one["nulls"]
        if (
            type(nulls) is not int
            or not 0 <= nulls <= rows
            or not {type(low), type(high)} <= _SCALARS
        ):
            return None
        bounds[name] = ColumnStats(min=low, max=high, nulls=nulls)
    return ChunkFile(path=path, bytes=size, rows=rows, sha256=sha256, columns=bounds)
