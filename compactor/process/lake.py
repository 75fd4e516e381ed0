"""The tables under one URL: the table at the URL itself, or every table in a folder directly below
it.

Listing costs one LIST, and two or three small requests for each folder that is not known to be a
table. ``each_table`` does one thing to every table, once: a table that fails is reported and does
not stop the others.
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
from blockstore.operations.place import folders, is_table, may_be_table
from blockstore.table import Table
from blockstore.world import World

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one table is stored."""

    name: str
    bucket: Bucket


class Lake:
    """The tables under a URL."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.single = False
        """Whether the URL turned out to be that of a table."""

    def places(self, known: Collection[str] = ()) -> tuple[Place, ...]:
        """The tables, by name.

        A folder that is ``known`` to be a table is listed and not checked again.
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
    """One table: the result, or the error."""

    name: str
    result: T | None = None
    error: Exception | None = None
    """Any exception, bugs included: what one table's rows trigger must not stop the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeResults(Generic[T]):
    """All tables; ``lake`` is false if the URL was that of a single table."""

    lake: bool
    tables: tuple[TableResult[T], ...]
    left: frozenset[str] = frozenset()
    """The names of the tables that were left alone."""


def each_table(
    url: str, act: Callable[[str, Table], T], *, leave: Callable[[str], bool] = lambda name: False
) -> LakeResults[T]:
    """Call ``act`` for each table, except those to ``leave``.

    Raises the error of a single table as it is, and NotFound if there is no table.
    """
    world = World.real()
    lake = Lake(open_bucket(url, world))
    places = lake.places()
    if not places:
        Table.open_bucket(lake.bucket, world, discovery=None)  # raises with what is there instead
        raise NotFound(f"no table at {lake.bucket.url} or directly below it: check the URL")
    single = lake.single
    found: list[TableResult[T]] = []
    left: set[str] = set()
    for place in places:
        if leave(place.name):
            left.add(place.name)
            continue
        try:
            table = Table.open_bucket(place.bucket, world, discovery=None, dropped=True)
            found.append(TableResult(name=place.name, result=act(place.name, table)))
        except Exception as error:
            if single:
                raise
            found.append(TableResult(name=place.name, error=error))
    return LakeResults(lake=not single, tables=tuple(found), left=frozenset(left))
