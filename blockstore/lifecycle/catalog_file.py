"""The catalog's file: what was read of a table's blocks, for the next process on this machine.

Rules:
- It is a cache and nothing else: a file that is missing, damaged, of another table or of another
  release is ignored, with a warning where it was there, and never an error. So is a disk that is
  full.
- It appears all at once: written under another name and renamed. Its first line holds the SHA-256
  of the rest.
- Everything that was read is stored with what the listing said of the object (``Stamp``); without
  that it is not trusted.
- Damage is not kept: it is looked at again.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from blockstore.errors import Corrupt, Invalid
from blockstore.format.block import BlockMeta
from blockstore.format.marks import MarkReason
from blockstore.format.meta import decode, encode
from blockstore.format.sources import INLINE, encode_sources
from blockstore.ids import Ids
from blockstore.lifecycle.listing import Directory, Reading, Seen

_logger = logging.getLogger(__name__)

_MAGIC = b"blockstore catalog 1 "
_URL = b"blockstore.url"
_STAMP = pa.struct([("size", pa.int64()), ("modified_ms", pa.int64()), ("etag", pa.string())])
_SCHEMA = pa.schema(
    [
        ("ulid", pa.string()),
        ("meta_stamp", _STAMP),
        ("meta", pa.binary()),
        ("sources", pa.binary()),
        ("mark_stamp", _STAMP),
        ("mark", pa.string()),
    ]
)


class CatalogFile:
    """One file of one table; ``read`` and ``write`` raise nothing of the file system's."""

    def __init__(self, path: Path, url: str, ids: Ids) -> None:
        self.path = path
        self._url = url
        self._ids = ids

    def read(self) -> dict[str, Seen]:
        """What the file holds, by ULID; nothing if it cannot be believed."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            _logger.warning("the cache %s cannot be read and is ignored: %s", self.path, error)
            return {}
        try:
            return dict(self._decoded(data))
        except (
            Corrupt,
            Invalid,
            pa.ArrowException,
            OSError,
            ValueError,
            KeyError,
            TypeError,
        ) as error:
            _logger.warning(
                "the cache %s is ignored, and will be written again: %s", self.path, error
            )
            return {}

    def write(self, seen: Mapping[str, Seen]) -> None:
        """Replace the file by these."""
        beside = self.path.with_name(f"{self.path.name}.{self._ids.token()}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            beside.write_bytes(self._encoded(seen))
            os.replace(beside, self.path)
        except OSError as error:
            _logger.warning("the cache %s was not written: %s", self.path, error)
            with suppress(OSError):
                beside.unlink(missing_ok=True)

    def _encoded(self, seen: Mapping[str, Seen]) -> bytes:
        import pyarrow.parquet as pq

        rows = [_row(ulid, one) for ulid, one in seen.items()]
        table = pa.Table.from_pylist(rows, schema=_SCHEMA.with_metadata({_URL: self._url.encode()}))
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd", compression_level=1, use_dictionary=False)
        body = bytes(sink.getvalue())
        return _MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body

    def _decoded(self, data: bytes) -> Iterator[tuple[str, Seen]]:
        import pyarrow.parquet as pq

        head, newline, body = data[: len(_MAGIC) + 65].partition(b"\n")
        body = data[len(head) + len(newline) :]
        if not head.startswith(_MAGIC):
            raise Corrupt("it was written by another release, or is not a cache file")
        if head[len(_MAGIC) :].decode("ascii", "replace") != hashlib.sha256(body).hexdigest():
            raise Corrupt("its hash does not match: it was truncated or overwritten")
        table = pq.ParquetFile(pa.BufferReader(body)).read(use_threads=False)
        url = (table.schema.metadata or {}).get(_URL, b"").decode()
        if url != self._url:
            raise Corrupt(f"it belongs to the table {url}, expected {self._url}")
        for row in table.to_pylist():
            yield row["ulid"], _seen(row)


def _row(ulid: str, seen: Seen) -> dict[str, Any]:
    row: dict[str, Any] = {"ulid": ulid}
    if seen.meta is not None and isinstance(seen.meta.value, BlockMeta):
        meta = seen.meta.value
        row |= {"meta_stamp": _stamp(seen.meta), "meta": encode(meta)}
        row["sources"] = encode_sources(meta.sources) if len(meta.sources) > INLINE else None
    if seen.mark is not None and isinstance(seen.mark.value, MarkReason):
        row |= {"mark_stamp": _stamp(seen.mark), "mark": seen.mark.value.value}
    return row


def _stamp(reading: Reading) -> dict[str, Any]:
    size, modified_ms, etag = reading.stamp
    return {"size": size, "modified_ms": modified_ms, "etag": etag}


def _seen(row: dict[str, Any]) -> Seen:
    ulid, meta, mark = row["ulid"], None, None
    if row["meta"] is not None:
        sources = row["sources"]
        value = decode(row["meta"], ulid=ulid, load_sources=lambda: sources)
        meta = Reading(_read_stamp(row["meta_stamp"]), value)
    if row["mark"] is not None:
        mark = Reading(_read_stamp(row["mark_stamp"]), MarkReason(row["mark"]))
    return Seen(Directory(ulid=ulid, objects={}), None, meta, mark)


def _read_stamp(value: dict[str, Any]) -> tuple[int, int, str | None]:
    return value["size"], value["modified_ms"], value["etag"]
