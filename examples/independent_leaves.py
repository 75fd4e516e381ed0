"""What a root's leaves hold, by docs/format.md alone ("Roots and leaves")."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

_BLOCKS = b"blockstore leaf of blocks 1\n"
_SOURCES = b"blockstore leaf of sources 1\n"
_TEXTS = {"ulid", "stream", "visible_by", "meta"}
_LISTS = {"excepted", "sources"}
Get = Callable[[str], bytes]


def rows_of(tree: dict[str, Any], columns: list[str], get: Get) -> list[dict[str, Any]]:
    """The rows of all leaves of blocks. Raises ValueError where one is not as its root says."""
    found = [
        row
        for leaf in tree["blocks"]
        for row in _rows(_canonical(leaf, _BLOCKS, get), columns, count=leaf[17])
    ]
    for leaf in tree["blocks"]:
        mine = [row for row in found if leaf[2] <= row["ulid"] <= leaf[3]]
        said = leaf[4:6] + leaf[8:10] + leaf[11:13]
        sums = [
            min(row["min_time"] for row in mine),
            max(row["max_time"] for row in mine),
            sum(row["rows"] for row in mine),
            sum(row["bytes"] for row in mine),
            min(row["version"] for row in mine),
            max(row["version"] for row in mine),
        ]
        _check(sums == said and len(mine) == leaf[17], f"the sums of leaf {leaf[0]}")
    return found


def sources_of(tree: dict[str, Any], get: Get) -> list[str]:
    """The accounted sources in all leaves."""
    found: list[str] = []
    for leaf in tree["sources"]:
        parts = _parts(_canonical(leaf, _SOURCES, get))
        text = next(parts).decode("ascii")
        mine = [text[at : at + 26] for at in range(0, len(text), 26)]
        _check([mine[0], mine[-1], len(mine)] == leaf[2:5], f"the sums of leaf {leaf[0]}")
        found += mine
    return found


def _canonical(leaf: list[Any], kind: bytes, get: Get) -> bytes:
    """The canonical bytes of a leaf behind its first line."""
    data = get(f"index/leaves/{leaf[0]}.{leaf[1]:020d}")
    size = struct.unpack("<q", data[:8])[0]
    held = pa.decompress(data[8:], decompressed_size=size, codec="zstd", asbytes=True)
    _check(hashlib.sha256(held).hexdigest() == leaf[0], f"the bytes of leaf {leaf[0]}")
    _check(held.startswith(kind), f"the kind of leaf {leaf[0]}")
    return bytes(held[len(kind) :])


def _parts(canonical: bytes) -> Iterator[bytes]:
    """The parts of the columns, behind the number of items."""
    at = 8
    while at < len(canonical):
        size = struct.unpack("<q", canonical[at : at + 8])[0]
        yield canonical[at + 8 : at + 8 + size]
        at += 8 + size


def _rows(canonical: bytes, columns: list[str], count: int) -> list[dict[str, Any]]:
    _check(struct.unpack("<q", canonical[:8])[0] == count, "the number of rows of a leaf")
    parts = _parts(canonical)
    values = {name: _column(parts, name) for name in columns}
    _check(all(len(one) == count for one in values.values()), "the columns of a leaf")
    return [dict(zip(columns, row, strict=True)) for row in zip(*values.values(), strict=True)]


def _column(parts: Iterator[bytes], name: str) -> list[Any]:
    if name in _LISTS:
        counts = _numbers(next(parts))
        items = iter(_texts(parts))
        return [None if one < 0 else [next(items).decode() for _ in range(one)] for one in counts]
    if name in _TEXTS:
        found = _texts(parts)
        return list(found) if name == "meta" else [one.decode() for one in found]
    return list(map(bool, next(parts))) if name == "own" else list(_numbers(next(parts)))


def _texts(parts: Iterator[bytes]) -> list[bytes]:
    lengths, data, at = _numbers(next(parts)), next(parts), 0
    found = []
    for length in lengths:
        found.append(data[at : at + length])
        at += length
    return found


def _numbers(data: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(data) // 8}q", data)


def _check(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)
