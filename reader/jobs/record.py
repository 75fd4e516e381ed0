"""The records of a job in the bucket, as values and as bytes.

Rules:
- A record is JSON with ``format: 1``. One that cannot be parsed raises Corrupt with its key; its
  content is never guessed.
- Times in records are for people. No decision compares one with the clock of another machine.
- A request never changes; a lease is written only by the holder of its attempt; an outcome is
  created if absent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import orjson

from blockstore.errors import Corrupt, NewerFormat

_FORMAT = 1
_MOMENTARY = frozenset({"created_ms", "input_key", "table_version", "table_commit"})
"""Fields that may differ between a request and its repetition, which comes later and at another
version."""

_NEWEST = ("what", "row_ids")

CALL = "call"
"""``what`` of a job that carries out a CALL."""


class Kind(StrEnum):
    """What a job does."""

    QUERY = "query"
    """Write the result of SQL to a file."""
    DOWNLOAD = "download"
    """Write the rows of one table to a file."""
    UPLOAD = "upload"
    """Write the rows of a file to one table."""
    ROWS = "rows"
    """Change given rows of one table."""
    TABLE = "table"
    """Create, alter, drop or bring back a table."""
    STATEMENT = "statement"
    """Change rows of one table by SQL, or CALL what goes back to others."""

    @property
    def writes(self) -> bool:
        """Whether the job changes a table (which scope it needs: ``http/job_visibility.py``)."""
        return self in (Kind.UPLOAD, Kind.ROWS, Kind.TABLE, Kind.STATEMENT)


class State(StrEnum):
    """The state of a job; the last three are final."""

    QUEUED = "queued"
    RUNNING = "running"
    CANCELLING = "cancelling"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Whether the state is final."""
        return self in (State.DONE, State.FAILED, State.CANCELLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a job is to do, who submitted it, and what it may read."""

    kind: Kind
    owner: str
    """The fingerprint of the token that submitted the job (``http/job_visibility.py``)."""
    created_ms: int
    form: str
    """The form of the result, or of the uploaded file."""
    allowed: tuple[str, ...] | None = None
    """The tables that the owner may use; None for all."""
    sql: str | None = None
    table: str | None = None
    version: int | None = None
    as_of: int | None = None
    tag: str | None = None
    limit: int | None = None
    input_key: str | None = None
    input_bytes: int = 0
    input_sha256: str | None = None
    nulls: tuple[str, ...] = ()
    message: str = ""
    table_version: int = 0
    """Of an upload: the version of its table at submission; 0 in old records."""
    table_commit: str = ""
    """The commit id of that version: it distinguishes the table from a later one of the same
    name."""
    what: str = ""
    """What exactly is done: of rows, of a table, or with the rows of a file."""
    row_ids: bool = False
    """Whether the result begins with the ids and versions of its rows."""

    def same_as(self, other: Request) -> bool:
        """Whether two requests want the same. The time, the key of the input and the table's
        version do not count; for an upload, which names its only table, neither do the other tables
        of the owner. A repetition that is refused would send its rows again."""
        return _lasting(self) == _lasting(other)

    def dump(self) -> bytes:
        """The record; the newest fields only where they say something, so that gateways of the
        release before read it."""
        document = orjson.loads(_dump(self))
        for name in _NEWEST:
            if not document[name]:
                del document[name]
        return orjson.dumps(document)

    @classmethod
    def load(cls, data: bytes, key: str) -> Request:
        return _load(data, key, _request)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How much is done; ``bytes_total`` is 0 if it is unknown."""

    rows: int = 0
    bytes: int = 0
    bytes_total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The claim of one attempt. It is alive as long as it changes: its holder raises ``beat``."""

    attempt: int
    holder: str
    beat: int
    progress: Progress = Progress()
    released: bool = False
    """The holder gave it up and its attempt has ended: the next attempt may start at once."""

    def dump(self) -> bytes:
        return _dump(self)

    @classmethod
    def load(cls, data: bytes, key: str) -> Lease:
        return _load(data, key, _lease)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a job failed: a kind for programs, a sentence for people, and details of a bad line."""

    error: str
    message: str
    detail: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The file of a query or a download."""

    key: str
    bytes: int
    rows: int
    versions: Mapping[str, int] = field(default_factory=dict)
    tables: tuple[str, ...] | None = None
    """Every table that was read, also those without an index, which have no version; None in old
    records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a job ended."""

    state: State
    attempt: int
    ended_ms: int
    progress: Progress = Progress()
    failure: Failure | None = None
    result: Result | None = None
    written: Mapping[str, object] | None = None
    """Of a job that writes: the version, the block, and the rows."""

    def dump(self) -> bytes:
        return _dump(self)

    @classmethod
    def load(cls, data: bytes, key: str) -> Outcome:
        return _load(data, key, _outcome)


def _lasting(request: Request) -> dict[str, Any]:
    document = orjson.loads(_dump(request))
    other = _MOMENTARY | {"allowed"} if request.kind.writes else _MOMENTARY
    return {name: value for name, value in document.items() if name not in other}


def _dump(value: object) -> bytes:
    """A dataclass as JSON, its format first."""
    return b'{"format":1,' + orjson.dumps(value)[1:]


def _load(data: bytes, key: str, build: Callable[[dict[str, Any]], Any]) -> Any:
    try:
        document = orjson.loads(data)
        written = document.pop("format")
        if isinstance(written, int) and written > _FORMAT:
            raise NewerFormat(
                f"{key} has format {written}, and this release reads format {_FORMAT}: upgrade the "
                "gateways"
            )
        return build(document)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Corrupt(
            f"{key} is not a valid record of a job ({type(error).__name__}: {error}): remove the "
            "job's records, or restore them from a copy"
        ) from None


def _request(document: dict[str, Any]) -> Request:
    document["kind"] = Kind(document["kind"])
    allowed = document["allowed"]
    document["allowed"] = None if allowed is None else tuple(allowed)
    document["nulls"] = tuple(document["nulls"])
    return Request(**document)


def _lease(document: dict[str, Any]) -> Lease:
    document["progress"] = Progress(**document["progress"])
    return Lease(**document)


def _outcome(document: dict[str, Any]) -> Outcome:
    document["state"] = State(document["state"])
    document["progress"] = Progress(**document["progress"])
    if document["failure"] is not None:
        document["failure"] = Failure(**document["failure"])
    if document["result"] is not None:
        document["result"] = _result(document["result"])
    return Outcome(**document)


def _result(document: dict[str, Any]) -> Result:
    tables = document.get("tables")
    return Result(**{**document, "tables": None if tables is None else tuple(tables)})
