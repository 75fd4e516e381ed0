"""Which blocks a table consists of, and under which definition: one interface, two implementations.

A handle chooses once, when it is opened: ``Indexed`` for a table with an index, ``Unindexed``
(``unindexed.py``) for one whose blocks are found by listing. What only an index can do (versions,
transactions, jobs that happen once) is done with its ``log``; on a table without one that is
``no_index``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING

from blockstore.errors import Invalid
from blockstore.format.definition import Definition
from blockstore.format.evolution import Alteration
from blockstore.index.lives import check_there
from blockstore.index.log import Log
from blockstore.index.state import State
from blockstore.operations.instants import to_ms
from blockstore.scan.snapshot import Snapshot
from blockstore.world import World

if TYPE_CHECKING:
    from blockstore.lifecycle.catalog import Catalog


class Discovery(StrEnum):
    """How a handle finds the blocks of its snapshots."""

    INDEX = "index"
    """By the index alone: a poll costs two small requests."""
    LIST = "list"
    """By the index and a listing: also blocks that no entry names yet, once they are ``sync_delay``
    old."""


class Contents(ABC):
    """The blocks of one table, as one handle finds them."""

    log: Log | None
    """The index, or None for a table without one."""
    discovery: Discovery

    @property
    @abstractmethod
    def definition(self) -> Definition:
        """Schema, time column, sort key and properties, as this handle knows them."""

    @abstractmethod
    def newest(self, catalog: Callable[[], Catalog]) -> Snapshot:
        """What is visible now; ``catalog`` is called only where a listing is needed."""

    @abstractmethod
    def alter(
        self, catalog: Callable[[], Catalog], alteration: Alteration, *, message: str
    ) -> Definition:
        """Change the definition and return it."""


class Indexed(Contents):
    """The contents of a table with an index."""

    log: Log

    def __init__(self, world: World, log: Log, discovery: str = Discovery.INDEX) -> None:
        if discovery not in tuple(Discovery):
            raise Invalid(f"discovery is {discovery!r}, expected 'index' or 'list'")
        self.log = log
        self.discovery = Discovery(discovery)
        self._world = world

    @property
    def definition(self) -> Definition:
        return self.log.state.definition

    def newest(self, catalog: Callable[[], Catalog]) -> Snapshot:
        if self.discovery is Discovery.INDEX:
            return Snapshot.of(self._there(self.log.newest()))
        from blockstore.lifecycle.list_path import discover_snapshot

        if self.definition.identity is not None:
            raise Invalid(
                f"the rows of the table at {self.log.bucket.url} have versions, which only its "
                'index orders: open it with discovery="index"'
            )
        read = catalog()
        state, listed = discover_snapshot(read.bucket, self._world, self.log.poll, catalog=read)
        return Snapshot.of(self._there(state or self.log.state), listed)

    def _there(self, state: State) -> State:
        check_there(state, self.log.bucket.url)
        return state

    def alter(
        self, catalog: Callable[[], Catalog], alteration: Alteration, *, message: str
    ) -> Definition:
        from blockstore.operations.alter import alter

        return alter(self.log.bucket, self.log, self._world, alteration, message=message)


def earlier(
    log: Log, *, version: int | None = None, as_of: object = None, tag: str | None = None
) -> Snapshot:
    """The snapshot of a version, of a tag, or of the last version at a time: of one of them. Raises
    Invalid, NotFound or VersionExpired."""
    if sum(one is not None for one in (version, as_of, tag)) > 1:
        raise Invalid(
            "a snapshot takes one of version=, as_of= and tag=, found more: pass only one"
        )
    if tag is not None:
        return Snapshot.of(log.tagged(tag))
    if as_of is not None:
        return Snapshot.of(log.as_of(to_ms(as_of)))
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise Invalid(f"version is {version!r}, expected an integer from 1")
    return Snapshot.of(log.at(version))


def no_index(url: str) -> Invalid:
    """The error for a request that needs an index."""
    return Invalid(
        f"the table at {url} has no index, and this needs one: only a table that was created with "
        "an index has versions, transactions, and jobs that happen once"
    )
