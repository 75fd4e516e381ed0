"""One statement as the audit log has it, from its begin to its end.

Rules:
- It has one line, written at its first end; later ends are ignored.
- Text is cut after ``MOST_TEXT`` characters, and a line says how long it was. What looks like a
  token is replaced. Values of parameters are never in it.
- A line is ASCII without control characters, whatever the text contains.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum

from blockstore.clock import Clock
from blockstore.reader.errors import Busy, Canceled, Restricted
from blockstore.reader.http.problems import Problem

MOST_TEXT = 8_192
"""So many characters of a text are kept."""
_MOST_WHY = 1_000
_TOKEN = re.compile(r"bsk_[0-9A-Za-z_]{4,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*")
_REFUSED = frozenset({401, 403, 429})
_LEFT = frozenset({408, 499})


class Outcome(StrEnum):
    """What came of a statement."""

    OK = "ok"
    ACCEPTED = "accepted"
    """It is a job that has not ended yet: the line of the job has its end."""
    ERROR = "error"
    REFUSED = "refused"
    """The token, its scopes, a policy or a limit did not permit it: nothing was run."""
    CANCELLED = "cancelled"
    """The client cancelled it or left, or the gateway stopped."""


def outcome_of(error: BaseException) -> Outcome:
    """What an error means for a statement."""
    status = error.status_code if isinstance(error, Problem) else None
    if status in _REFUSED or isinstance(error, Busy | Restricted):
        return Outcome.REFUSED
    if status in _LEFT or isinstance(error, Canceled):
        return Outcome.CANCELLED
    return Outcome.ERROR


class Statement:
    """A statement that was begun. Any thread may add to it and end it."""

    def __init__(
        self,
        *,
        key: str,
        door: str,
        clock: Clock,
        write: Callable[[Statement, dict[str, object]], None],
        token: str | None = None,
        request: str = "",
        text: str | None = None,
        asked: str = "",
    ) -> None:
        self.key = key
        self.door = door
        self.token = token
        self.request = request
        """What of the protocol it is, such as ``POST /v1/query``."""
        self.text = text
        self.asked = asked
        """The id of the request, as the client and the log have it."""
        self.counts = False
        """Whether it is one for the log: a look at a list of tables is none."""
        self._clock = clock
        self._write = write
        self._begun_ms = clock.now_ms()
        self._begun_s = clock.monotonic_s()
        self._lock = threading.Lock()
        self._over = False
        self._read: dict[str, int | None] = {}
        self._policies: dict[str, str] = {}
        self._committed: dict[str, int] = {}
        self._count: Callable[[int], None] | None = None
        self._person: tuple[str, str] | None = None
        self._rows = 0
        self._bytes = 0
        self._job: str | None = None
        self._failure: tuple[Outcome, str] | None = None

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self._over

    def is_of(
        self,
        token: str | None,
        count: Callable[[int], None] | None = None,
        person: tuple[str, str] | None = None,
    ) -> None:
        """From now on it is a statement of this token, and is written; ``count`` is called with the
        bytes that it gives. ``person`` are the issuer and the subject of a person's token: names
        may change, and two people may have one."""
        self.token, self.counts, self._count, self._person = token, True, count, person

    def leaves(self) -> None:
        """Another gateway has it, with its token: it is written and counted there."""
        self.counts, self._count = False, None

    def reads(
        self,
        versions: Mapping[str, int | None],
        policies: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """It reads these versions of tables, of which ``policies`` have restricted some."""
        self._read.update(versions)
        self._policies.update({name: ", ".join(some) for name, some in (policies or {}).items()})

    @property
    def given(self) -> tuple[int, int]:
        """The rows and the bytes that the client was given so far."""
        return self._rows, self._bytes

    def commits(self, table: str | None, version: object) -> None:
        """It has made a version of a table."""
        if table is not None and isinstance(version, int):
            self._committed[table] = version

    def runs_as(self, job: str) -> None:
        """It is a job."""
        self._job = job

    def gives(self, *, rows: int = 0, size: int = 0) -> None:
        """The client is given so much more."""
        self._rows += rows
        self._bytes += size
        if self._count is not None:
            self._count(size)

    def failed(self, error: BaseException, why: str = "") -> None:
        """It will end with this error; ``why`` is the client's sentence."""
        self._failure = self._failure or (outcome_of(error), why or str(error))

    def end(self, outcome: Outcome = Outcome.OK, why: str = "") -> None:
        """It has ended: as it failed, or else so. Not for the second time."""
        with self._lock:
            if self._over:
                return
            self._over = True
        if self._failure is not None:
            outcome, why = self._failure
        self._write(self, self._line(outcome, why) if self.counts else {})

    def end_with(self, error: BaseException, why: str = "") -> None:
        """It has ended with an error."""
        self.failed(error, why)
        self.end()

    @contextmanager
    def current(self) -> Iterator[None]:
        """It is the one that is ``running`` in this block."""
        mark = _running.set(self)
        try:
            yield
        finally:
            _running.reset(mark)

    def _line(self, outcome: Outcome, why: str) -> dict[str, object]:
        text = None if self.text is None else shown_text(self.text)
        found: dict[str, object] = {
            "event": "statement",
            "id": self.key,
            "began_ms": self._begun_ms,
            "seconds": round(self._clock.monotonic_s() - self._begun_s, 6),
            "token": self.token,
            "issuer": None if self._person is None else self._person[0],
            "subject": None if self._person is None else self._person[1],
            "door": self.door,
            "request": _TOKEN.sub("bsk_…", self.request[:_MOST_WHY]),
            "request_id": self.asked,
            "statement": text,
            "statement_length": None if self.text is None else len(self.text),
            "read": dict(sorted(self._read.items())),
            "policies": dict(sorted(self._policies.items())),
            "committed": dict(sorted(self._committed.items())),
            "rows": self._rows,
            "bytes": self._bytes,
            "job": self._job,
            "outcome": outcome,
            "error": _TOKEN.sub("bsk_…", " ".join(why.split())[:_MOST_WHY]) if why else None,
        }
        return found


def shown_text(text: str) -> str:
    """The beginning of a text, without what looks like a token."""
    return _TOKEN.sub("bsk_…", text[: MOST_TEXT + 80])[:MOST_TEXT]


def line_of(found: Mapping[str, object]) -> bytes:
    """The line of a record."""
    return json.dumps(found, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"


class _Unheard:
    """A clock for what is not written."""

    def now_ms(self) -> int:
        return 0

    def monotonic_s(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        return None


def _nothing(statement: Statement, line: dict[str, object]) -> None:
    return None


_running: ContextVar[Statement | None] = ContextVar("blockstore_statement", default=None)


def running() -> Statement:
    """The statement that runs in this context; one that nothing is written of if none does."""
    return _running.get() or Statement(key="", door="", clock=_Unheard(), write=_nothing)
