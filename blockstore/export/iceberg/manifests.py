"""Manifests and lists of manifests: Avro files by fastavro, with the bytes a function of what they
say.

Rules:
- Avro's sync marker, random elsewhere, is the hash of what the file says.
- A manifest says of its files that they exist: nothing of the version that it is exported with. So
  versions share the manifests of the blocks that they share.
- A file of deletes has the number of the version that hid its newest row, or a later one: an engine
  that rewrites a data file looks there for what was deleted since it read.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from blockstore.export.iceberg.schema import partition_spec
from blockstore.extras import load

DATA, DELETES = 0, 1
_POSITION_DELETES = 1
_EXISTING = 0
FIRST = 1
"""The sequence number of data files: every delete applies to them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One Parquet file, as a manifest lists it."""

    path: str
    rows: int
    size: int
    labels: Mapping[str, str] = field(default_factory=dict)
    value_counts: Mapping[int, int] = field(default_factory=dict)
    null_counts: Mapping[int, int] = field(default_factory=dict)
    nan_counts: Mapping[int, int] = field(default_factory=dict)
    lower: Mapping[int, bytes] = field(default_factory=dict)
    upper: Mapping[int, bytes] = field(default_factory=dict)
    references: str | None = None
    """The data file to which all position deletes of this file apply."""
    sequence: int = FIRST
    """The version in which it began to count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A manifest, and what a list of manifests says of it."""

    name: str
    size: int
    content: int
    files: int
    rows: int
    sequences: tuple[int, int] = (FIRST, FIRST)
    """The lowest and the highest of its files."""
    labels: tuple[str, ...]


def manifest(
    files: Sequence[DataFile],
    schema: Mapping[str, Any],
    labels: Iterable[str],
    *,
    content: int = DATA,
) -> tuple[Manifest, bytes]:
    """Return the manifest of these files, and its bytes; ``labels`` are those of the table."""
    names = tuple(sorted(labels))
    entries = [_entry(one, names, content) for one in files]
    spec = partition_spec(names)
    said = json.dumps([schema, spec, content], sort_keys=True).encode()
    data = _avro(
        _entry_schema(names),
        entries,
        {
            "schema": json.dumps(schema),
            "schema-id": str(schema["schema-id"]),
            "partition-spec": json.dumps(spec["fields"]),
            "partition-spec-id": str(spec["spec-id"]),
            "format-version": "2",
            "content": "deletes" if content == DELETES else "data",
        },
        said,
    )
    made = Manifest(
        name=f"{'deletes' if content == DELETES else 'data'}-{_hash(data)}.avro",
        size=len(data),
        content=content,
        files=len(files),
        rows=sum(one.rows for one in files),
        sequences=(
            min((one.sequence for one in files), default=FIRST),
            max((one.sequence for one in files), default=FIRST),
        ),
        labels=names,
    )
    return made, data


def manifest_list(manifests: Sequence[Manifest], folder: str, snapshot: int) -> tuple[str, bytes]:
    """Return the name and the bytes of the list of a snapshot's manifests, which lie in
    ``folder``."""
    entries = [
        {
            "manifest_path": f"{folder}/{one.name}",
            "manifest_length": one.size,
            "partition_spec_id": partition_spec(one.labels)["spec-id"],
            "content": one.content,
            "sequence_number": one.sequences[1],
            "min_sequence_number": one.sequences[0],
            "added_snapshot_id": snapshot,
            "added_files_count": 0,
            "existing_files_count": one.files,
            "deleted_files_count": 0,
            "added_rows_count": 0,
            "existing_rows_count": one.rows,
            "deleted_rows_count": 0,
            "partitions": None,
            "key_metadata": None,
        }
        for one in manifests
    ]
    data = _avro(_LIST, entries, {"format-version": "2", "snapshot-id": str(snapshot)}, b"list")
    return f"snap-{snapshot}-{_hash(data)}.avro", data


def _entry(one: DataFile, labels: Sequence[str], content: int) -> dict[str, Any]:
    return {
        "status": _EXISTING,
        "snapshot_id": 1,
        "sequence_number": one.sequence,
        "file_sequence_number": one.sequence,
        "data_file": {
            "content": _POSITION_DELETES if content == DELETES else 0,
            "file_path": one.path,
            "file_format": "PARQUET",
            "partition": {
                f"label_{place}": one.labels.get(name) for place, name in enumerate(labels)
            },
            "record_count": one.rows,
            "file_size_in_bytes": one.size,
            "value_counts": _pairs(one.value_counts),
            "null_value_counts": _pairs(one.null_counts),
            "nan_value_counts": _pairs(one.nan_counts),
            "lower_bounds": _pairs(one.lower),
            "upper_bounds": _pairs(one.upper),
            "referenced_data_file": one.references,
        },
    }


def _pairs(values: Mapping[int, Any]) -> list[dict[str, Any]] | None:
    return [{"key": key, "value": values[key]} for key in sorted(values)] or None


def _avro(
    schema: Mapping[str, Any],
    rows: Iterable[Mapping[str, Any]],
    said: Mapping[str, str],
    seed: bytes,
) -> bytes:
    parse_schema = load("fastavro", "parse_schema", "an Iceberg export")
    writer = load("fastavro", "writer", "an Iceberg export")
    listed = list(rows)
    digest = hashlib.sha256(seed + repr(listed).encode()).digest()
    out = io.BytesIO()
    writer(
        out,
        parse_schema(dict(schema)),
        listed,
        codec="deflate",
        metadata=dict(said),
        sync_marker=digest[:16],
    )
    return out.getvalue()


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def _of(name: str, kind: Any, number: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "field-id": number, **more}


def _optional(name: str, kind: Any, number: int) -> dict[str, Any]:
    return _of(name, ["null", kind], number, default=None)


def _map(key: int, value: int, kind: str) -> dict[str, Any]:
    pair = {
        "type": "record",
        "name": f"k{key}_v{value}",
        "fields": [_of("key", "int", key), _of("value", kind, value)],
    }
    return {"type": "array", "items": pair, "logicalType": "map"}


def _entry_schema(labels: Sequence[str]) -> dict[str, Any]:
    spec = partition_spec(labels)["fields"]
    partition = {
        "type": "record",
        "name": "r102",
        "fields": [
            _optional(f"label_{place}", "string", one["field-id"]) for place, one in enumerate(spec)
        ],
    }
    file = {
        "type": "record",
        "name": "r2",
        "fields": [
            _of("content", "int", 134),
            _of("file_path", "string", 100),
            _of("file_format", "string", 101),
            _of("partition", partition, 102),
            _of("record_count", "long", 103),
            _of("file_size_in_bytes", "long", 104),
            _optional("value_counts", _map(119, 120, "long"), 109),
            _optional("null_value_counts", _map(121, 122, "long"), 110),
            _optional("nan_value_counts", _map(138, 139, "long"), 137),
            _optional("lower_bounds", _map(126, 127, "bytes"), 125),
            _optional("upper_bounds", _map(129, 130, "bytes"), 128),
            _optional("referenced_data_file", "string", 143),
        ],
    }
    return {
        "type": "record",
        "name": "manifest_entry",
        "fields": [
            _of("status", "int", 0),
            _optional("snapshot_id", "long", 1),
            _optional("sequence_number", "long", 3),
            _optional("file_sequence_number", "long", 4),
            _of("data_file", file, 2),
        ],
    }


_LIST = {
    "type": "record",
    "name": "manifest_file",
    "fields": [
        _of("manifest_path", "string", 500),
        _of("manifest_length", "long", 501),
        _of("partition_spec_id", "int", 502),
        _of("content", "int", 517),
        _of("sequence_number", "long", 515),
        _of("min_sequence_number", "long", 516),
        _of("added_snapshot_id", "long", 503),
        _of("added_files_count", "int", 504),
        _of("existing_files_count", "int", 505),
        _of("deleted_files_count", "int", 506),
        _of("added_rows_count", "long", 512),
        _of("existing_rows_count", "long", 513),
        _of("deleted_rows_count", "long", 514),
        _optional(
            "partitions",
            {
                "type": "array",
                "element-id": 508,
                "items": {
                    "type": "record",
                    "name": "r508",
                    "fields": [
                        _of("contains_null", "boolean", 509),
                        _optional("contains_nan", "boolean", 518),
                        _optional("lower_bound", "bytes", 510),
                        _optional("upper_bound", "bytes", 511),
                    ],
                },
            },
            507,
        ),
        _optional("key_metadata", "bytes", 519),
    ],
}
