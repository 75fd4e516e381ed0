"""What every contestant can be asked to do: one table in one folder.

Owns the functions that all adapters share. A peer that cannot do one of them leaves it as it is
here, and refuses with ``Unsupported``; it never answers with something easier.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path

import pyarrow as pa

from bench import files

__all__ = ["Handle", "Peer", "Unsupported"]

AT_ONCE = 100_000
"""Files in one commit, where a table of very many is made."""


class Unsupported(Exception):
    """The peer cannot do this. The table shows a dash, and the reason stands in the result."""


class Handle:
    """One table, opened once in one process."""

    def ready(self) -> None:
        """Have everything run that an answer needs, before a clock is looked at."""

    def append(self, table: pa.Table) -> None:
        """Commit ``table`` as one write; return when it is acknowledged. Any error is a refusal."""
        raise self.unsupported("append")

    def upsert(self, table: pa.Table, key: str) -> None:
        """Replace the rows that have the keys of ``table``, as one commit."""
        raise self.unsupported("upsert")

    def take_source(self, table: pa.Table) -> None:
        """Have the rows that ``merge_source`` merges."""
        raise self.unsupported("take_source")

    def merge_source(self, key: str) -> None:
        """MERGE the source as one commit: rows whose key exists are replaced, others are new."""
        raise self.unsupported("merge_source")

    def row(self, key: int) -> int:
        """Read the row with this ``id``, all columns; return how many there are."""
        return self.point_range(key, key)

    def set_value(self, low: int, high: int, value: float) -> None:
        """Give ``value`` to the rows with an ``id`` in a range, as one commit."""
        raise self.unsupported("set_value")

    def files(self) -> Sequence[Path]:
        """The files that hold the rows as they were written first."""
        raise self.unsupported("files")

    def iceberg_metadata(self) -> str:
        """The URL of the table's Iceberg metadata, of its newest version."""
        raise self.unsupported("iceberg_metadata")

    def ingest(self, tables: Iterable[pa.Table]) -> None:
        """Make one block of each table, in the fastest way that the peer offers (one commit if it
        can)."""
        for table in tables:
            self.append(table)

    def add_files(self, first: int, count: int) -> None:
        """Commit so many files of ``bench.files`` from a number on, by their metadata alone: the
        files are not there."""
        raise self.unsupported("add_files")

    def add_late(self, count: int) -> None:
        """Commit so many files whose rows have the times of others, far from each other."""
        raise self.unsupported("add_late")

    def plan(self, key: int) -> int:
        """Find the files that a query of the row with this ``id`` reads; return how many."""
        raise self.unsupported("plan")

    def plan_all(self) -> int:
        """Name the file of every row, one after the other; return how many they are."""
        raise self.unsupported("plan_all")

    def plan_merges(self, apart_ms: int) -> int:
        """Find what there is to merge within windows of so many milliseconds, as the compactor
        does; return how many merges."""
        raise self.unsupported("plan_merges")

    def poll(self) -> None:
        """Learn of new commits, as a reader does that holds the table open."""
        raise self.unsupported("poll")

    def blocks(self) -> int:
        """List the table's blocks (data files, fragments), each with its name, and return how
        many."""
        raise self.unsupported("blocks")

    def count(self) -> int:
        """The number of rows."""
        raise self.unsupported("count")

    def point_range(self, low: int, high: int) -> int:
        """Fetch all columns of the rows with ``low <= id <= high`` into Arrow; return how many they
        are."""
        raise self.unsupported("point_range")

    def group_by(self, shift: int) -> Mapping[str, int]:
        """Rows by origin, computed along with the sum of ``value + shift``, over all rows."""
        raise self.unsupported("group_by")

    def merge(self) -> Sequence[Path]:
        """Merge all blocks into few big ones; return the files in the order of their rows if the
        output is sorted over all of them, and none if it is not."""
        raise self.unsupported("merge")

    def merge_old(self) -> Sequence[Path]:
        """The same as if all that was written were months old, until nothing is left to merge."""
        raise self.unsupported("merge_old")

    def requests(self) -> int:
        """Requests made to the store since the handle was opened (``Peer.open_metered``)."""
        raise self.unsupported("requests")

    def tail(self) -> int:
        """Index entries from the newest checkpoint's on: what opening must read beyond its fixed
        requests."""
        raise self.unsupported("tail")

    def close(self) -> None:
        """Let go of what the handle holds."""

    def unsupported(self, what: str) -> Unsupported:
        """The error of a function that this peer has not."""
        return Unsupported(f"{type(self).__name__} has no {what}")


class Peer(ABC):
    """A contestant: how its tables are made and opened."""

    name: str
    """The contestant's name in tables and on the command line."""
    family: str
    """What ``--peers`` selects: all contestants of one adapter file."""
    distribution: str
    """The distribution whose version is recorded."""
    settings: str = ""
    """How the peer is used, in half a sentence, for the reader of the figures."""
    prunes: bool = True
    """Whether it knows which values a file has without reading it."""
    resident: bool = False
    """Whether it runs before a query comes, so that opening is not part of a cold query."""

    def interpreter(self) -> str:
        """The Python that has the peer's libraries."""
        return sys.executable

    def version(self) -> str:
        """The distribution that is measured, and its version."""
        return f"{self.distribution} {metadata.version(self.distribution)}"

    @abstractmethod
    def create(self, directory: Path, schema: pa.Schema, sort_by: Sequence[str]) -> Handle:
        """A new table in ``directory``, which exists and is empty."""

    def create_keyed(self, directory: Path, schema: pa.Schema, key: str) -> Handle:
        """A new table whose rows change by ``key``."""
        return self.create(directory, schema, [key])

    def make_files(self, directory: Path, count: int) -> None:
        """A new table of the first ``count`` files of ``bench.files``, in the fastest way that
        there is."""
        handle = self.create(directory, files.SCHEMA, ["id"])
        for first in range(0, count, AT_ONCE):
            handle.add_files(first, min(AT_ONCE, count - first))
        handle.close()

    @abstractmethod
    def open(self, directory: Path) -> Handle:
        """The table in ``directory``, with nothing kept from earlier handles."""

    def open_metered(self, directory: Path) -> Handle | None:
        """``open`` with a count of the requests made;

        None if the peer has no such count. Timed only where the counting takes no notable part.
        """
        return None

    def commands(self, directory: Path) -> Mapping[str, Sequence[str]]:
        """Programs to start, by metric:

        ``query_ms`` counts the rows of the table and prints how many they are.
        """
        raise Unsupported(f"{self.name} has no program to start")
