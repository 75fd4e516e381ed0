"""meta.json: a block's values as bytes, and back, strictly.

Rules:
- The bytes are a function of the value: keys in a fixed order, labels sorted.
- Decoding checks everything: wrong types, numbers out of range, paths outside the block, duplicate
  keys, counts that contradict the files, or another name than the directory's are Corrupt, naming
  the block and the field.
- A higher version is refused before anything else is read: NewerFormat.
- Unknown fields are kept, and written again when the block is rewritten.
- The name of the block's segments holds the block's ULID, and counts only there: an earlier release
  copies fields that it does not know into the blocks that it rewrites.
- More than 1,000 sources are stored in ``sources.parquet``; meta.json has their count and hash.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import orjson
import pyarrow as pa

from blockstore.bucket.api import ReadBucket
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
from blockstore.format.document import Document, parse
from blockstore.format.features import FORMAT_VERSION, refuse_newer
from blockstore.format.fields import RESERVED
from blockstore.format.identity import ROW_ID, VERSION
from blockstore.format.labels import check_labels
from blockstore.format.schema import deserialize
from blockstore.format.sources import INLINE, decode_sources, hash_sources
from blockstore.format.statistics import decode as decode_statistic
from blockstore.names import META, is_chunk_path, meta_key, object_key, sources_path

LoadSources = Callable[[], bytes]
"""Returns the bytes of the block's ``sources.parquet``."""

_OLD_SHA256 = "hash"
"""The name of ``sha256`` here in 0.1.

Written too, since a table without an index cannot make an older reader refuse it.
"""

_SHA256 = re.compile(r"[0-9a-f]{64}")
_SMALL = 2**31 - 1
_PLAIN_STATS = frozenset({"min", "max", "nulls"})
_SCALARS = frozenset({type(None), bool, int, float, str})
_KINDS = {one.value: one for one in BlockKind}
_VISIBLE_BY = {one.value: one for one in VisibleBy}
_NESTED = ("stats", "compaction", "blockstore")


def encode(meta: BlockMeta) -> bytes:
    """Return the bytes of the block's meta.json."""
    value = {"version": FORMAT_VERSION, **to_dict(meta)}
    if len(meta.sources) > INLINE:
        digest = hash_sources(meta.sources)
        value["compaction"]["sources"] = {
            "path": sources_path(),
            "count": len(meta.sources),
            "sha256": digest,
            _OLD_SHA256: digest,
        }
    else:
        value["compaction"]["sources"] = list(meta.sources)
    value["blockstore"].pop("schema_id", None)
    value["blockstore"]["schema"] = base64.b64encode(meta.schema).decode()
    return orjson.dumps(value)


def decode(data: bytes, *, ulid: str, load_sources: LoadSources | None = None) -> BlockMeta:
    """Return the block of a meta.json found in directory ``ulid``.

    Raises Corrupt or NewerFormat, naming the block.
    """
    document = parse(data, _subject(ulid))
    refuse_newer(document.integer("version", low=1), document.subject)
    if document.ulid("ulid") != ulid:
        document.fail("ulid", f"{ulid}, the name of its directory")
    compaction = document.document("compaction")
    sources = _sources(compaction, load_sources)
    block = document.document("blockstore")
    try:
        schema, types = _schema(block.base64("schema"))
    except Corrupt as error:
        raise Corrupt(f"{document.subject}: blockstore.schema: {error}") from None
    meta = _meta(document, sources=sources, schema=schema)
    _check_against_schema(meta, types, document.subject)
    return meta


def load_meta(bucket: ReadBucket, ulid: str) -> BlockMeta:
    """Return the block's meta from its bucket: one GET, and one more if its sources have their own
    file.

    Raises ObjectMissing where there is no meta.json, Corrupt or NewerFormat as ``decode``.
    """
    return decode(
        bucket.get(meta_key(ulid)).data,
        ulid=ulid,
        load_sources=lambda: bucket.get(object_key(ulid, sources_path())).data,
    )


def to_dict(meta: BlockMeta) -> dict[str, Any]:
    """Return the meta as an index entry and a checkpoint hold it.

    It has ``schema_id``, but not sources, schema and format version, which the entry has itself.
    """
    value: dict[str, Any] = {
        "ulid": meta.ulid,
        "minTime": meta.min_time,
        "maxTime": meta.max_time,
        "stats": {"numRows": meta.rows, "numBytes": meta.bytes, "numChunks": len(meta.chunks)},
        "compaction": {
            "level": meta.level,
            "parents": [
                {"ulid": parent.ulid, "minTime": parent.min_time, "maxTime": parent.max_time}
                for parent in meta.parents
            ],
        },
        "blockstore": {
            "labels": dict(sorted(meta.labels.items())),
            "resolution": meta.resolution,
            "visible_by": meta.visible_by.value,
            "ignore_delay": meta.ignore_delay,
            "revision": meta.revision,
            "own": meta.own,
            "uploaded_time": meta.uploaded_time,
            "producer": meta.producer,
            "job": None if meta.job is None else {"app": meta.job.app, "batch": meta.job.batch},
            "time_column": meta.time_column,
            "sort_by": list(meta.sort_by),
            "schema_id": meta.schema_id,
            "files": [_file_dict(file) for file in meta.files],
        },
    }
    if meta.kind is not BlockKind.PLAIN:
        value["blockstore"]["rows"] = meta.kind.value
    if meta.segments is not None:
        value["blockstore"]["segments"] = {
            "ulid": meta.ulid,
            "bytes": meta.segments.bytes,
            "sha256": meta.segments.sha256,
        }
    if meta.unknown:
        _add_unknown(value, orjson.loads(meta.unknown))
    return value


def from_dict(
    value: Mapping[str, object],
    subject: str | None = None,
    *,
    sources: tuple[str, ...] | None = None,
) -> BlockMeta:
    """Return the meta of ``to_dict``.

    ``sources`` as the caller knows them, else the block itself. Raises as ``decode``.
    """
    ulid = value.get("ulid")
    document = Document(value, subject or _subject(ulid if isinstance(ulid, str) else "?"))
    return _meta(document, sources=sources or (document.ulid("ulid"),), schema=b"")


def _meta(document: Document, *, sources: tuple[str, ...], schema: bytes) -> BlockMeta:
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


def _subject(ulid: str) -> str:
    return f"block {ulid[:40]}: {META}"


def _sources(compaction: Document, load: LoadSources | None) -> tuple[str, ...]:
    if not isinstance(compaction.raw("sources"), dict):
        return compaction.ulids("sources")
    outside = compaction.document("sources")
    count = outside.integer("count", low=1)
    if load is None:
        compaction.fail(
            "sources", f"a list: its {count:,} sources in {sources_path()} were not loaded"
        )
    found = decode_sources(load(), compaction.subject)
    digest = outside.text("sha256" if outside.has("sha256") else _OLD_SHA256)
    if len(found) != count or hash_sources(found) != digest:
        compaction.fail(
            "sources", f"the count and hash of the {len(found):,} sources in {sources_path()}"
        )
    return found


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


def _file_dict(file: ChunkFile) -> dict[str, Any]:
    value: dict[str, Any] = {
        "path": file.path,
        "bytes": file.bytes,
        "rows": file.rows,
        "sha256": file.sha256,
    }
    if file.footer is not None:
        value["footer"] = file.footer
    value["columns"] = {name: _stats_dict(stats) for name, stats in file.columns.items()}
    return value


def _stats_dict(stats: ColumnStats) -> dict[str, Any]:
    value: dict[str, Any] = {"min": stats.min, "max": stats.max, "nulls": stats.nulls}
    if stats.nans:
        value["nans"] = stats.nans
    return value


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
    found = {}
    for name in columns.names():
        value = columns.raw(name)
        # The plain shape, checked at once: most of a meta.json is this, and the first query of a
        # table of 2,000 blocks decodes 10,000 of them.
        if type(value) is dict and value.keys() == _PLAIN_STATS:
            low, high, nulls = value["min"], value["max"], value["nulls"]
            if type(nulls) is int and 0 <= nulls <= rows and {type(low), type(high)} <= _SCALARS:
                found[name] = ColumnStats(min=low, max=high, nulls=nulls)
                continue
        found[name] = _stats(columns.document(name), rows)
    return found


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


def _check_against_schema(meta: BlockMeta, types: Mapping[str, pa.DataType], subject: str) -> None:
    for role, name in (
        ("time_column", meta.time_column),
        *(("sort_by", name) for name in meta.sort_by),
    ):
        if name is not None and name not in types:
            raise Corrupt(
                f"{subject}: blockstore.{role} names {name[:60]!r}, which is not in its schema"
            )
    for file in meta.chunks:
        for name, stats in file.columns.items():
            if name not in types:
                raise Corrupt(
                    f"{subject}: {file.path} has statistics of {name[:60]!r}, which is not in its "
                    "schema"
                )
            try:
                decode_statistic(types[name], stats.min)
                decode_statistic(types[name], stats.max)
            except Corrupt as error:
                raise Corrupt(f"{subject}: {file.path}, column {name!r}: {error}") from None


@lru_cache(maxsize=256)
def _schema(schema: bytes) -> tuple[bytes, Mapping[str, pa.DataType]]:
    """Return the bytes, shared by all blocks that have them, and the types of their columns, with
    those of the reserved ones that have statistics."""
    reserved = {name: RESERVED[name].type for name in (ROW_ID, VERSION)}
    return schema, {**reserved, **{field.name: field.type for field in deserialize(schema)}}


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


def _add_unknown(value: dict[str, Any], unknown: dict[str, Any]) -> None:
    for name, rest in unknown.items():
        if name in _NESTED:
            value[name].update({key: item for key, item in rest.items() if key not in value[name]})
        else:
            value.setdefault(name, rest)
