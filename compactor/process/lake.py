"""The tables under one URL: the table at the URL itself, or every table in a folder directly below
it.

Listing costs one LIST, and two or three small requests for each folder that is not known to be a
table, less and less often. ``each_table`` does one thing to every table, once: a table that fails
is reported and does not stop the others.
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
from blockstore.operations.not_yet import NotYet
from blockstore.operations.place import folders, is_table, tables_among
from blockstore.table import Table
from blockstore.world import Pool, Serial, World

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
        self._is_lake = False
        self._not_yet = NotYet()

    def places(self, known: Collection[str] = (), pool: Pool | None = None) -> tuple[Place, ...]:
        """The tables, by name.

        A folder that is ``known`` to be a table is listed and not checked again, and the others
        less and less often, side by side in a pool. Once a table was found in a folder, the URL is
        that of a lake, and one LIST is all that it costs to see the known ones.
        """
        if self.single or (not self._is_lake and is_table(self.bucket)):
            self.single = True
            return (Place(name=last_part(self.bucket.url), bucket=self.bucket),)
        names = folders(self.bucket)
        new = self._not_yet.due(name for name in names if name not in known)
        found = tables_among({name: Prefixed(self.bucket, name) for name in new}, pool or Serial())
        self._not_yet.checked(new, found)
        self._is_lake = self._is_lake or bool(found)
        return tuple(
            Place(name=name, bucket=found.get(name) or Prefixed(self.bucket, name))
            for name in names
            if name in known or name in found
        )


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
