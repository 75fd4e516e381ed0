"""Whether a table has an index, without reading it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from blockstore.bucket.api import ReadBucket, is_there
from blockstore.errors import ObjectMissing
from blockstore.index.boundary import parse_boundary
from blockstore.names import BOUNDARY, entry_key
from blockstore.world import Pool


def exists(bucket: ReadBucket, pool: Pool | None = None) -> bool:
    """Whether there is an index: a boundary above 0, or entry 1, also without a boundary, which is
    BoundaryLost once it is opened. Two small requests; in turn, or side by side in a pool, where a
    table whose first entry is collected at this moment may be missed."""
    looks = looks_for_index(bucket)
    if pool is None:
        return any(look() for look in looks)
    return any(pool.map(lambda look: look(), looks))


def looks_for_index(bucket: ReadBucket) -> tuple[Callable[[], bool], ...]:
    """The requests of ``exists``: there is an index if one of them finds it. In turn in this order:
    entry 1 may be collected at any moment, and then the boundary, read after it, is above 0."""
    return partial(is_there, bucket, entry_key(1)), partial(_is_passed, bucket)


def _is_passed(bucket: ReadBucket) -> bool:
    """Whether there is a boundary above 0: entries were collected."""
    try:
        return parse_boundary(bucket.get(BOUNDARY).data, bucket.url) > 0
    except ObjectMissing:
        return False
