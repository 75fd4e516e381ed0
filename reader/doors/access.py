"""Who a caller is, by the token that it presents, and which scopes it has."""

from __future__ import annotations

from blockstore.reader.audit import running
from blockstore.reader.http.gateway import Gateway
from blockstore.reader.http.problems import Problem, Refusal
from blockstore.reader.http.tokens import Caller, Scope


def caller_of(gateway: Gateway, authorization: str | None) -> Caller:
    """The caller with this value of an Authorization header, ``Bearer TOKEN``: the statement that
    runs is its own. Raises Refusal for a token that is unknown, expired or revoked, Busy for one
    that was sent its bytes of today, and Problem 503 where statements cannot be audited."""
    gateway.audit.check()
    try:
        caller = gateway.gate.caller(authorization)
    except Refusal as error:
        if error.token is not None:
            running().is_of(error.token)
        raise
    running().is_of(caller.name, gateway.quotas.counting(caller), caller.person)
    gateway.quotas.check_bytes(caller)
    return caller


def check_still(gateway: Gateway, caller: Caller) -> None:
    """Refuse a caller of an open connection whose token is no longer what it was. Raises Refusal,
    and Problem 503 as ``caller_of``."""
    gateway.audit.check()
    gateway.gate.check(caller)


def check_scope(caller: Caller, scope: Scope) -> None:
    """Refuse a caller whose token lacks the scope. Raises Problem 403."""
    if not caller.may(scope):
        raise Problem(403, f"the token {caller.name!r} lacks scope '{scope}': use one that has it")
