"""``metadata.json``: the document from which an Iceberg reader begins. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from blockstore.export.iceberg.schema import last_column_id, partition_spec, schema_of
from blockstore.export.own_id import own_id
from blockstore.scan.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergSnapshot:
    """One version of the table, as Iceberg's snapshot."""

    shown: Snapshot
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

    ``created`` is the version in which the table was created: another table of the same name has
    another one.
    """
    snapshots = {one.shown.version: one for one in (*tags.values(), current)}
    ordered = [snapshots[version] for version in sorted(snapshots, key=_number)]
    definition = current.shown.definition
    schemas = {schema["schema-id"]: schema for schema in map(_schema, ordered)}
    specs = {
        spec["spec-id"]: spec
        for spec in (partition_spec([]), *(partition_spec(_labels(one)) for one in ordered))
    }
    refs = {name: {"snapshot-id": _id(one), "type": "tag"} for name, one in tags.items()}
    refs["main"] = {"snapshot-id": _id(current), "type": "branch"}
    highest = max(
        (one["field-id"] for spec in specs.values() for one in spec["fields"]), default=999
    )
    return {
        "format-version": 2,
        "table-uuid": own_id(f"{created} {location}"),
        "location": location,
        "last-sequence-number": _id(current),
        "last-updated-ms": current.shown.time_ms,
        "last-column-id": last_column_id(definition.last_field_id, _labels(current)),
        "current-schema-id": _schema(current)["schema-id"],
        "schemas": [schemas[own] for own in sorted(schemas)],
        "default-spec-id": partition_spec(_labels(current))["spec-id"],
        "partition-specs": [specs[own] for own in sorted(specs)],
        "last-partition-id": highest,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        # Files here are Blockstore's: no expiry and no removal of orphans may reach them.
        "properties": {"gc.enabled": "false", "blockstore.version": str(current.shown.version)},
        "current-snapshot-id": _id(current),
        "refs": refs,
        "snapshots": [_snapshot(one) for one in ordered],
        "snapshot-log": [
            {"snapshot-id": _id(one), "timestamp-ms": one.shown.time_ms} for one in ordered
        ],
        "metadata-log": [],
    }


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
    definition = one.shown.definition
    return schema_of(definition.schema, _labels(one), definition.schema_id)


def _labels(one: IcebergSnapshot) -> Sequence[str]:
    return one.shown.columns.labels


def _id(one: IcebergSnapshot) -> int:
    return _number(one.shown.version)


def _number(version: int | None) -> int:
    assert version is not None, "only versions of an index are exported"
    return version
