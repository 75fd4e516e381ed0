"""The tables at URLs and, where a URL is a lake's, those right below it: each is opened when a
query names it.

Rules:
- A table that is named by its own URL is opened at once: a URL that leads nowhere is told whatever
  the SQL says.
- A table of a lake is opened when the SQL names it. The others cost a look each, and may be
  damaged.
- Two tables of one name, wherever they lie, are refused: SQL could not tell them apart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from blockstore.bucket import Bucket, open_bucket
from blockstore.bucket.prefixed import Prefixed
from blockstore.errors import Invalid, NotFound
from blockstore.operations.place import folders, may_be_table
from blockstore.reader.query.files import local_folder
from blockstore.reader.tables.at import NEWEST, At, at_of_each
from blockstore.reader.tables.names import Names, folded
from blockstore.scan.view import TableSnapshot
from blockstore.table import Table
from blockstore.world import World

__all__ = ["Below"]


class Below:
    """A source for one query: every snapshot is of ``at``."""

    def __init__(self, urls: Sequence[str], world: World, at: At) -> None:
        self._world = world
        self._at = at
        self._buckets: dict[str, Bucket] = {}
        self._taken: dict[str, TableSnapshot] = {}
        self._places = [open_bucket(url, world) for url in urls]
        for bucket in self._places:
            self._add(bucket)

    def names(self, allowed: Collection[str] | None = None) -> tuple[str, ...]:
        return Names(self._buckets, allowed).all

    def find(self, name: str, allowed: Collection[str] | None = None) -> str:
        return Names(self._buckets, allowed).find(name)

    def snapshots(
        self,
        names: Iterable[str],
        at: At | Mapping[str, At] = NEWEST,
        allowed: Collection[str] | None = None,
    ) -> dict[str, TableSnapshot]:
        wanted = [self.find(name, allowed) for name in names]
        at_of_each(wanted, self._at)
        return {name: self._snapshot(name) for name in wanted}

    def folders(self) -> list[str]:
        found = {local_folder(bucket) for bucket in self._places}
        return sorted(folder for folder in found if folder is not None)

    @property
    def remote(self) -> bool:
        return any(local_folder(bucket) is None for bucket in self._places)

    def _add(self, bucket: Bucket) -> None:
        try:
            table = Table.open_bucket(bucket, self._world, discovery=None)
        except NotFound:
            tables = self._tables_of_lake(bucket)
            if not tables:
                raise
            for name, below in tables.items():
                self._name(name, below)
            return
        self._name(table.name, bucket)
        self._taken[table.name] = self._of(table)

    def _tables_of_lake(self, bucket: Bucket) -> dict[str, Bucket]:
        below = {name: Prefixed(bucket, name) for name in folders(bucket)}
        looks = self._world.pool.map(may_be_table, below.values())
        return {name: below[name] for name, found in zip(below, looks, strict=True) if found}

    def _name(self, name: str, bucket: Bucket) -> None:
        twin = next((one for one in self._buckets if folded(one) == folded(name)), None)
        if twin is not None:
            raise Invalid(
                f"two tables are named {name}: {self._buckets[twin].url} and {bucket.url}; SQL "
                "needs tables whose last path "
                "parts differ"
            )
        self._buckets[name] = bucket

    def _snapshot(self, name: str) -> TableSnapshot:
        if name not in self._taken:
            self._taken[name] = self._of(
                Table.open_bucket(self._buckets[name], self._world, discovery=None)
            )
        return self._taken[name]

    def _of(self, table: Table) -> TableSnapshot:
        return table.snapshot(version=self._at.version, as_of=self._at.as_of, tag=self._at.tag)
