"""The two disasters of a table that others still hold open: a copy of it is put back, or it is
dropped and made again."""

from __future__ import annotations

from collections.abc import Mapping

from blockstore.bucket.api import Bucket

__all__ = ["copy_of", "put_back", "wipe"]


def copy_of(bucket: Bucket) -> dict[str, bytes]:
    """A backup of everything in a bucket."""
    return {info.key: bucket.get(info.key).data for info in bucket.list()}


def wipe(bucket: Bucket) -> None:
    """Drop everything."""
    bucket.delete([info.key for info in bucket.list()])


def put_back(bucket: Bucket, copy: Mapping[str, bytes]) -> None:
    """Make a bucket what it was when the copy was taken."""
    wipe(bucket)
    for key, data in copy.items():
        bucket.put(key, data)
