"""Prepared statements and tickets: what a client carries from one call to the next.

A handle contains what it represents: the text, the values of its parameters, and in a ticket the
versions to read. So the gateway keeps nothing for a client, a prepared statement survives a
restart, and any gateway of the lake takes what another made. A handle gives no permission: the
token of the call that brings it does.

Rules:
- A ticket reads the versions that its query named when it was made, however often it is taken, and
  until it expires.
- A handle from a stranger is checked like any request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from blockstore.client.parameters import sendable
from blockstore.errors import Invalid
from blockstore.reader.doors.queries import Asked
from blockstore.reader.forms.parameters import from_json
from blockstore.reader.query.task import Parameters
from blockstore.reader.tables import At

_KNOWN = b"blockstore1:"
_UNKNOWN = "the handle is not one that this gateway makes: prepare the statement again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A prepared statement, perhaps with the values of its parameters."""

    sql: str
    parameters: Parameters = None

    def dump(self) -> bytes:
        """The handle. Raises Invalid for a value that no statement takes."""
        return _KNOWN + orjson.dumps({"sql": self.sql, "parameters": sendable(self.parameters)})

    @classmethod
    def load(cls, handle: bytes) -> Statement:
        """The statement of a handle. Raises Invalid."""
        found = _loaded(handle)
        return cls(sql=found["sql"], parameters=from_json(found["parameters"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """A query that may be run until a moment."""

    sql: str
    parameters: Parameters
    versions: Mapping[str, int]
    """The versions of the tables that it reads; a table without an index has none."""
    until_ms: int

    @property
    def asked(self) -> Asked:
        """The query. Raises Invalid for versions that are none."""
        at = {name: At(version=version) for name, version in self.versions.items()}
        return Asked(sql=self.sql, parameters=self.parameters, at=at or At())

    def dump(self) -> bytes:
        """The handle. Raises Invalid for a value that no statement takes."""
        return _KNOWN + orjson.dumps(
            {
                "sql": self.sql,
                "parameters": sendable(self.parameters),
                "versions": dict(self.versions),
                "until": self.until_ms,
            }
        )

    @classmethod
    def load(cls, handle: bytes, now_ms: int) -> Ticket:
        """The ticket of a handle. Raises Invalid, also for one that has expired."""
        found = _loaded(handle)
        versions, until_ms = found.get("versions"), found.get("until")
        if not isinstance(versions, dict) or not isinstance(until_ms, int):
            raise Invalid(_UNKNOWN)
        if not all(type(one) is int and 0 < one < 2**63 for one in versions.values()):
            raise Invalid(_UNKNOWN)
        if now_ms > until_ms:
            raise Invalid("the ticket has expired: run the query again")
        parameters = from_json(found["parameters"])
        return cls(sql=found["sql"], parameters=parameters, versions=versions, until_ms=until_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A statement that has changed rows, for a client that takes the ticket of a query."""

    count: int | None

    def dump(self) -> bytes:
        """The handle."""
        return _KNOWN + orjson.dumps({"sql": "", "count": self.count})


def taken(handle: bytes, now_ms: int) -> Ticket | Done:
    """What a ticket is for. Raises Invalid."""
    found = _loaded(handle)
    if "count" not in found:
        return Ticket.load(handle, now_ms)
    count = found["count"]
    if count is not None and not (type(count) is int and 0 <= count < 2**63):
        raise Invalid(_UNKNOWN)
    return Done(count=count)


def _loaded(handle: bytes) -> dict[str, Any]:
    try:
        if not handle.startswith(_KNOWN):
            raise Invalid(_UNKNOWN)
        found = orjson.loads(handle[len(_KNOWN) :])
    except orjson.JSONDecodeError:
        raise Invalid(_UNKNOWN) from None
    if not isinstance(found, dict) or not isinstance(found.get("sql"), str):
        raise Invalid(_UNKNOWN)
    if not isinstance(found.setdefault("parameters", None), dict | list | None):
        raise Invalid(_UNKNOWN)
    return found
