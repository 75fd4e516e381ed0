"""``metadata.json``: the document from which an Iceberg reader begins. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from blockstore.export.iceberg.schema import (
    has_coarse_times,
    last_column_id,
    partition_spec,
    table_schema,
)
from blockstore.export.own_id import own_id
from blockstore.format.definition import Definition
from blockstore.names import INCOMING
from blockstore.scan.snapshot import Snapshot

FORMAT = 2
"""The version of Iceberg's format."""
BRANCH = "main"
"""The reference to the newest version. Iceberg has one reference of a name."""
_NO_PARTITION = 999
"""Ids of partition fields are above this one."""
_WRITTEN = re.compile(re.escape(INCOMING) + r"v([1-9][0-9]{0,18})/")


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergSnapshot:
    """One version of the table, as Iceberg's snapshot."""

    shown: Snapshot
    labels: tuple[str, ...]
    """Those that are columns of it."""
    manifest_list: str
    """Where its list of manifests is."""
    files: int
    rows: int
    """With those that position deletes leave out."""
    deletes: int


def metadata(
    location: str, created: int, current: IcebergSnapshot, tags: Mapping[str, IcebergSnapshot]
) -> dict[str, Any]:
    """Return the document of a version, and of the versions with tags.

    ``tags`` has none called ``BRANCH``. ``created`` is the version in which the table was created:
    another table of the same name has another one.
    """
    snapshots = {one.shown.version: one for one in (*tags.values(), current)}
    ordered = [snapshots[version] for version in sorted(snapshots, key=_number)]
    definition = current.shown.definition
    schemas = {schema["schema-id"]: schema for schema in map(_schema, ordered)}
    specs = {
        spec["spec-id"]: spec
        for spec in (partition_spec([]), *(partition_spec(one.labels) for one in ordered))
    }
    refs = {name: {"snapshot-id": _id(one), "type": "tag"} for name, one in tags.items()}
    refs[BRANCH] = {"snapshot-id": _id(current), "type": "branch"}
    partitions = [one["field-id"] for spec in specs.values() for one in spec["fields"]]
    coarse = any(has_coarse_times(one.shown.definition.schema) for one in ordered)
    return {
        **_of_table(location, created, current.shown.version, coarse=coarse),
        "last-sequence-number": _id(current),
        "last-updated-ms": current.shown.time_ms,
        "last-column-id": last_column_id(definition.last_field_id, current.labels),
        "current-schema-id": _schema(current)["schema-id"],
        "schemas": [schemas[own] for own in sorted(schemas)],
        "default-spec-id": partition_spec(current.labels)["spec-id"],
        "partition-specs": [specs[own] for own in sorted(specs)],
        "last-partition-id": max(partitions, default=_NO_PARTITION),
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "current-snapshot-id": _id(current),
        "refs": refs,
        "snapshots": [_snapshot(one) for one in ordered],
        # An engine asks it which version was the newest at a moment. Between two others there were
        # versions that are not exported: a tag's rows would be those of a moment long after it.
        "snapshot-log": [
            {"snapshot-id": _id(current), "timestamp-ms": current.shown.time_ms},
        ],
    }


def metadata_of_none(
    location: str, created: int, definition: Definition, time_ms: int
) -> dict[str, Any]:
    """Return the document of a table that is still to be created, in the version ``created``: its
    columns, and no snapshot."""
    schema = table_schema(definition, ())
    coarse = has_coarse_times(definition.schema)
    return {
        **_of_table(location, created, created, coarse=coarse),
        "last-sequence-number": 0,
        "last-updated-ms": time_ms,
        "last-column-id": definition.last_field_id,
        "current-schema-id": schema["schema-id"],
        "schemas": [schema],
        "default-spec-id": 0,
        "partition-specs": [partition_spec([])],
        "last-partition-id": _NO_PARTITION,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "snapshots": [],
    }


def _of_table(location: str, created: int, version: int | None, *, coarse: bool) -> dict[str, Any]:
    # Spark's reader of whole batches fails at files whose timestamps are not microseconds.
    reading = {"read.parquet.vectorization.enabled": "false"} if coarse else {}
    return {
        "format-version": FORMAT,
        "table-uuid": table_uuid(location, created),
        "location": location,
        "properties": {
            # Files here are Blockstore's: no expiry and no removal of orphans may reach them.
            "gc.enabled": "false",
            "blockstore.version": str(version),
            # What an engine commits becomes blocks. It writes whole files to a place of their own,
            # which says the version that it has read.
            "write.data.path": f"{location}/{written_at(version)}data",
            "write.metadata.path": f"{location}/{INCOMING}metadata",
            "write.delete.mode": "copy-on-write",
            "write.update.mode": "copy-on-write",
            "write.merge.mode": "copy-on-write",
            # A client that tries again on top of a newer version looks for its conflicts in the
            # entries of manifests, which say nothing of versions here: it would drop the removal of
            # a file that was replaced since, and send its new rows alone.
            "commit.retry.num-retries": "0",
            **reading,
        },
        "metadata-log": [],
    }


def written_at(version: int | None) -> str:
    """Return the prefix of the files that an engine writes that has loaded a version."""
    return f"{INCOMING}v{version}/"


def version_of(key: str) -> int | None:
    """Return the version that the writer of a file had loaded; None for another key."""
    found = _WRITTEN.match(key)
    return None if found is None else int(found[1])


def table_uuid(location: str, created: int) -> str:
    """Return the UUID of the table at a location that was created in a version."""
    return own_id(f"{created} {location}")


def _snapshot(one: IcebergSnapshot) -> dict[str, Any]:
    return {
        "snapshot-id": _id(one),
        "sequence-number": _id(one),
        "timestamp-ms": one.shown.time_ms,
        "manifest-list": one.manifest_list,
        "schema-id": _schema(one)["schema-id"],
        "summary": {
            "operation": "overwrite",
            "total-data-files": str(one.files),
            "total-records": str(one.rows),
            "total-position-deletes": str(one.deletes),
        },
    }


def _schema(one: IcebergSnapshot) -> dict[str, Any]:
    return table_schema(one.shown.definition, one.labels)


def _id(one: IcebergSnapshot) -> int:
    return _number(one.shown.version)


def _number(version: int | None) -> int:
    assert version is not None, "only versions of an index are exported"
    return version
