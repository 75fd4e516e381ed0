"""The tables under one URL: the table that lies there itself, or every table in a folder right
below it.

Looking costs one LIST, and for each folder that is not known to be a table two small requests or
three.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from blockstore.bucket.api import Bucket
from blockstore.bucket.prefixed import Prefixed
from blockstore.bucket.url import last_part
from blockstore.operations.place import folders, is_table, may_be_table

__all__ = ["Lake", "Place"]


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
        """The tables, by name.

        A folder that is ``known`` to be one is not asked again, only listed.
        """
        if self.single or is_table(self.bucket):
            self.single = True
            return (Place(name=last_part(self.bucket.url), bucket=self.bucket),)
        places = (
            Place(name=name, bucket=Prefixed(self.bucket, name)) for name in folders(self.bucket)
        )
        return tuple(place for place in places if place.name in known or may_be_table(place.bucket))
