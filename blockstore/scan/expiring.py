"""The error of a snapshot that is read after its version was collected.

Rules:
- A missing object is damage as long as the version can still be opened, above the boundary or by a
  tag. Otherwise its blocks may be removed, and reading them raises ``VersionExpired``.
- The index is read only once an object is missing. If that fails, the object's error is raised.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from blockstore.bucket import ReadBucket
from blockstore.errors import BlockstoreError, ObjectMissing, VersionExpired
from blockstore.index.log import Log
from blockstore.world import World


@contextmanager
def or_expired(bucket: ReadBucket, world: World, version: int | None) -> Iterator[None]:
    """Raise VersionExpired for an object that is missing because the version was collected
    meanwhile."""
    try:
        yield
    except ObjectMissing as error:
        expired = None if version is None else _expired(bucket, world, version)
        if expired is None:
            raise
        raise VersionExpired(
            f"the snapshot is too old, its files are being removed: {expired}"
        ) from error


def batches_or_expired(
    rows: pa.RecordBatchReader, bucket: ReadBucket, world: World, version: int | None
) -> pa.RecordBatchReader:
    """Return the same rows, with the errors of ``or_expired``."""

    def batches() -> Iterator[pa.RecordBatch]:
        with or_expired(bucket, world, version):
            yield from rows

    return pa.RecordBatchReader.from_batches(rows.schema, batches())


def _expired(bucket: ReadBucket, world: World, version: int) -> VersionExpired | None:
    try:
        Log(bucket, world).at(version)
    except VersionExpired as error:
        return error
    except BlockstoreError:
        return None
    return None
