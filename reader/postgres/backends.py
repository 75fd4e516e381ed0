"""The sessions of one Postgres door, by the numbers that clients know them by: who cancels what one
runs, and who ends one.

Rules:
- A cancel request of the protocol needs the session's secret; a wrong one is ignored.
- ``pg_cancel_backend``, ``pg_terminate_backend`` and ``pg_stat_activity`` reach the sessions of the
  caller's own token or person; with the scope ``admin``, all. Another session is as one that there
  is not: false.
- What these two do is done when their rows are made, never when a statement is only prepared. So
  they are columns of a SELECT, and nothing else.
"""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from blockstore.reader.http.tokens import Caller, Scope
from blockstore.reader.postgres.states import FEATURE, NO_FUNCTION, Refused

_ENDING = {"pg_cancel_backend": False, "pg_terminate_backend": True}
_MOST_ARGUMENTS = {"pg_cancel_backend": 1, "pg_terminate_backend": 2}
"""A timeout may follow the number: a session ends as soon as nothing runs in it, with it or not."""


@dataclass(kw_only=True, eq=False)
class Backend:
    """One session that is signed in."""

    process: int
    caller: Caller
    secret: bytes
    user: str
    database: str
    cancel: Callable[[], None] = lambda: None
    """Stops what it runs; for any thread."""
    end: Callable[[], None] = lambda: None
    """Ends it once nothing runs in it; for any thread."""
    doing: str = ""
    """The last statement."""
    active: bool = False
    """Whether it runs now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """A column whose numbers are sessions to be cancelled or ended."""

    place: int
    name: str
    ends: bool


class Backends:
    """The sessions of a door; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[int, Backend] = {}
        self._last = 0

    def enter(self, caller: Caller, secret: bytes, user: str, database: str) -> Backend:
        """A new session, until ``leave``."""
        with self._lock:
            self._last += 1
            made = Backend(
                process=self._last, caller=caller, secret=secret, user=user, database=database
            )
            self._running[made.process] = made
        return made

    def leave(self, one: Backend) -> None:
        """The session has ended."""
        with self._lock:
            self._running.pop(one.process, None)

    def all(self) -> list[Backend]:
        """The sessions now."""
        with self._lock:
            return list(self._running.values())

    def of(self, caller: Caller) -> Iterator[Backend]:
        """The sessions that a caller reaches."""
        for one in self.all():
            if caller.may(Scope.ADMIN) or _same(one.caller, caller):
                yield one

    def cancel_by(self, process: int, secret: bytes) -> None:
        """Cancel what a session runs, by its secret."""
        for one in self.all():
            if one.process == process and hmac.compare_digest(one.secret, secret):
                one.cancel()

    def carry_out(self, caller: Caller, endings: Sequence[Ending], rows: pa.Table) -> pa.Table:
        """The rows, with what was done instead of the numbers."""
        reached = {one.process: one for one in self.of(caller)}
        for ending in endings:
            done = []
            for process in rows.column(ending.place).to_pylist():
                found = reached.get(process)
                if found is not None:
                    found.cancel()
                    if ending.ends:
                        found.end()
                done.append(None if process is None else found is not None)
            field = pa.field(ending.name, pa.bool_())
            rows = rows.set_column(ending.place, field, pa.array(done, pa.bool_()))
        return rows


def shown(schema: pa.Schema, endings: Sequence[Ending]) -> pa.Schema:
    """The columns as ``carry_out`` leaves them."""
    for ending in endings:
        schema = schema.set(ending.place, pa.field(ending.name, pa.bool_()))
    return schema


def endings_of(tree: exp.Expression) -> tuple[Ending, ...]:
    """The columns of a query that cancel or end sessions, which become the numbers of these. Raises
    Refused for a call elsewhere."""
    found = []
    columns = tree.expressions if isinstance(tree, exp.Select) else []
    for place, column in enumerate(columns):
        call = column.unalias()
        call = call.expression if isinstance(call, exp.Dot) else call
        if not _ends(call):
            continue
        if any(one.is_star for one in columns):
            raise Refused(FEATURE, f"{call.name} is no column next to *: name the columns")
        given, most = len(call.expressions), _MOST_ARGUMENTS[call.name.lower()]
        if not 1 <= given <= most:
            raise Refused(
                NO_FUNCTION,
                f"the function {call.name} with {given} arguments does not exist: it takes the "
                "number of a session",
            )
        name = column.alias or call.name.lower()
        found.append(Ending(place=place, name=name, ends=_ENDING[call.name.lower()]))
        number = exp.cast(call.expressions[0].copy(), "bigint")
        column.replace(exp.alias_(number, name, quoted=True))
    other = next((one for one in tree.find_all(exp.Anonymous) if _ends(one)), None)
    if other is not None:
        raise Refused(FEATURE, f"{other.name} is a column of a SELECT here, and nothing else")
    return tuple(found)


def _ends(node: object) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() in _ENDING


def _same(one: Caller, other: Caller) -> bool:
    return (one.fingerprint, one.person) == (other.fingerprint, other.person)
