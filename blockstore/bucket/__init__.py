"""The object store edge: one interface, its adapters (memory, local, S3) and wrappers of the same
shape."""

from __future__ import annotations

from blockstore.bucket.api import (
    Bucket,
    NotModified,
    Object,
    ObjectInfo,
    ObjectWriter,
    ReadBucket,
)
from blockstore.bucket.range_file import read_file
from blockstore.bucket.url import open_bucket

__all__ = [
    "Bucket",
    "NotModified",
    "Object",
    "ObjectInfo",
    "ObjectWriter",
    "ReadBucket",
    "open_bucket",
    "read_file",
]
