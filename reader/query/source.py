"""Where an engine's snapshots come from: the gateway's polled tables, or a set that stands
still."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from blockstore.errors import Invalid
from blockstore.reader.query.files import local_folder
from blockstore.reader.tables.at import NEWEST, At, at_of_each
from blockstore.reader.tables.names import Names, folded
from blockstore.scan.view import TableSnapshot


class Source(Protocol):
    """What names mean, and what they show."""

    def names(self, allowed: Collection[str] | None = None) -> tuple[str, ...]:
        """Every table that may be named."""
        ...

    def find(self, name: str, allowed: Collection[str] | None = None) -> str:
        """The table's own spelling. Raises UnknownTable."""
        ...

    def snapshots(
        self,
        names: Iterable[str],
        at: At | Mapping[str, At] = NEWEST,
        allowed: Collection[str] | None = None,
    ) -> dict[str, TableSnapshot]:
        """A snapshot of each; those without a version of one instant."""
        ...

    def folders(self) -> list[str]:
        """The folders of this machine in which files of tables lie."""
        ...

    @property
    def remote(self) -> bool:
        """Whether some table has no files on this machine."""
        ...


class Fixed:
    """Snapshots that were taken before."""

    def __init__(self, tables: Mapping[str, TableSnapshot]) -> None:
        self.tables = dict(tables)
        seen: dict[str, str] = {}
        for name in tables:
            if not name:
                raise Invalid("a table has an empty name, expected one by which SQL can ask for it")
            twin = seen.setdefault(folded(name), name)
            if twin is not name:
                raise Invalid(
                    f"the tables {twin!r} and {name!r} have one name in SQL, expected names of "
                    "their own"
                )

    def names(self, allowed: Collection[str] | None = None) -> tuple[str, ...]:
        return Names(self.tables, allowed).all

    def find(self, name: str, allowed: Collection[str] | None = None) -> str:
        return Names(self.tables, allowed).find(name)

    def snapshots(
        self,
        names: Iterable[str],
        at: At | Mapping[str, At] = NEWEST,
        allowed: Collection[str] | None = None,
    ) -> dict[str, TableSnapshot]:
        wanted = [self.find(name, allowed) for name in names]
        if not all(one.newest for one in at_of_each(wanted, at).values()):
            raise Invalid(
                "these snapshots stand still: take the snapshot of the version that is wanted"
            )
        return {name: self.tables[name] for name in wanted}

    def folders(self) -> list[str]:
        found = {local_folder(snapshot.bucket) for snapshot in self.tables.values()}
        return sorted(folder for folder in found if folder is not None)

    @property
    def remote(self) -> bool:
        return any(local_folder(snapshot.bucket) is None for snapshot in self.tables.values())
