"""Failures of a loop, classed by what the process does about them. Pure, except for the jitter
that is passed in.

- **retry**: the store, the network or the disk fails, or another operation interfered. The loop
  retries, with growing waits. A person need not act unless the failure persists.
- **degraded**: the table cannot be worked on as it is (its index is damaged, access is denied, a
  release is too old). The loop retries as well, but a person must look. Other tables continue.
- **fatal**: an invariant of the protocol is broken, or another process holds the role. Nothing may
  be written any more: the process ends.

A damaged block is not a failure of a loop: it is quarantined, and the loop continues
(``keeper.py``).
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
    TableDropped,
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
    """One failure: its class, the message, and what to do."""

    kind: FailureKind
    problem: str
    fix: str


def classify(error: BaseException, url: str) -> Failure:
    """Class an error that a loop over the table at ``url`` raised."""
    kind, fix = _judged(error, url)
    text = " ".join(str(error).split())
    return Failure(kind=kind, problem=text or type(error).__name__, fix=fix)


def backoff_s(failures: int, ids: Ids, *, first_s: float, most_s: float) -> float:
    """The wait after ``failures`` failures in a row: it doubles from ``first_s`` to ``most_s``;
    half of it is jitter."""
    wait_s = min(most_s, first_s * 2.0 ** min(failures - 1, 62))
    return ids.uniform(wait_s / 2, wait_s)


def _judged(error: BaseException, url: str) -> tuple[FailureKind, str]:
    verify = f"blockstore verify {url} --deep"
    match error:
        case Fenced():
            return (
                FailureKind.FATAL,
                "run one compactor per table, or let the newer one work; this one may be restarted",
            )
        case BoundaryLost():
            return FailureKind.FATAL, f"stop all writers, then: blockstore index rebuild {url}"
        case NoSpace():
            return FailureKind.RETRY, "free space where the message says; it is retried"
        case NoWorkDirectory():
            return FailureKind.RETRY, "fix the folder that the message names; it is retried"
        case Unavailable() | Indeterminate() | Conflict() | TableDropped():
            return FailureKind.RETRY, "nothing, unless it persists: it is retried"
        case AccessDenied():
            return (
                FailureKind.DEGRADED,
                (
                    "give the process credentials that may read, write and delete there; it is "
                    "retried"
                ),
            )
        case NewerFormat() | MissingExtra():
            return (
                FailureKind.DEGRADED,
                "install what the message names, and restart the process",
            )
        case NotFound():
            return (
                FailureKind.DEGRADED,
                f"check whether the table still exists: blockstore verify {url}",
            )
        case Corrupt():
            return FailureKind.DEGRADED, verify
        case Invalid():
            return (
                FailureKind.DEGRADED,
                "change what the message names, and restart the process",
            )
        case OSError(errno=errno.ENOSPC):
            return FailureKind.RETRY, "free space in the work directory; it is retried"
        case OSError():
            return (
                FailureKind.RETRY,
                "check this machine: its disk, its limits; it is retried",
            )
        case MemoryError():
            return (
                FailureKind.RETRY,
                "lower memory in the configuration, or give the process more; it is retried",
            )
    return (
        FailureKind.DEGRADED,
        "report it with the traceback in the log; the other loops and tables continue",
    )
