"""Blockstore: tables on object storage without any coordination.

``create`` and ``open`` return a ``Table``; ``build`` makes a finished block in a folder, to be
shipped later; ``Job`` names a write that must happen once; the errors are those of
``blockstore.errors``, grouped by what the caller does next.

What needs Arrow is loaded at its first use, so that ``blockstore --help`` responds at once.
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
    from blockstore.operations.append import AppendedBlock
    from blockstore.operations.diff import Diff
    from blockstore.operations.results import Changed, Restored, Reverted
    from blockstore.scan.view import Scan, TableSnapshot
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
    "TableSnapshot",
    "Throttled",
    "Unanswered",
    "Unavailable",
    "VersionExpired",
    "build",
    "create",
    "open",
]

__getattr__ = lazy(
    __name__,
    {
        ".care.ship.build": ("build",),
        ".client.client": ("Client",),
        ".format.block": ("Job",),
        ".operations.results": ("Changed", "Restored", "Reverted"),
        ".operations.append": ("AppendedBlock",),
        ".operations.diff": ("Diff",),
        ".scan.view": ("Scan", "TableSnapshot"),
        ".table": ("Table", "create", "open"),
    },
)


def __dir__() -> list[str]:
    return __all__
