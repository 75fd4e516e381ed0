"""Access control of every route: who the caller is, and which scopes it has.

Rule: the audit log has every request with a known token, but for looks at what there is: lists,
definitions, histories, states of jobs and running queries. A route that is not listed here is
audited.

What is here runs on the event loop, for it looks at memory only: in a thread, each request would
wait for those that wait for the store.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from blockstore.reader.doors.access import caller_of, check_scope, check_still
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.problems import STATEMENT, STILL
from blockstore.reader.http.tokens import Caller, Scope

_bearer = HTTPBearer(auto_error=False, description="A token made by `blockstore token`.")


async def _here(request: Request) -> Gateway:
    gateway: Gateway = request.app.state.gateway
    return gateway


Here = Annotated[Gateway, Depends(_here)]
"""The gateway."""


LOOKS = frozenset(
    {
        "/v1/whoami",
        "/v1/tables",
        "/v1/tables/{table:path}",
        "/v1/tables/{table:path}/blocks",
        "/v1/tables/{table:path}/history",
        "/v1/tables/{table:path}/tags",
        "/v1/tables/{table:path}/timeline",
        "/v1/tables/{table:path}/timeline/block",
        "/v1/jobs",
        "/v1/jobs/{job}",
        "/v1/queries",
        "/v1/config",
        "/v1/namespaces",
        "/v1/namespaces/{namespace}",
        "/v1/namespaces/{namespace}/tables",
    }
)
"""The routes whose GET and HEAD are not audited."""


async def _known(
    request: Request,
    gateway: Here,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)],
) -> Caller:
    caller = caller_of(gateway, request.headers.get("authorization"))
    request.scope["caller"] = caller.name
    request.scope[STILL] = partial(check_still, gateway, caller)
    route = getattr(request.scope.get("route"), "path", "")
    if request.method in ("GET", "HEAD") and route in LOOKS:
        request.scope[STATEMENT].counts = False
    return caller


Known = Annotated[Caller, Depends(_known)]
"""A caller with a known token."""


async def _reading(caller: Known) -> Caller:
    check_scope(caller, Scope.READ)
    return caller


Reading = Annotated[Caller, Depends(_reading)]
"""A caller that may read."""
