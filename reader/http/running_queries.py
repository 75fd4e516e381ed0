"""The queries that a gateway runs now, at every door, and who may see and cancel each.

Rules:
- A query is here from before it waits for its turn until its last row is sent or it fails.
- A caller sees its own queries, those of the same token or person; with the scope ``admin`` it sees
  all. A query of another caller is unknown to it, as is one that has ended.
- The text is as the audit log shows it: cut, and without what looks like a token. Values of
  parameters are never in it.
- Each gateway knows its own queries only. Jobs have their own list (``job_routes.py``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from blockstore.errors import NotFound
from blockstore.reader.audit import Statement
from blockstore.reader.audit.statement import shown_text
from blockstore.reader.http.tokens import Caller, Scope
from blockstore.world import World


class Progress(StrEnum):
    """How far a query is."""

    STARTING = "starting"
    """It waits for its turn, or is planned."""
    RUNNING = "running"
    CANCELLED = "cancelled"
    """It was cancelled and has not ended yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySeen:
    """A running query at one moment."""

    id: str
    by: str
    """The name of its token or person."""
    own: bool
    door: str
    sql: str
    began_ms: int
    seconds: float
    rows: int
    bytes: int
    """What its client was sent so far."""
    progress: Progress


class RunningQuery:
    """One query, from its begin to its end."""

    def __init__(
        self,
        *,
        key: str,
        caller: Caller,
        sql: str,
        statement: Statement,
        cancel: Callable[[], None],
    ) -> None:
        self.key = key
        self.caller = caller
        self.sql = shown_text(sql)
        self.statement = statement
        self.cancel = cancel
        self.began_ms = 0
        self.began_s = 0.0
        self.progress = Progress.STARTING


class RunningQueries:
    """All of them; safe to share between threads."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._lock = threading.Lock()
        self._known: dict[str, RunningQuery] = {}

    def began(
        self, caller: Caller, sql: str, statement: Statement, cancel: Callable[[], None]
    ) -> RunningQuery:
        """A query begins; ``cancel`` stops it from any thread. Its id is that of its line in the
        audit log, where it is the first query of the statement."""
        clock = self._world.clock
        with self._lock:
            free = statement.key and statement.key not in self._known
            key = statement.key if free else self._world.ids.ulid()
            made = RunningQuery(key=key, caller=caller, sql=sql, statement=statement, cancel=cancel)
            made.began_ms, made.began_s = clock.now_ms(), clock.monotonic_s()
            self._known[key] = made
        return made

    def runs(self, query: RunningQuery) -> None:
        """It has its turn, and its rows come."""
        with self._lock:
            if query.progress is Progress.STARTING:
                query.progress = Progress.RUNNING

    def ended(self, query: RunningQuery) -> None:
        """It has ended; allowed twice."""
        with self._lock:
            self._known.pop(query.key, None)

    def seen_by(self, caller: Caller) -> list[QuerySeen]:
        """The queries that the caller may see, the oldest first."""
        with self._lock:
            found = [one for one in self._known.values() if _sees(caller, one)]
        return [self._seen(caller, one) for one in found]

    def cancel(self, caller: Caller, key: str) -> QuerySeen:
        """Cancel a query that the caller may see. Raises NotFound for all others."""
        with self._lock:
            found = self._known.get(key)
            if found is None or not _sees(caller, found):
                raise NotFound(f"there is no running query {key[:40]}: it may have ended")
            found.progress = Progress.CANCELLED
        found.cancel()
        return self._seen(caller, found)

    def _seen(self, caller: Caller, query: RunningQuery) -> QuerySeen:
        rows, size = query.statement.given
        return QuerySeen(
            id=query.key,
            by=query.caller.name,
            own=_is_own(caller, query),
            door=query.statement.door,
            sql=query.sql,
            began_ms=query.began_ms,
            seconds=round(max(0.0, self._world.clock.monotonic_s() - query.began_s), 3),
            rows=rows,
            bytes=size,
            progress=query.progress,
        )


def _is_own(caller: Caller, query: RunningQuery) -> bool:
    return caller.fingerprint == query.caller.fingerprint


def _sees(caller: Caller, query: RunningQuery) -> bool:
    return _is_own(caller, query) or caller.may(Scope.ADMIN)
