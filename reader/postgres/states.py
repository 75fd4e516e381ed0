"""Every error as PostgreSQL reports one: a SQLSTATE, a sentence, and the position in the SQL.

Rules: the message of a project error is passed on. Any other error is ``internal``: it is logged
with its traceback, and the client receives nothing of it.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

from blockstore.errors import (
    AccessDenied,
    AlreadyExists,
    BlockstoreError,
    Conflict,
    Corrupt,
    Indeterminate,
    Invalid,
    NoMemory,
    NotFound,
    RowConflict,
    Unavailable,
)
from blockstore.reader.errors import (
    BadSql,
    Busy,
    Canceled,
    Restricted,
    Stale,
    TimedOut,
    TooMuch,
    UnknownTable,
)
from blockstore.reader.http.problems import Problem
from blockstore.reader.postgres.peer import Terminated
from blockstore.reader.postgres.wire import Malformed, problem

_logger = logging.getLogger(__name__)

SYNTAX, UNKNOWN_TABLE, NO_PRIVILEGE, FEATURE = "42601", "42P01", "42501", "0A000"
BAD_PASSWORD, NO_DATABASE, TOO_MANY, PROTOCOL = "28P01", "3D000", "53300", "08P01"
FAILED, READ_ONLY, IN_TRANSACTION, NOT_IN_TRANSACTION = "25P02", "25006", "25001", "25P01"
BAD_SETTING, NO_STATEMENT, NO_PORTAL, BAD_VALUE = "22023", "26000", "34000", "22P02"
NO_FUNCTION, UNIQUE, NOT_NULL = "42883", "23505", "23502"
NOT_UTF8, CANCELED = "22021", "57014"
SHUTTING_DOWN, NOT_ALLOWED, COPY_FAILED = "57P01", "28000", "22P04"
_KINDS: tuple[tuple[type[BlockstoreError], str], ...] = (
    (Malformed, PROTOCOL),
    (Terminated, SHUTTING_DOWN),
    (TooMuch, "54000"),
    (Restricted, NO_PRIVILEGE),
    (BadSql, SYNTAX),
    (UnknownTable, UNKNOWN_TABLE),
    (NoMemory, "53200"),
    (AlreadyExists, "42P07"),
    (RowConflict, "40001"),
    (Conflict, "40001"),
    (NotFound, "42704"),
    (Invalid, "22000"),
    (AccessDenied, "58000"),
    (Busy, TOO_MANY),
    (Stale, "57P03"),
    (TimedOut, "57014"),
    (Canceled, "57014"),
    (Indeterminate, "08007"),
    (Unavailable, "58000"),
    (Corrupt, "XX001"),
)
_BINDS = (
    ("Referenced column", "42703"),
    ("does not have a column", "42703"),
    ("Function with name", NO_FUNCTION),
    ("No function matches", NO_FUNCTION),
    ("unrecognized privilege type", BAD_SETTING),
    ("learns the rights of its own user", NO_PRIVILEGE),
    ("Division by zero", "22012"),
    ("Could not convert", BAD_VALUE),
    ("Conversion Error", BAD_VALUE),
    ("out of range", "22003"),
    ("of the keys exist already", UNIQUE),
    ("times in these rows, expected each once", UNIQUE),
    ("expected a value because it is declared not null", NOT_NULL),
)
"""What a message says, of the engine or of a change, and the SQLSTATE of that. Clients know by it
that a row is there already; for a conflict they would send the same INSERT again."""
_ABSENT = re.compile(r'(relation|column|schema|database|role) ".*" does not exist')
_NOT_THERE = {"relation": UNKNOWN_TABLE, "column": "42703", "schema": "3F000"}
_NOT_THERE |= {"database": NO_DATABASE, "role": "42704"}
"""What is not there, in PostgreSQL's words, which ``privileges.py`` uses."""
_RAISED = re.compile(
    r"^the SQL cannot be run: Invalid Input Error: "
    r"(?=unrecognized privilege|a session learns|(relation|column|schema|database|role) \")"
)
"""What the engine says before the words of a query's own ``error``."""


class Refused(Invalid):
    """What this door does not do, with the SQLSTATE that says so."""

    def __init__(self, state: str, message: str) -> None:
        super().__init__(message)
        self.state = state


class Ended(Refused):
    """Why a session ends: its token is no longer what it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """An error as a client receives it."""

    state: str
    message: str
    position: int | None = None
    fatal: bool = False

    @property
    def message_bytes(self) -> bytes:
        """The message of the protocol."""
        severity = "FATAL" if self.fatal else "ERROR"
        fields = [("S", severity), ("V", severity), ("C", self.state), ("M", self.message)]
        if self.position is not None:
            fields.append(("P", str(self.position)))
        return problem(fields)


_CONFLICT = 409
_STATUSES = {
    400: "22000",
    401: NOT_ALLOWED,
    403: NO_PRIVILEGE,
    404: "42704",
    _CONFLICT: "40001",
    410: "72000",
    413: "54000",
    422: "53200",
    429: TOO_MANY,
    503: "58000",
    504: "57014",
}
"""The SQLSTATE of what the doors report by an HTTP status."""


def check_cancelled(error: Problem, *, stopped: bool) -> None:
    """Raise Refused for the failure of a job that its own client has stopped: it was cancelled, and
    is no conflict, after which clients send a statement again."""
    if stopped and error.status_code == _CONFLICT:
        raise Refused(CANCELED, str(error.detail)) from error


def reported(error: BaseException, sql: str = "", *, fatal: bool = False) -> Reported:
    """What a client receives for an error."""
    if isinstance(error, Problem):
        message = " ".join(str(error.detail).split())
        own = {"invalid_sql": SYNTAX, "unknown_table": UNKNOWN_TABLE}.get(error.error)
        state = own or _STATUSES.get(error.status_code, "XX000")
        return Reported(state=_bound(message) or state, message=message, fatal=fatal)
    if not isinstance(error, BlockstoreError):
        _logger.error("a statement failed with an internal error", exc_info=error)
        return Reported(state="XX000", message="internal error: see the gateway's log", fatal=fatal)
    message = _RAISED.sub("", " ".join(str(error).split()))
    if isinstance(error, AccessDenied):
        message = "the store refuses this gateway's credentials"
    return Reported(
        state=_state(error, message), message=message, position=_position(error, sql), fatal=fatal
    )


def _state(error: BlockstoreError, message: str) -> str:
    if isinstance(error, Refused):
        return error.state
    if isinstance(error, BadSql):
        return _bound(message) or SYNTAX
    if isinstance(error, RowConflict | Invalid) and (found := _bound(message)):
        return found
    return next((state for kind, state in _KINDS if isinstance(error, kind)), "XX000")


def _bound(message: str) -> str | None:
    """The SQLSTATE of what the engine says of the SQL."""
    absent = _ABSENT.search(message)
    if absent is not None:
        return _NOT_THERE[absent[1]]
    return next((state for text, state in _BINDS if text in message), None)


def _position(error: BaseException, sql: str) -> int | None:
    """The position in the SQL, from 1."""
    if not isinstance(error, BadSql) or error.line is None or not sql:
        return None
    before = sql.split("\n")[: error.line - 1]
    found = sum(len(line) + 1 for line in before) + (error.column or 1)
    return found if found <= len(sql) + 1 else None
