"""A block's meta read field by field: older shapes too, unknown fields kept, and whatever is wrong
named.

``meta.py`` reads what this release writes at once, and asks here for the rest.
"""

from __future__ import annotations

import re

import orjson

from blockstore.errors import Corrupt, Invalid
from blockstore.format.block import (
    BlockKind,
    BlockMeta,
    ChunkFile,
    ColumnStats,
    Job,
    Parent,
    SegmentsFile,
    VisibleBy,
)
from blockstore.format.document import Document
from blockstore.format.labels import check_labels
from blockstore.names import is_chunk_path, sources_path

_SHA256 = re.compile(r"[0-9a-f]{64}")
_SMALL = 2**31 - 1
_KINDS = {one.value: one for one in BlockKind}
_VISIBLE_BY = {one.value: one for one in VisibleBy}
_NESTED = ("stats", "compaction", "blockstore")


def read_by_field(document: Document, *, sources: tuple[str, ...], schema: bytes) -> BlockMeta:
    """Return the meta; raise Corrupt, naming the field that is wrong."""
    stats, compaction, block = (document.document(name) for name in _NESTED)
    job = block.document("job") if block.has("job") else None
    files = tuple(_file(file) for file in block.documents("files"))
    labels = block.pairs("labels")
    ulid = document.ulid("ulid")
    try:
        check_labels(labels)
        meta = BlockMeta(
            ulid=ulid,
            min_time=document.time("minTime"),
            max_time=document.time("maxTime"),
            rows=stats.integer("numRows"),
            bytes=stats.integer("numBytes"),
            level=compaction.integer("level", low=1, high=_SMALL),
            sources=sources,
            parents=tuple(_parent(parent) for parent in compaction.documents("parents", ())),
            labels=labels,
            resolution=block.integer("resolution", 0),
            visible_by=_VISIBLE_BY[block.choice("visible_by", _VISIBLE_BY)],
            ignore_delay=block.flag("ignore_delay", False),
            revision=block.integer("revision", 0, high=_SMALL),
            own=block.flag("own", True),
            kind=_KINDS[block.choice("rows", _KINDS, BlockKind.PLAIN.value)],
            uploaded_time=block.time("uploaded_time", 0),
            producer=block.text("producer", ""),
            job=None if job is None else Job(app=job.text("app"), batch=job.integer("batch")),
            time_column=block.text("time_column") if block.has("time_column") else None,
            sort_by=block.texts("sort_by", ()),
            schema=schema,
            schema_id=block.integer("schema_id", 0, high=_SMALL),
            files=files,
            segments=_segments(block, ulid),
            unknown=_unknown(document, stats, compaction, block),
        )
    except Invalid as error:
        raise Corrupt(f"{document.subject} contradicts the format: {error}") from None
    _check_counts(meta, stats)
    return meta


def _parent(document: Document) -> Parent:
    return Parent(
        ulid=document.ulid("ulid"),
        min_time=document.time("minTime"),
        max_time=document.time("maxTime"),
    )


def _segments(block: Document, ulid: str) -> SegmentsFile | None:
    if not block.has("segments"):
        return None
    named = block.document("segments")
    found = SegmentsFile(bytes=named.integer("bytes", low=1), sha256=_sha256(named))
    return found if named.raw("ulid") == ulid or named.ulid("ulid") == ulid else None


def _file(document: Document) -> ChunkFile:
    path = document.text("path", limit=200)
    if not is_chunk_path(path) and path != sources_path():
        document.fail("path", "a chunk's path such as chunks/000001.parquet")
    rows = document.integer("rows")
    columns = document.document("columns") if document.has("columns") else None
    return ChunkFile(
        path=path,
        bytes=document.integer("bytes"),
        rows=rows,
        sha256=_sha256(document),
        footer=document.integer("footer", low=1) if document.has("footer") else None,
        columns={} if columns is None else _columns(columns, rows),
    )


def _sha256(document: Document) -> str:
    sha256 = document.text("sha256", limit=64)
    if _SHA256.fullmatch(sha256) is None:
        document.fail("sha256", "64 hexadecimal digits in lower case")
    return sha256


def _columns(columns: Document, rows: int) -> dict[str, ColumnStats]:
    return {name: _stats(columns.document(name), rows) for name in columns.names()}


def _stats(stats: Document, rows: int) -> ColumnStats:
    low, high = stats.raw("min"), stats.raw("max")
    for bound, value in (("min", low), ("max", high)):
        if value is not None and not isinstance(value, (bool, int, float, str)):
            stats.fail(bound, "a number, a string, true, false or null")
    nulls = stats.integer("nulls", high=rows)
    nans = stats.integer("nans", 0, high=rows - nulls)
    return ColumnStats(min=low, max=high, nulls=nulls, nans=nans)  # type: ignore[arg-type]


def _check_counts(meta: BlockMeta, stats: Document) -> None:
    chunks = meta.chunks
    if stats.integer("numChunks") != len(chunks):
        stats.fail("numChunks", f"{len(chunks)}, the number of chunks in files")
    rows = sum(chunk.rows for chunk in chunks)
    if meta.rows != rows:
        stats.fail("numRows", f"{rows}, the sum over its chunks")


def _unknown(document: Document, *nested: Document) -> bytes:
    value = document.rest()
    value.pop("version", None)
    for name, part in zip(_NESTED, nested, strict=True):
        rest = part.rest()
        for known in _ELSEWHERE & rest.keys():
            del rest[known]
        if rest:
            value[name] = rest
    try:
        return orjson.dumps(value) if value else b""
    except TypeError as error:
        raise Corrupt(
            f"{document.subject} holds unknown fields that cannot be written again ({error})"
        ) from None


_ELSEWHERE = frozenset({"schema", "sources", "numChunks"})
"""Known fields of the nested objects that other functions read."""
