"""Blocks of a few rows with the hashes of their segments, as large blocks have them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from blockstore.bucket.api import ReadBucket
from blockstore.format import segments
from blockstore.format.block import BlockMeta
from blockstore.names import object_key, segments_path


@contextmanager
def segments_everywhere() -> Iterator[None]:
    """Every block that is written has them, however small its chunks are."""
    with mock.patch.object(segments, "WHOLE_BYTES", 0):
        yield


def segments_key(meta: BlockMeta) -> str:
    """The key of the block's hashes."""
    assert meta.segments is not None
    return object_key(meta.ulid, segments_path(meta.segments.sha256))


def check_segments_of(bucket: ReadBucket, meta: BlockMeta) -> None:
    """The block has the hashes of all its chunks, and they are right."""
    assert meta.segments is not None
    found = segments.load_segments(bucket, meta.ulid, meta.segments, meta.files)
    assert list(found) == [file.path for file in meta.chunks]
    for file in meta.chunks:
        found[file.path].check(0, bucket.get(object_key(meta.ulid, file.path)).data)
