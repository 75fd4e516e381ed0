"""Failures of a loop, classed by what the process does about them. Pure, but for the jitter that is
handed in.

- **retry**: the store, the network or the disk fails, or another operation came in between. The
  same again, later and later; nobody needs to do anything, unless it goes on.
- **degraded**: the table cannot be worked on as it is (its index is damaged, access is denied, a
  release is too old). It is tried again as well, but a person must look. The other tables go on.
- **fatal**: an invariant of the protocol is broken, or another process holds the role. Nothing may
  be written any more: the process ends.

A damaged block is no failure of a loop: it is quarantined, and the loop goes on (``keeper.py``).
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from enum import StrEnum

from blockstore.compactor.merge.workdir import NoWorkDirectory
from blockstore.errors import (
    AccessDenied,
    BoundaryLost,
    Conflict,
    Corrupt,
    Fenced,
    Indeterminate,
    Invalid,
    MissingExtra,
    NewerFormat,
    NoSpace,
    NotFound,
    Unavailable,
)
from blockstore.ids import Ids


class FailureKind(StrEnum):
    """What the process does about a failure."""

    RETRY = "retry"
    DEGRADED = "degraded"
    FATAL = "fatal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One failure: its class, what was told, and what to do."""

    kind: FailureKind
    problem: str
    fix: str


def classify(error: BaseException, url: str) -> Failure:
    """The class of an error that a loop over the table at ``url`` raised."""
    kind, fix = _judged(error, url)
    text = " ".join(str(error).split())
    return Failure(kind=kind, problem=text or type(error).__name__, fix=fix)


def backoff_s(failures: int, ids: Ids, *, first_s: float, most_s: float) -> float:
    """How long to wait after so many failures in a row: doubling from ``first_s`` to ``most_s``,
    half of it jitter."""
    wait_s = min(most_s, first_s * 2.0 ** min(failures - 1, 62))
    return ids.uniform(wait_s / 2, wait_s)


def _judged(error: BaseException, url: str) -> tuple[FailureKind, str]:
    verify = f"blockstore verify {url} --deep"
    match error:
        case Fenced():
            return (
                FailureKind.FATAL,
                (
                    "run one compactor a table, or let the newer one work; this one may be started "
                    "again"
                ),
            )
        case BoundaryLost():
            return FailureKind.FATAL, f"stop all writers, then: blockstore index rebuild {url}"
        case NoSpace():
            return FailureKind.RETRY, "free space where the sentence says; it is tried again"
        case NoWorkDirectory():
            return FailureKind.RETRY, "mend the folder that the sentence names; it is tried again"
        case Unavailable() | Indeterminate() | Conflict():
            return FailureKind.RETRY, "nothing, unless it goes on: it is tried again"
        case AccessDenied():
            return (
                FailureKind.DEGRADED,
                (
                    "give the process credentials that may read, write and delete there; it is tried "
                    "again"
                ),
            )
        case NewerFormat() | MissingExtra():
            return (
                FailureKind.DEGRADED,
                "install what the sentence names, and start the process again",
            )
        case NotFound():
            return (
                FailureKind.DEGRADED,
                f"look whether the table is still there: blockstore verify {url}",
            )
        case Corrupt():
            return FailureKind.DEGRADED, verify
        case Invalid():
            return (
                FailureKind.DEGRADED,
                "change what the sentence names, and start the process again",
            )
        case OSError(errno=errno.ENOSPC):
            return FailureKind.RETRY, "free space in the work directory; it is tried again"
        case OSError():
            return (
                FailureKind.RETRY,
                "look at this machine: its disk, its limits; it is tried again",
            )
        case MemoryError():
            return (
                FailureKind.RETRY,
                "lower memory in the configuration, or give the process more; it is tried again",
            )
    return (
        FailureKind.DEGRADED,
        "report it with the traceback in the log; the other loops and tables go on",
    )
