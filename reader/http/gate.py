"""The gate of a gateway: by which tokens it goes now, and who may still come in.

Rules:
- Tokens are exchanged as a whole, while the gateway runs; those that could not be read change
  nothing, and the gate says why until some can be read.
- A gateway that began with tokens is never open to all, also when the last one is removed.
- A caller is looked up again for each statement: a token that has expired, was removed or has other
  rights by now is refused on a connection that is open too.
- A token that was removed while the gateway runs is refused by its name; one that was never known
  is not.
"""

from __future__ import annotations

from collections.abc import Iterable

from blockstore.clock import Clock
from blockstore.reader.http.people import People
from blockstore.reader.http.problems import Refusal, UnknownToken
from blockstore.reader.http.tokens import ANYONE, Caller, Token, Tokens, bearer, shown


class Gate:
    """Who may come in; safe to share between threads."""

    def __init__(self, tokens: Iterable[Token], clock: Clock, people: People | None = None) -> None:
        self._clock = clock
        self.people = people or People((), (), clock)
        """Who may come in by the token of an issuer."""
        self._tokens = Tokens(tokens)
        self._removed = Tokens(())
        self.asks = len(self._tokens) > 0 or self.people.any
        """Whether a token is required."""
        self.broken: str | None = None
        """Why newer tokens are not used: they could not be read."""

    def caller(self, header: str | None) -> Caller:
        """The caller with this Authorization header, ``Bearer TOKEN``. Raises Refusal."""
        if not self.asks:
            return ANYONE
        tokens = self._tokens
        token = tokens.presented(header)
        if token is not None:
            self._check(token)
            return token.caller
        person = self.people.caller(bearer(header))
        if person is not None:
            return person
        removed = self._removed.presented(header)
        if removed is not None:
            raise _revoked(removed.name)
        raise UnknownToken(
            "the token is missing or unknown: send Authorization: Bearer with a token made by "
            "`blockstore token`" + (", or of a provider of [issuers]" if self.people.any else "")
        )

    def check(self, caller: Caller) -> None:
        """Refuse a caller who came in before and would not now, or not with the same rights. Raises
        Refusal."""
        if not self.asks:
            return
        token = self._tokens.of(caller) if caller.signed is None else None
        if token is not None:
            self._check(token)
        now = self.people.of(caller) if token is None else token.caller
        if now is None:
            raise _revoked(caller.name)
        if now != caller:
            raise Refusal(
                f"the rights of the token {now.name!r} have changed: connect again",
                token=now.name,
            )

    def left_s(self, caller: Caller) -> float | None:
        """How long the caller's token may still be used; None if it does not expire."""
        token = self._tokens.of(caller)
        if token is None:
            return self.people.left_s(caller)
        if token.expires_ms is None:
            return None
        return max(0.0, (token.expires_ms - self._clock.now_ms()) / 1000)

    def name_of(self, fingerprint: str) -> str | None:
        """The name of a token that is known, or was while the gateway runs."""
        for tokens in (self._tokens, self._removed):
            for one in tokens:
                if one.caller.fingerprint == fingerprint:
                    return one.name
        if fingerprint == ANYONE.fingerprint:
            return ANYONE.name
        return self.people.name_of(fingerprint)

    def most_of(self, fingerprint: str) -> int | None:
        """How many queries a token or person that was known may run at once; None without a limit,
        and for one that never was."""
        for tokens in (self._tokens, self._removed):
            for one in tokens:
                if one.caller.fingerprint == fingerprint:
                    return one.caller.queries_at_once
        return self.people.most_of(fingerprint)

    def exchange(self, tokens: Iterable[Token]) -> bool:
        """Go by these tokens from now on; return whether they differ. Raises Invalid; then those
        of before remain."""
        new, old = Tokens(tokens), self._tokens
        self.broken = None
        if list(new) == list(old):
            return False
        hashes = {one.sha256 for one in new}
        gone = {one.sha256: one for one in (*self._removed, *old) if one.sha256 not in hashes}
        self._removed, self._tokens = Tokens(gone.values()), new
        return True

    def _check(self, token: Token) -> None:
        if token.over(self._clock.now_ms()):
            raise Refusal(
                f"the token {token.name!r} expired at {shown(token.expires_ms or 0)}: ask the "
                "operator for a new one",
                token=token.name,
            )


def _revoked(name: str) -> Refusal:
    return Refusal(f"the token {name!r} was revoked: ask the operator for a new one", token=name)
