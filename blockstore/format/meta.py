"""meta.json: a block's values as bytes, and back, strictly.

Rules:
- The bytes are a function of the value: keys in a fixed order, labels sorted.
- Decoding checks everything: wrong types, numbers out of range, paths outside the block, duplicate
  keys, counts that contradict the files, or another name than the directory's are Corrupt, naming
  the block and the field.
- Plain is what this release writes: all fields and no unknown one, each of its type and within its
  bounds. It is read at once, since a table has millions of blocks; anything else is read field by
  field (``meta_by_field.py``), which gives the same where both answer.
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
from operator import itemgetter
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
from blockstore.names import META, is_ulid, meta_key, object_key, sources_path

LoadSources = Callable[[], bytes]
"""Returns the bytes of the block's ``sources.parquet``."""

_OLD_SHA256 = "hash"
"""The name of ``sha256`` here in 0.1.

Written too, since a table without an index cannot make an older reader refuse it.
"""

_NESTED = ("stats", "compaction", "blockstore")

_COUNTS = itemgetter("numRows", "numBytes", "numChunks")
_CONSTANTS = itemgetter("labels", "resolution", "ignore_delay", "revision", "own", "uploaded_time")
_ORIGIN = itemgetter("producer", "time_column", "sort_by")
_OF_SPAN = itemgetter("ulid", "minTime", "maxTime")
_OF_FILE = itemgetter("path", "bytes", "rows", "sha256", "columns")
_BOUNDS = itemgetter("min", "max", "nulls")

_OPTIONAL = frozenset({"schema", "schema_id", "rows", "segments"})

_INT = {int}
_STR = {str}
_SCALARS = frozenset({type(None), bool, int, float, str})
_VISIBLE_BY = {one.value: one for one in VisibleBy}
_KINDS = {one.value: one for one in BlockKind}
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SMALL = 2**31
_INT64 = 2**63
_TEXT = 1_000
"""The most characters of a plain text."""


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
    plain = plain_meta(document.fields, sources=sources, schema=schema)
    if plain is not None:
        return plain
    from blockstore.format.meta_by_field import read_by_field  # few metas have another shape

    return read_by_field(document, sources=sources, schema=schema)


class _NotPlain(Exception):
    """The meta has another shape."""


def plain_meta(
    value: Mapping[str, Any], *, sources: tuple[str, ...], schema: bytes
) -> BlockMeta | None:
    """Return the meta of these fields if they are plain; None of any other."""
    try:
        return _plain(value, sources, schema)
    except (_NotPlain, Invalid, KeyError, TypeError, AttributeError):
        return None


def _plain(value: Mapping[str, Any], sources: tuple[str, ...], schema: bytes) -> BlockMeta:
    stats, compaction, block = value["stats"], value["compaction"], value["blockstore"]
    # What is read below must be there: of that many fields no other one is.
    _require(
        len(value) == 6 + ("version" in value)
        and len(stats) == 3
        and len(compaction) == 2 + ("sources" in compaction)
        and len(block) == 12 + len(_OPTIONAL & block.keys())
    )
    ulid, low, high = _OF_SPAN(value)
    rows, size, count = _COUNTS(stats)
    level: int = compaction["level"]
    parents: list[Any] = compaction["parents"]
    labels, resolution, ignore_delay, revision, own, uploaded_time = _CONSTANTS(block)
    producer, time_column, sort_by = _ORIGIN(block)
    schema_id = block.get("schema_id", 0)
    _counts(rows, size, count, level, resolution, revision, schema_id)
    _times(low, high, uploaded_time)
    _require(
        is_ulid(ulid)
        and 0 < level < _SMALL
        and revision < _SMALL
        and schema_id < _SMALL
        and type(ignore_delay) is bool
        and type(own) is bool
        and type(producer) is str
        and len(producer) <= _TEXT
        and (time_column is None or (type(time_column) is str and len(time_column) <= _TEXT))
        and type(sort_by) is list
        and set(map(type, sort_by)) <= _STR
        and type(labels) is dict
        and type(block["files"]) is list
        and type(parents) is list
    )
    if labels:
        check_labels(labels)
    files = tuple([_file(one) for one in block["files"]])
    chunks = [one.rows for one in files if one.path.startswith("chunks/")]
    _require(count == len(chunks) and rows == sum(chunks))
    job, segments = block["job"], block.get("segments")
    return BlockMeta(
        ulid=ulid,
        min_time=low,
        max_time=high,
        rows=rows,
        bytes=size,
        level=level,
        sources=sources,
        parents=tuple([_parent(one) for one in parents]),
        labels=dict(labels),
        resolution=resolution,
        visible_by=_VISIBLE_BY[block["visible_by"]],
        ignore_delay=ignore_delay,
        revision=revision,
        own=own,
        kind=_KINDS[block["rows"]] if "rows" in block else BlockKind.PLAIN,
        uploaded_time=uploaded_time,
        producer=producer,
        job=None if job is None else Job(app=job["app"], batch=job["batch"]),
        time_column=time_column,
        sort_by=tuple(sort_by),
        schema=schema,
        schema_id=schema_id,
        files=files,
        segments=None if segments is None else _segments(segments, ulid),
    )


def _file(value: Mapping[str, Any]) -> ChunkFile:
    path, size, rows, sha256, columns = _OF_FILE(value)
    footer = value.get("footer")
    _counts(size, rows, 1 if footer is None else footer)
    # The block checks its paths and footers itself.
    _require(
        len(value) == 5 + ("footer" in value)
        and type(path) is str
        and _SHA256.fullmatch(sha256) is not None
    )
    found = {}
    for name, one in columns.items():
        low, high, nulls = _BOUNDS(one)
        nans = one["nans"] if len(one) > 3 else 0
        _require(
            len(one) == 3 + ("nans" in one)
            and type(nulls) is type(nans) is int
            and nulls >= 0 <= nans
            and nulls + nans <= rows
            and {type(low), type(high)} <= _SCALARS
        )
        found[name] = ColumnStats(low, high, nulls, nans)
    return ChunkFile(path=path, bytes=size, rows=rows, sha256=sha256, footer=footer, columns=found)


def _parent(value: Mapping[str, Any]) -> Parent:
    ulid, low, high = _OF_SPAN(value)
    _times(low, high)
    _require(len(value) == 3 and is_ulid(ulid))
    return Parent(ulid=ulid, min_time=low, max_time=high)


def _segments(value: Mapping[str, Any], ulid: str) -> SegmentsFile:
    _require(len(value) == 3 and value["ulid"] == ulid)
    size, sha256 = value["bytes"], value["sha256"]
    _counts(size)
    _require(size > 0 and _SHA256.fullmatch(sha256) is not None)
    return SegmentsFile(bytes=size, sha256=sha256)


def _counts(*values: int) -> None:
    _require(set(map(type, values)) == _INT and min(values) >= 0 and max(values) < _INT64)


def _times(*values: int) -> None:
    _require(set(map(type, values)) == _INT and min(values) >= -_INT64 and max(values) < _INT64)


def _require(plain: bool) -> None:
    if not plain:
        raise _NotPlain


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


def _add_unknown(value: dict[str, Any], unknown: dict[str, Any]) -> None:
    for name, rest in unknown.items():
        if name in _NESTED:
            value[name].update({key: item for key, item in rest.items() if key not in value[name]})
        else:
            value.setdefault(name, rest)
