"""How a job that failed says so: one sentence each, with what to do."""

from __future__ import annotations

from blockstore.errors import BlockstoreError
from blockstore.reader.jobs.record import Failure


def failure_of(error: BlockstoreError) -> Failure:
    """An error that says all by itself."""
    return Failure(error=type(error).__name__, message=_line(error))


def internal(error: Exception) -> Failure:
    """A fault of ours, of which the asker is told no more than its kind."""
    return Failure(
        error="internal",
        message=f"an internal error ({type(error).__name__}): see the gateway's log",
    )


def overtime(limit_s: float) -> Failure:
    """The job took longer than one may."""
    return Failure(
        error="overtime",
        message=f"the job took more than {limit_s:g} s, which is the limit: ask for less at a time",
    )


def given_up(attempts: int) -> Failure:
    """So many gateways began the job, and none ended it."""
    return Failure(
        error="given_up",
        message=f"{attempts} gateways began this job and none ended it: look into their logs, ask "
        "for less at a time, and "
        "ask again",
    )


def unsettled(failure: Failure | None, error: BlockstoreError) -> Failure:
    """The job failed (None: it was cancelled), and what its attempts wrote is not known."""
    why = "it was cancelled" if failure is None else failure.message
    return Failure(
        error="unsettled",
        message=f"{why}; and whether an earlier attempt wrote its rows cannot be made sure of: "
        f"{_line(error)}",
    )


def _line(error: BlockstoreError) -> str:
    return " ".join(str(error).split())
