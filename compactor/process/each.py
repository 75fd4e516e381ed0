"""Doing the same to every table under a URL, once: one that fails is named and stops no other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from blockstore.bucket import open_bucket
from blockstore.compactor.process.lake import Lake
from blockstore.errors import NotFound
from blockstore.table import Table
from blockstore.world import World

__all__ = ["Each", "One", "each_table"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class One(Generic[T]):
    """One table: what came of it, or why nothing did."""

    name: str
    answer: T | None = None
    error: Exception | None = None
    """A bug of ours too: what one table's rows bring to light is nothing to the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Each(Generic[T]):
    """All tables; ``lake`` unless the URL was that of a single one."""

    lake: bool
    found: tuple[One[T], ...]
    left: frozenset[str] = frozenset()
    """The names of those that were left alone."""


def each_table(
    url: str, act: Callable[[str, Table], T], *, leave: Callable[[str], bool] = lambda name: False
) -> Each[T]:
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
    found: list[One[T]] = []
    left: set[str] = set()
    for place in places:
        if leave(place.name):
            left.add(place.name)
            continue
        try:
            table = Table.open_bucket(place.bucket, world, discovery=None)
            found.append(One(name=place.name, answer=act(place.name, table)))
        except Exception as error:
            if single:
                raise
            found.append(One(name=place.name, error=error))
    return Each(lake=not single, found=tuple(found), left=frozenset(left))
