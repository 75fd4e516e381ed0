"""Queries that the gateway that caches their table answers, another one of the group.

Rules:
- What is passed on is ``POST /v1/query``, which fills the cache. It goes as it came, with the token
  of its caller: the owner checks, limits, counts and audits it. A caller comes in here first.
- It is passed on once: one with ``PASSED_ON`` is answered where it arrives. The header gives no
  right: a client that sends it is answered as without it, only not from the owner's cache.
- Where the owner does not respond, or declines (503, a table that it does not know yet), the query
  is answered here. One that has begun to be answered is not: its rows would come twice.
- An owner with a queue declines with ``QUEUE`` what was passed on to it, before anything is counted
  or audited: a table in great demand is answered by several gateways.
- The header has the versions of the tables that are known here: the owner answers with none that is
  older. The versions of an answer are known here from then on.
- A client that leaves ends the call, and the owner's query with it.
"""

from __future__ import annotations

import json

from fastapi import Request
from starlette.responses import Response

from blockstore.errors import BlockstoreError, Unavailable
from blockstore.reader.audit import running
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.problems import Problem, response
from blockstore.reader.http.streaming import Patience, Streamed, in_thread, while_waited_for
from blockstore.reader.http.tokens import Caller, Scope
from blockstore.reader.peers import Call, Peers

PASSED_ON = "X-Blockstore-Passed-On"
QUEUE = "X-Blockstore-Queue"
_VERSIONS = "X-Blockstore-Versions"
_SENT = ("Accept", "Authorization", "Content-Type")
_RETURNED = ("Content-Type", "Retry-After", "Vary", "WWW-Authenticate", _VERSIONS)
_MOST_VERSIONS = 4_096


async def passed_on(
    request: Request, gateway: Gateway, caller: Caller, sql: str
) -> Response | None:
    """The response of the gateway that answers the query; None if this one does."""
    peers = gateway.peers
    if peers is None:
        return None
    given = request.headers.get(PASSED_ON)
    if given is not None:
        return await _taken(request, gateway, caller, given)
    if not caller.may(Scope.READ):
        return None
    body, call = await request.body(), Call()
    way = _Way(request, gateway, peers, call)
    try:
        owner = await while_waited_for(request.receive, call, lambda: way.begun(caller, sql, body))
    except BaseException:
        call.cancel()
        call.close()
        if call.sent:
            running().leaves()
        raise
    if owner is None or way.declined(owner):
        return None
    gateway.metrics.of_passed("answered")
    running().leaves()
    headers = {name: value for name in _RETURNED if (value := call.header(name)) is not None}
    if call.status == 200:
        _learn(gateway, headers.get(_VERSIONS, ""))
    if call.whole:
        call.close()
        return Response(call.first, call.status, headers)
    http = gateway.settings.http
    return Streamed(
        call.first,
        call.pieces(),
        call,
        Patience(http.stall_s, http.answer_s),
        media_type=None,
        headers=headers,
        status=call.status,
        whole_bytes=gateway.settings.query.spill_bytes,
    )


class _Way:
    """The way of one query to its owner."""

    def __init__(self, request: Request, gateway: Gateway, peers: Peers, call: Call) -> None:
        self._request = request
        self._gateway = gateway
        self._peers = peers
        self._call = call

    def begun(self, caller: Caller, sql: str, body: bytes) -> str | None:
        """The owner, which has begun to answer; None if this gateway answers."""
        engine = self._gateway.engine
        try:
            tables = engine.reads(sql, allowed=caller.tables, policies=caller.restricted)
        except BlockstoreError:
            return None  # what is wrong with it is said here
        owner = self._peers.owner(tables, self._size)
        if owner is None:
            return None
        known = {name: version for name in sorted(tables) if (version := self._known(name))}
        versions = json.dumps(known, separators=(",", ":"))
        if len(versions) > _MOST_VERSIONS:
            return None
        given = self._request.headers
        headers = {name: value for name in _SENT if (value := given.get(name)) is not None}
        headers |= {PASSED_ON: versions, "X-Request-Id": self._request.scope["request_id"]}
        try:
            self._peers.begin(self._call, owner, "/v1/query", headers, body)
        except Unavailable:
            if self._call.cancelled:
                raise
            self._gateway.metrics.of_passed("unreachable")
            return None
        return owner

    def declined(self, owner: str) -> bool:
        """Whether the owner does not answer the query, so that this gateway does."""
        call = self._call
        unknown = call.status == 404 and _error_of(call.first) == "unknown_table"
        if call.status != 503 and not unknown:
            return False
        queue = call.header(QUEUE) is not None
        self._gateway.metrics.of_passed("queue" if queue else "declined")
        if call.status == 503 and not queue:
            self._peers.members.doubted(owner)
        call.close()
        return True

    def _size(self, name: str) -> int:
        held = self._gateway.tables.held(name)
        return 0 if held is None else held.size_bytes

    def _known(self, name: str) -> int:
        held = self._gateway.tables.held(name)
        return 0 if held is None else held.known


async def _taken(request: Request, gateway: Gateway, caller: Caller, given: str) -> Response | None:
    """None for a query that was passed on to this gateway, or the response that declines it."""
    if gateway.engine.waiting() >= gateway.settings.query.at_once:
        running().leaves()
        problem = Problem(503, "queries wait at this gateway: ask another one")
        found = response(problem, request.scope["request_id"])
        found.headers[QUEUE] = "1"
        return found
    versions = {name: one for name, one in _versions_of(given).items() if caller.sees(name)}

    def catch_up() -> None:
        for name, version in versions.items():
            gateway.tables.catch_up(name, version)

    if versions:
        await in_thread(catch_up)
    return None


def _learn(gateway: Gateway, given: str) -> None:
    for name, version in _versions_of(given).items():
        held = gateway.tables.held(name)
        if held is not None:
            held.hears_of(version)


def _versions_of(given: str) -> dict[str, int]:
    """The versions of a header; none for one that is something else."""
    if len(given) > _MOST_VERSIONS:
        return {}
    try:
        found = json.loads(given)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: version for name, version in found.items() if type(version) is int}


def _error_of(body: bytes) -> str | None:
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return None
