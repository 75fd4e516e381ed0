"""The tables under one URL: the table that lies there itself, or every table in a folder right below it.

A folder is a table if it has an index, or a complete block. Looking costs one LIST, and for each folder that is not known to
be a table two small requests or three. Where a folder does not let itself be looked at, it counts as one: whoever opens it is
told why, and the others go on.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from blockstore.bucket.api import Bucket
from blockstore.bucket.prefixed import Prefixed
from blockstore.bucket.url import last_part
from blockstore.errors import AccessDenied, Corrupt
from blockstore.index.log import exists
from blockstore.operations.unindexed import whole_block

__all__ = ["Lake", "Place", "is_table"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one table lies."""

    name: str
    bucket: Bucket


class Lake:
    """What lies under a URL."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.single = False
        """Whether the URL turned out to be that of a table."""

    def places(self, known: Collection[str] = ()) -> tuple[Place, ...]:
        """The tables, by name. A folder that is ``known`` to be one is not asked again, only listed."""
        if self.single or is_table(self.bucket):
            self.single = True
            return (Place(name=last_part(self.bucket.url), bucket=self.bucket),)
        names = sorted(prefix.rstrip("/") for prefix in self.bucket.prefixes())
        places = (Place(name=name, bucket=Prefixed(self.bucket, name)) for name in names)
        return tuple(place for place in places if place.name in known or _may_be_table(place.bucket))


def is_table(bucket: Bucket) -> bool:
    """Whether a table lies here: an index, even a damaged one, or a complete block."""
    return exists(bucket) or whole_block(bucket) is not None


def _may_be_table(bucket: Bucket) -> bool:
    try:
        return is_table(bucket)
    except (AccessDenied, Corrupt):
        return True
