"""A snapshot that is read when its version is gone already: what is told then, and to whom.

Rules:
- An object that is missing is damage as long as the version that was read can still be asked for,
  above the boundary or by a tag; once it cannot, its blocks may go, and ``VersionExpired`` says so.
- That is asked of the index only once an object is missing. Where the index does not answer, the
  object's error stands.
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
            f"the snapshot was read too late, its files are being removed: {expired}"
        ) from error


def batches_or_expired(
    rows: pa.RecordBatchReader, bucket: ReadBucket, world: World, version: int | None
) -> pa.RecordBatchReader:
    """The same rows, told as ``or_expired`` does."""

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
