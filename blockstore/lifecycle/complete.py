"""Whether blocks are complete and unmarked, by a listing of each one's directory.

Serves ``index/tags.py``: a version below the boundary can be tagged only while every block of it is
safe (protocol 3.5).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from blockstore.bucket.api import ReadBucket
from blockstore.format.block import BlockMeta
from blockstore.names import DELETION_MARK, META, object_key
from blockstore.world import World


def missing(bucket: ReadBucket, world: World, blocks: Iterable[BlockMeta]) -> dict[str, str]:
    """The blocks that are not complete, and why: marked for deletion, or an object missing or of
    another size."""
    metas = list(blocks)
    found = world.pool.map(lambda meta: _why(bucket, meta), metas)
    return {meta.ulid: why for meta, why in zip(metas, found, strict=True) if why is not None}


class CheckComplete:
    """``missing`` as ``index/tags.py`` calls it: the first block that is not complete, in words."""

    def __init__(self, bucket: ReadBucket, world: World) -> None:
        self._bucket = bucket
        self._world = world

    def __call__(self, blocks: Sequence[BlockMeta]) -> str | None:
        """Why one of the blocks is not complete, or None."""
        lost = missing(self._bucket, self._world, blocks)
        return next((f"block {ulid}: {why}" for ulid, why in sorted(lost.items())), None)


def _why(bucket: ReadBucket, meta: BlockMeta) -> str | None:
    from blockstore.lifecycle.listing import Directory

    prefix = object_key(meta.ulid, "")
    objects = {info.key.removeprefix(prefix): info for info in bucket.list(prefix)}
    if DELETION_MARK in objects:
        return "it is marked for deletion"
    if META not in objects:
        return f"{META} is missing"
    return Directory(ulid=meta.ulid, objects=objects).difference(meta)
