"""Blockstore: tables on object storage without any coordination.

The problem: many processes on many machines write to one table in a bucket and read it, without a
server or a lock between them.

The mental model: a table is a prefix of a bucket. A write uploads a **block**, a directory of
immutable Parquet chunks with a ``meta.json``; then it commits an **index** entry, a small object
with the next number that exactly one process can create. A **version** of the table is the state
after an entry; a **snapshot** is the set of blocks of one version, which never changes. Compactors
merge blocks and remove what no version needs.

- ``create`` and ``open`` return a ``Table``, which appends, overwrites, deletes, reverts, tags;
  ``drop`` and ``undrop`` take a table away and bring it back.
- ``column``, ``entity``, ``link``, ``file`` and ``typed_schema`` describe columns with rules that
  every row must meet.
- ``Table.snapshot`` returns a ``TableSnapshot``; its ``scan`` returns rows for Arrow, pandas,
  polars or DuckDB.
- ``sql`` runs SQL that reads and writes.
- ``Client`` speaks to a gateway over HTTP; ``build`` makes a finished block in a folder, to be
  shipped later; ``Job`` names a write that must happen once.
- Errors are those of ``blockstore.errors``, grouped by what the caller does next.

Example::

    table = blockstore.open("s3://lake/flights")
    table.append(rows)
    late = table.snapshot().scan(where="dep_delay > 60").to_table()

Names that need Arrow are imported at their first use, so that ``blockstore --help`` is fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from blockstore.errors import (
    AccessDenied,
    AlreadyExists,
    BlockCondemned,
    BlockstoreError,
    BoundaryLost,
    Conflict,
    Contended,
    Corrupt,
    Fenced,
    HistoryReplaced,
    Indeterminate,
    Invalid,
    MissingExtra,
    NewerFormat,
    NoMemory,
    NoSpace,
    NotFound,
    ObjectMissing,
    PreconditionFailed,
    RowConflict,
    SnapshotExpired,
    TableDropped,
    Throttled,
    Unanswered,
    Unavailable,
    VersionExpired,
)
from blockstore.lazy import lazy

if TYPE_CHECKING:
    from blockstore.care.ship.build import build
    from blockstore.client.client import Client
    from blockstore.format.block import Job
    from blockstore.format.column import column, entity, file, link, typed_schema
    from blockstore.operations.append import AppendedBlock
    from blockstore.operations.diff import Diff
    from blockstore.operations.drop import drop, undrop
    from blockstore.operations.results import Changed, Restored, Reverted
    from blockstore.scan.view import Scan, TableSnapshot
    from blockstore.statements import sql
    from blockstore.table import Table, create, open  # noqa: A004

__all__ = [
    "AccessDenied",
    "AlreadyExists",
    "AppendedBlock",
    "BlockCondemned",
    "BlockstoreError",
    "BoundaryLost",
    "Changed",
    "Client",
    "Conflict",
    "RowConflict",
    "SnapshotExpired",
    "Contended",
    "Corrupt",
    "Diff",
    "Fenced",
    "HistoryReplaced",
    "Indeterminate",
    "Invalid",
    "Job",
    "MissingExtra",
    "NewerFormat",
    "NoMemory",
    "NoSpace",
    "NotFound",
    "ObjectMissing",
    "PreconditionFailed",
    "Restored",
    "Reverted",
    "Scan",
    "Table",
    "TableDropped",
    "TableSnapshot",
    "Throttled",
    "Unanswered",
    "Unavailable",
    "VersionExpired",
    "build",
    "column",
    "create",
    "drop",
    "entity",
    "file",
    "link",
    "open",
    "sql",
    "typed_schema",
    "undrop",
]

__getattr__ = lazy(
    __name__,
    {
        ".care.ship.build": ("build",),
        ".client.client": ("Client",),
        ".format.block": ("Job",),
        ".format.column": ("column", "entity", "file", "link", "typed_schema"),
        ".operations.results": ("Changed", "Restored", "Reverted"),
        ".operations.append": ("AppendedBlock",),
        ".operations.diff": ("Diff",),
        ".operations.drop": ("drop", "undrop"),
        ".scan.view": ("Scan", "TableSnapshot"),
        ".statements": ("sql",),
        ".table": ("Table", "create", "open"),
    },
)


def __dir__() -> list[str]:
    return __all__
