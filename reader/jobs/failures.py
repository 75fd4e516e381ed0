"""The failures of jobs: one sentence each, with what to do."""

from __future__ import annotations

import base64

import pyarrow as pa

from blockstore.errors import BlockstoreError, Conflict, Invalid, NotFound, RowConflict
from blockstore.format.constraints import BrokenRule
from blockstore.format.value_text import value_text
from blockstore.reader.jobs.record import Failure


def failure_of(error: BlockstoreError) -> Failure:
    """The failure for an error whose message is complete. Where the caller is to mend something its
    kind is that of the same error of a request."""
    kinds = {Invalid: "invalid", NotFound: "not_found", Conflict: "conflict"}
    kind = kinds.get(type(error), type(error).__name__)
    return Failure(error=kind, message=_line(error))


def conflict(error: RowConflict, version: int | None = None) -> Failure:
    """Rows were not as the caller expected; the first ones are listed, with the version of the
    table that has them, where one is known: a read of at least that version sees why."""
    rows = [
        {"row": _plain(row), "expected": expected, "found": found}
        for row, expected, found in error.rows
    ]
    detail = {"rows": rows} | ({} if version is None else {"version": version})
    return Failure(error="conflict", message=_line(error), detail=detail)


def broken(error: BrokenRule) -> Failure:
    """A row breaks a rule of a column."""
    detail = {"column": error.column, "value": error.value, "rule": error.rule}
    return Failure(error="bad_row", message=f"{_line(error)}; nothing was written", detail=detail)


def internal(error: Exception) -> Failure:
    """The failure for an internal error; only its type is reported."""
    return Failure(
        error="internal",
        message=f"internal error ({type(error).__name__}): see the gateway's log",
    )


def overtime(limit_s: float) -> Failure:
    """The job exceeded its time limit."""
    return Failure(
        error="overtime",
        message=f"the job exceeded its time limit of {limit_s:g} s: split it into smaller ones",
    )


def given_up(attempts: int) -> Failure:
    """``attempts`` gateways began the job, and none finished it."""
    return Failure(
        error="given_up",
        message=f"{attempts} gateways began this job and none finished it: see their logs, then "
        "submit a smaller job",
    )


def unsettled(failure: Failure | None, error: BlockstoreError) -> Failure:
    """The job failed (None: it was cancelled), and it is unknown what its attempts wrote."""
    why = "it was cancelled" if failure is None else failure.message
    return Failure(
        error="unsettled",
        message=f"{why}; it is unknown whether an earlier attempt wrote its rows: {_line(error)}",
    )


def _plain(key: object) -> object:
    """A row id or a key as JSON has it."""
    if isinstance(key, tuple):
        return [_plain(one) for one in key]
    if isinstance(key, bytes):
        return base64.b64encode(key).decode()
    if isinstance(key, pa.Scalar):
        return value_text(key)
    return key if isinstance(key, str | int | bool) else str(key)


def _line(error: BlockstoreError) -> str:
    return " ".join(str(error).split())
