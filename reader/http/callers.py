"""Access control of every route: who the caller is, and which scopes it has."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.problems import Problem
from blockstore.reader.http.tokens import Caller, Scope

_bearer = HTTPBearer(auto_error=False, description="A token made by `blockstore token`.")


def _here(request: Request) -> Gateway:
    gateway: Gateway = request.app.state.gateway
    return gateway


Here = Annotated[Gateway, Depends(_here)]
"""The gateway."""


def _known(
    request: Request,
    gateway: Here,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)],
) -> Caller:
    caller = gateway.tokens.caller(request.headers.get("authorization"))
    if caller is None:
        raise Problem(
            401,
            "the token is missing or unknown: send Authorization: Bearer with a token made by "
            "`blockstore token`",
            headers={"WWW-Authenticate": "Bearer"},
        )
    request.scope["caller"] = caller.name
    return caller


Known = Annotated[Caller, Depends(_known)]
"""A caller with a known token."""


def check_scope(caller: Caller, scope: Scope) -> None:
    """Refuse a caller whose token lacks the scope (403)."""
    if not caller.may(scope):
        raise Problem(403, f"the token {caller.name!r} lacks scope '{scope}': use one that has it")


def _reading(caller: Known) -> Caller:
    check_scope(caller, Scope.READ)
    return caller


Reading = Annotated[Caller, Depends(_reading)]
"""A caller that may read."""
