"""A block's meta.json from its bucket: one GET, and one more where the sources are too many for
it."""

from __future__ import annotations

from blockstore.bucket.api import ReadBucket
from blockstore.format.block import BlockMeta
from blockstore.format.meta import decode
from blockstore.names import meta_key, object_key, sources_path

__all__ = ["load_meta"]


def load_meta(bucket: ReadBucket, ulid: str) -> BlockMeta:
    """The block's meta.

    Raises ObjectMissing where there is no meta.json, Corrupt or NewerFormat as ``decode``.
    """
    data = bucket.get(meta_key(ulid)).data
    return decode(
        data, ulid=ulid, load_sources=lambda: bucket.get(object_key(ulid, sources_path())).data
    )
