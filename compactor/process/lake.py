"""The tables under one URL: the table that lies there itself, or every table in a folder right
below it.

Looking costs one LIST, and for each folder that is not known to be a table two small requests or
three.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Generic, TypeVar

from blockstore.bucket import open_bucket
from blockstore.bucket.api import Bucket
from blockstore.bucket.prefixed import Prefixed
from blockstore.bucket.url import last_part
from blockstore.errors import NotFound
from blockstore.operations.lakes import folders, is_table, may_be_table
from blockstore.table import Table
from blockstore.world import World

T = TypeVar("T")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TableResult(Generic[T]):
    """One table: what came of it, or why nothing did."""

    name: str
    result: T | None = None
    error: Exception | None = None
    """A bug of ours too: what one table's rows bring to light is nothing to the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeResults(Generic[T]):
    """All tables; ``lake`` unless the URL was that of a single one."""

    lake: bool
    tables: tuple[TableResult[T], ...]
    left: frozenset[str] = frozenset()
    """The names of those that were left alone."""


def each_table(
    url: str, act: Callable[[str, Table], T], *, leave: Callable[[str], bool] = lambda name: False
) -> LakeResults[T]:
    """Act on each table but those to ``leave``.

    A single table's error is raised as it is; NotFound without any table.
    """
    world = World.real()
    lake = Lake(open_bucket(url, world))
    places = lake.places()
    if not places:
        Table.open_bucket(lake.bucket, world, discovery=None)  # says what is there instead
        raise NotFound(
            f"no table at {lake.bucket.url}, nor in a folder right below it: check the URL"
        )
    single = lake.single
    found: list[TableResult[T]] = []
    left: set[str] = set()
    for place in places:
        if leave(place.name):
            left.add(place.name)
            continue
        try:
            table = Table.open_bucket(place.bucket, world, discovery=None)
            found.append(TableResult(name=place.name, result=act(place.name, table)))
        except Exception as error:
            if single:
                raise
            found.append(TableResult(name=place.name, error=error))
    return LakeResults(lake=not single, tables=tuple(found), left=frozenset(left))
