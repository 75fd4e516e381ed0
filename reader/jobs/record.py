"""What the bucket holds of a job, as values and as bytes.

Rules:
- A record is JSON with ``format: 1``; what does not parse is Corrupt and names its key, and is
  never guessed.
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
"""What another value of a request does not make another wish: a repeat comes later, at another
version."""


class Kind(StrEnum):
    """What a job does."""

    QUERY = "query"
    """Answer SQL into a file."""
    DOWNLOAD = "download"
    """Write the rows of one table into a file."""
    UPLOAD = "upload"
    """Append the rows of a file to one table."""


class State(StrEnum):
    """How far a job is; the last three are for good."""

    QUEUED = "queued"
    RUNNING = "running"
    CANCELLING = "cancelling"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Whether nothing will happen any more."""
        return self in (State.DONE, State.FAILED, State.CANCELLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What was asked for, by whom, and what they may read."""

    kind: Kind
    owner: str
    """The fingerprint of the token that asked; only it, while it may, and an admin's sees the
    job."""
    created_ms: int
    form: str
    """The form of the result, or of the file that was brought."""
    allowed: tuple[str, ...] | None = None
    """The tables that the asker may use; None for all."""
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
    """Of an upload: the version at which its table was looked at; 0 in records that do not say."""
    table_commit: str = ""
    """The commit id of that version: what tells the table from another that was made anew under its
    name."""

    def same_wish(self, other: Request) -> bool:
        """Whether two requests ask for the same: the moment, the place of the input and what the
        table was then aside; and of uploads, which name the one table that they touch, what else
        the asker might use. A repeat that is refused sends its rows again."""
        mine, theirs = _wish(self), _wish(other)
        return mine == theirs

    def dump(self) -> bytes:
        return _dump(self)

    @classmethod
    def load(cls, data: bytes, key: str) -> Request:
        return _load(data, key, _request)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How much is done; ``bytes_total`` is 0 where nobody knows."""

    rows: int = 0
    bytes: int = 0
    bytes_total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The claim of one attempt. It lives as long as it changes: the holder raises ``beat``."""

    attempt: int
    holder: str
    beat: int
    progress: Progress = Progress()
    released: bool = False
    """The holder has let go of it, and nothing of its attempt runs any more: it may be followed at
    once."""

    def dump(self) -> bytes:
        return _dump(self)

    @classmethod
    def load(cls, data: bytes, key: str) -> Lease:
        return _load(data, key, _lease)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a job failed: a kind for programs, a sentence for people, and what was wrong with a
    line."""

    error: str
    message: str
    detail: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The file that a query or a download made."""

    key: str
    bytes: int
    rows: int
    versions: Mapping[str, int] = field(default_factory=dict)
    tables: tuple[str, ...] | None = None
    """Every table that was read, also those without an index, which have no version;

    None in records that do not say.
    """


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
    """Of an upload: the block, its version and its rows."""

    def dump(self) -> bytes:
        return _dump(self)

    @classmethod
    def load(cls, data: bytes, key: str) -> Outcome:
        return _load(data, key, _outcome)


def _wish(request: Request) -> dict[str, Any]:
    document = orjson.loads(_dump(request))
    other = _MOMENTARY | {"allowed"} if request.kind is Kind.UPLOAD else _MOMENTARY
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
                f"{key} has format {written}, and this release reads {_FORMAT}: upgrade the "
                "gateways"
            )
        return build(document)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Corrupt(
            f"{key} is no record of a job ({type(error).__name__}: {error}): remove the job's "
            "records, or restore "
            "them from a copy"
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
