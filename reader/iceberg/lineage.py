"""The versions that were exported before, as the ancestors of the newest one.

An engine that rewrites files looks, before it commits, at all snapshots since the one that it has
read. An export names the newest version and those with tags; what was exported earlier is in the
documents that are still there.

Rules:
- The newest documents count, up to a hundred; each is read once.
- It is the gateway's answer alone: no object says what was exported when, for such an object would
  depend on more than the version.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from blockstore.bucket.api import ReadBucket
from blockstore.errors import ObjectMissing
from blockstore.export.iceberg.export import METADATA
from blockstore.world import World

_MOST = 100
_DOCUMENT = re.compile(re.escape(METADATA) + r"v([1-9][0-9]*)-[0-9a-f]{8}\.metadata\.json")


class Lineage:
    """The documents of one table that were read; for one thread."""

    def __init__(self) -> None:
        self._read: dict[str, dict[str, Any]] = {}

    def of(self, bucket: ReadBucket, world: World, keys: Iterable[str], document: bytes) -> bytes:
        """Return a document with the ancestors of its newest version.

        Args:
            bucket: The table.
            world: Its pool reads documents.
            keys: What is there below ``metadata/``.
            document: The document of the newest version.
        """
        newest = orjson.loads(document)
        version = newest["current-snapshot-id"]
        older = {key: int(match[1]) for key in keys if (match := _DOCUMENT.fullmatch(key))}
        wanted = sorted((one for one in older if older[one] < version), key=older.__getitem__)
        wanted = wanted[-_MOST:]
        new = [key for key in wanted if key not in self._read]
        read = world.pool.map(lambda key: _document(bucket, key), new)
        found = {**self._read, **dict(zip(new, read, strict=True))}
        self._read = {key: found[key] for key in wanted if found[key]}
        past = [one for one in self._read.values() if one["table-uuid"] == newest["table-uuid"]]
        return orjson.dumps(with_ancestors(newest, past))


def with_ancestors(newest: Mapping[str, Any], past: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a document in which the newest versions of others are the ancestors of its own."""
    snapshots = {one["snapshot-id"]: one for other in past for one in _current(other)}
    snapshots |= {one["snapshot-id"]: one for one in newest["snapshots"]}
    ordered = [snapshots[own] for own in sorted(snapshots)]
    linked = [
        one if before is None else {**one, "parent-snapshot-id": before["snapshot-id"]}
        for before, one in zip([None, *ordered], ordered, strict=False)
    ]
    every = (*past, newest)
    return {
        **newest,
        "snapshots": linked,
        "schemas": _by("schema-id", (one for other in every for one in other["schemas"])),
        "partition-specs": _by(
            "spec-id", (one for all_ in every for one in all_["partition-specs"])
        ),
    }


def _current(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    own = document["current-snapshot-id"]
    return [one for one in document["snapshots"] if one["snapshot-id"] == own]


def _by(name: str, listed: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    found = {one[name]: one for one in listed}
    return [found[own] for own in sorted(found)]


def _document(bucket: ReadBucket, key: str) -> dict[str, Any]:
    """The document; empty if it was removed since."""
    try:
        return dict(orjson.loads(bucket.get(key).data))
    except ObjectMissing:
        return {}
