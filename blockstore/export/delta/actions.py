"""A version as the rows of a Delta checkpoint. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from blockstore.errors import Invalid
from blockstore.export.delta.schema import has_local_times, schema_of, with_mapping
from blockstore.format.block import StatValue
from blockstore.format.statistics import decode
from blockstore.ids import ulid_time_ms
from blockstore.scan.chunk import ScanChunk
from blockstore.scan.snapshot import Snapshot

_TEXTS = pa.map_(pa.string(), pa.string())
CHECKPOINT = pa.schema(
    [
        (
            "protocol",
            pa.struct(
                [
                    ("minReaderVersion", pa.int32()),
                    ("minWriterVersion", pa.int32()),
                    ("readerFeatures", pa.list_(pa.string())),
                    ("writerFeatures", pa.list_(pa.string())),
                ]
            ),
        ),
        (
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    ("name", pa.string()),
                    ("description", pa.string()),
                    (
                        "format",
                        pa.struct([("provider", pa.string()), ("options", _TEXTS)]),
                    ),
                    ("schemaString", pa.string()),
                    ("partitionColumns", pa.list_(pa.string())),
                    ("createdTime", pa.int64()),
                    ("configuration", _TEXTS),
                ]
            ),
        ),
        (
            "add",
            pa.struct(
                [
                    ("path", pa.string()),
                    ("partitionValues", _TEXTS),
                    ("size", pa.int64()),
                    ("modificationTime", pa.int64()),
                    ("dataChange", pa.bool_()),
                    ("stats", pa.string()),
                    (
                        "deletionVector",
                        pa.struct(
                            [
                                ("storageType", pa.string()),
                                ("pathOrInlineDv", pa.string()),
                                ("offset", pa.int32()),
                                ("sizeInBytes", pa.int32()),
                                ("cardinality", pa.int64()),
                            ]
                        ),
                    ),
                ]
            ),
        ),
        (
            "remove",
            pa.struct(
                [
                    ("path", pa.string()),
                    ("deletionTimestamp", pa.int64()),
                    ("dataChange", pa.bool_()),
                ]
            ),
        ),
        ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64())])),
    ]
)
"""The columns of a checkpoint; the last two are empty."""

_MOST_FIELDS = 1_000_000
"""A number above those of all fields; only writers would count on from it."""

_WRITES = "blockstore"
"""A feature that no engine has, for writers only: so Delta's writers, and VACUUM, refuse."""


def about_table(shown: Snapshot, own: str, *, vectors: bool) -> list[dict[str, Any]]:
    """Return the actions ``protocol`` and ``metaData``.

    Args:
        shown: The version.
        own: The table's UUID.
        vectors: Whether some file has a deletion vector.
    """
    columns, labels = shown.definition.schema, list(shown.columns.labels)
    schema = schema_of(columns, labels)
    features, configuration = [], {}
    if vectors:
        features.append("deletionVectors")
    if has_local_times(columns):
        features.append("timestampNtz")
    if labels:
        # Engines without this feature look for labels in the paths of files, and find none. So it
        # is asked for, though each name is mapped to itself.
        features.append("columnMapping")
        schema = with_mapping(schema)
        configuration = {
            "delta.columnMapping.mode": "name",
            "delta.columnMapping.maxColumnId": str(_MOST_FIELDS),
        }
    protocol = {
        "minReaderVersion": 3 if features else 1,
        "minWriterVersion": 7,
        "readerFeatures": features or None,
        "writerFeatures": [*features, _WRITES],
    }
    meta = {
        "id": own,
        "format": {"provider": "parquet", "options": []},
        "schemaString": json.dumps(schema),
        "partitionColumns": labels,
        "configuration": list(configuration.items()),
    }
    return [{"protocol": protocol}, {"metaData": meta}]


def about_file(
    chunk: ScanChunk, schema: pa.Schema, labels: Sequence[str], vector: dict[str, Any] | None
) -> dict[str, Any]:
    """Return the action ``add`` of a chunk. ``schema`` is the chunk's own.

    Raises:
        Invalid: A label is the empty text, which Delta takes for null.
    """
    own = dict(chunk.stream.labels)
    empty = [name for name in labels if own.get(name) == ""]
    if empty:
        raise Invalid(
            f"the label {empty[0]!r} is the empty text in some blocks, which is null in Delta: "
            "write these rows with another value, or read the table with Blockstore"
        )
    return {
        "add": {
            "path": chunk.key,
            "partitionValues": [(name, own.get(name)) for name in labels],
            "size": chunk.file.bytes,
            "modificationTime": ulid_time_ms(chunk.block),
            "dataChange": False,
            "stats": json.dumps(_statistics(chunk, schema, tight=vector is None)),
            "deletionVector": vector,
        }
    }


def _statistics(chunk: ScanChunk, schema: pa.Schema, *, tight: bool) -> dict[str, Any]:
    """What is known of a file's rows; ``tight`` where all of them are shown. Elsewhere the bounds
    may be values of hidden rows, and an engine must not answer with them."""
    nulls: dict[str, int] = {}
    lowest: dict[str, object] = {}
    highest: dict[str, object] = {}
    for column in schema:
        found = chunk.file.columns.get(column.name)
        if found is None or pt.is_nested(column.type):
            continue
        nulls[column.name] = found.nulls
        for bounds, stat in ((lowest, found.min), (highest, found.max)):
            value = _bound(column.type, stat)
            if value is not None:
                bounds[column.name] = value
    return {
        "numRecords": chunk.file.rows,
        "minValues": lowest,
        "maxValues": highest,
        "nullCount": nulls,
        **({} if tight else {"tightBounds": False}),
    }


def _bound(kind: pa.DataType, stat: StatValue | None) -> object | None:
    """A bound, of types whose bounds have one form and one order in every engine."""
    value = None if stat is None else decode(kind, stat)
    if pt.is_integer(kind) or (pt.is_string(kind) and isinstance(value, str)):
        return value
    return None
