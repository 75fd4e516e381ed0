"""The edge to object stores: one interface, an adapter for each store, and wrappers.

The problem: folders, S3, Google Cloud Storage and Azure differ in what they promise, in how they
fail and in what a retry may do. The rest of Blockstore must not know the differences.

The mental model: a ``Bucket`` maps keys to immutable bytes. It has the few requests that the
protocol needs: get (also a range, also "unless it has this ETag"), put, create-if-absent,
compare-and-set, list, delete. ``api.py`` states the promises; the contract suite in
``tests/contract`` checks every adapter against them.

- ``ReadBucket`` and ``Bucket`` are the interface; readers hold the first.
- ``open_bucket`` returns the adapter for a URL: ``local`` (folders), ``memory``, ``cloud``
  (obstore) or ``s3``, which uses ``cloud`` and ``s3_boto3``. Adapters send each request once and
  raise the errors of ``blockstore.errors``.
- Wrappers have the same interface: ``Retrying`` repeats what is safe to repeat, within a budget
  that a process shares (``traffic``, which also has its pace, and second requests for late reads).
  ``Prefixed`` is a folder of a bucket, ``Metered`` counts requests.
- ``probe`` measures which promises a store keeps.

Example::

    bucket = open_bucket("s3://lake/flights", World.real())
    etag = bucket.put_if_absent("index/00000000000000000001.json", b"{}")  # or AlreadyExists
    data = bucket.get("index/00000000000000000001.json").data
"""

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
