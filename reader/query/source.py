"""Where an engine's snapshots come from: a gateway's polled tables, or fixed snapshots."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from blockstore.errors import Invalid
from blockstore.reader.query.files import local_folder
from blockstore.reader.tables.at import NEWEST, At, at_of_each
from blockstore.reader.tables.names import Names, folded
from blockstore.scan.view import TableSnapshot


class Source(Protocol):
    """Finds tables by name and takes their snapshots."""

    def names(self, allowed: Collection[str] | None = None) -> tuple[str, ...]:
        """All tables that the caller may use."""
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
        """A snapshot of each table; newest snapshots are of one instant."""
        ...

    def folders(self) -> list[str]:
        """The local folders that contain files of tables."""
        ...

    @property
    def remote(self) -> bool:
        """Whether some table has no local files."""
        ...


class Fixed:
    """Snapshots that were taken before the engine was made."""

    def __init__(self, tables: Mapping[str, TableSnapshot]) -> None:
        self.tables = dict(tables)
        seen: dict[str, str] = {}
        for name in tables:
            if not name:
                raise Invalid("a table has an empty name, so SQL cannot name it: give it another")
            twin = seen.setdefault(folded(name), name)
            if twin is not name:
                raise Invalid(
                    f"the tables {twin!r} and {name!r} have the same name in SQL: rename one"
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
                "these snapshots are fixed: take the snapshot of the version that you need"
            )
        return {name: self.tables[name] for name in wanted}

    def folders(self) -> list[str]:
        found = {local_folder(snapshot.bucket) for snapshot in self.tables.values()}
        return sorted(folder for folder in found if folder is not None)

    @property
    def remote(self) -> bool:
        return any(local_folder(snapshot.bucket) is None for snapshot in self.tables.values())
