"""Blockstore: tables on object storage without any coordination.

``create`` and ``open`` answer a ``Table``; ``build`` makes a finished block in a folder, to be
shipped later; ``Job`` names a write that must happen once; the errors are those of
``blockstore.errors``, grouped by what the caller does next.

What needs Arrow is loaded at its first use, so that ``blockstore --help`` responds at once.
"""

from __future__ import annotations

import importlib
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

if TYPE_CHECKING:
    from blockstore.care.build import build
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

_LAZY = {
    "AppendedBlock": "blockstore.operations.append",
    "Changed": "blockstore.operations.results",
    "Client": "blockstore.client.client",
    "Diff": "blockstore.operations.diff",
    "Job": "blockstore.format.block",
    "Restored": "blockstore.operations.results",
    "Reverted": "blockstore.operations.results",
    "Scan": "blockstore.scan.view",
    "Table": "blockstore.table",
    "TableSnapshot": "blockstore.scan.view",
    "build": "blockstore.care.build",
    "create": "blockstore.table",
    "open": "blockstore.table",
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module 'blockstore' has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
