"""Namespaces and tables of the Iceberg catalog, and the metadata of a table.

Rules:
- A lake is a namespace, named by the last part of its URL. A table that was named by its own URL is
  in the namespace of the folder above it.
- A caller sees a namespace if it may know a table in it; another one does not exist for it.
- Metadata is exported once a version, however many ask for it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from blockstore.bucket.url import last_part, without_options
from blockstore.errors import BlockstoreError, Conflict, Indeterminate, Invalid, NotFound
from blockstore.export.exported import Exported, Memo
from blockstore.export.iceberg.export import METADATA, export_iceberg
from blockstore.reader.audit import running
from blockstore.reader.iceberg.commits.altering import NewColumns
from blockstore.reader.iceberg.commits.columns import change_columns
from blockstore.reader.iceberg.commits.commit import Commits
from blockstore.reader.iceberg.commits.wanted import Wanted
from blockstore.reader.iceberg.lineage import Lineage
from blockstore.reader.tables import Names, Tables
from blockstore.table import Table

_REMEMBERED = 256
"""Tables whose last document is kept in memory."""


class UnknownNamespace(NotFound):
    """The catalog has no such namespace, or the caller may not know it."""


class AlreadyThere(Conflict):
    """The catalog has a table of the name."""


@dataclass(slots=True)
class _Kept:
    """The last export of a table; one thread exports at a time."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    table: Table | None = None
    made: Exported | None = None
    memo: Memo = field(default_factory=Memo)
    lineage: Lineage = field(default_factory=Lineage)


class Catalog:
    """The catalog of a gateway's tables; safe to share between threads."""

    def __init__(
        self,
        tables: Tables,
        commits: Commits,
        export: Callable[[Table, Memo], Exported] = export_iceberg,
    ) -> None:
        self._tables = tables
        self._commits = commits
        self._export = export
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def namespaces(self, allowed: Collection[str] | None) -> list[str]:
        """The namespaces, sorted."""
        return sorted({self._namespace(name) for name in self._tables.names(allowed)})

    def tables(self, namespace: str, allowed: Collection[str] | None) -> list[str]:
        """The tables of a namespace, sorted. Raises UnknownNamespace."""
        found = [name for name in self._tables.names(allowed) if self._namespace(name) == namespace]
        if not found:
            known = ", ".join(self.namespaces(allowed)) or "none"
            raise UnknownNamespace(
                f"there is no namespace {namespace[:200]}: the namespaces are {known}"
            )
        return found

    def check_table(self, namespace: str, name: str, allowed: Collection[str] | None) -> None:
        """Raise UnknownNamespace, NotFound for a table that the namespace lacks, or Restricted for
        one that a policy restricts."""
        if name in self._tables.names():
            with suppress(NotFound):
                Names([name], allowed).find(name)
        found = self.tables(namespace, allowed)
        if name not in found:
            raise NotFound(
                f"there is no table {name[:200]} in {namespace}: the tables are "
                f"{', '.join(found[:20])}"
            )

    def load(self, namespace: str, name: str, allowed: Collection[str] | None) -> Exported:
        """The Iceberg metadata of the version that the gateway serves.

        Raises UnknownNamespace and NotFound; Invalid for a table that Iceberg cannot show; Stale
        and Unavailable as a query does.
        """
        self.check_table(namespace, name, allowed)
        version = self._tables.snapshot(name, allowed=allowed).version
        kept = self._of(name)
        with kept.lock:
            table = self._tables.table(name, allowed)
            made = kept.made
            if made is None or kept.table is not table or made.version != version:
                # The compactor may have removed what the last version needed.
                there = {info.key for info in table.bucket.list(METADATA)}
                kept.memo.begin(there)
                if kept.table is not table:
                    kept.lineage = Lineage()
                made = self._export(table, kept.memo)
                document = kept.lineage.of(table.bucket, table.world, there, made.document)
                made = replace(made, document=document)
                kept.table, kept.made = table, made
            return made

    def commit(
        self,
        namespace: str,
        name: str,
        allowed: Collection[str] | None,
        wanted: Wanted | NewColumns,
    ) -> Exported:
        """Carry out what a client commits; return the metadata of a version that holds it.

        Raises UnknownNamespace and NotFound; Invalid, Conflict, Unavailable and Indeterminate as
        ``Commits.commit`` and ``change_columns``.
        """
        self.check_table(namespace, name, allowed)
        served = self._tables.table(name, allowed)
        if not served.indexed:
            raise Invalid(f"table {name} has no index, which a commit needs to happen once")
        table = Table.open_bucket(served.bucket, served.world)

        def document() -> Mapping[str, Any]:
            found: Mapping[str, Any] = orjson.loads(self._newest(namespace, name, allowed).document)
            return found

        try:
            if isinstance(wanted, NewColumns):
                version = change_columns(table, wanted, document)
            else:
                version = self._commits.commit(table, wanted, document)
        except Conflict:
            # A client that now loads the table again is to find what was in its way.
            self._tables.catch_up(name, table.log.state.version)
            raise
        running().commits(name, version)
        try:
            self._tables.catch_up(name, version)
            return self.load(namespace, name, allowed)
        except BlockstoreError as error:
            # Any other error would look to the client like a commit that failed.
            raise Indeterminate(
                f"version {version} of {name} holds the commit, and its metadata cannot be shown "
                f"({error})"
            ) from error

    def _newest(self, namespace: str, name: str, allowed: Collection[str] | None) -> Exported:
        self._tables.poll_now(name)
        return self.load(namespace, name, allowed)

    def _of(self, name: str) -> _Kept:
        with self._lock:
            kept = self._kept.setdefault(name, _Kept())
            self._kept.move_to_end(name)
            if len(self._kept) > _REMEMBERED:
                self._kept.popitem(last=False)
            return kept

    def _namespace(self, name: str) -> str:
        folder = without_options(self._tables.bucket_of(name).url)
        return last_part(folder.rpartition("/")[0])
