"""Who asks, and what they may do.

Rules:
- A token is 256 random bits; the configuration holds its SHA-256 alone, and what was made is shown
  once.
- A presented token is hashed and compared with every known hash in constant time; nothing of it is
  logged.
- Scopes: ``read`` asks, ``write`` uploads, ``admin`` may both and sees everybody's jobs. A token
  may be of some tables only: no other table's name is ever told to it.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from blockstore.errors import Invalid
from blockstore.ids import Ids

PREFIX = "bsk_"
_WORDS = 4
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Scope(StrEnum):
    """What a token may do."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Whoever sent a request, once it is known."""

    name: str
    fingerprint: str
    """Names the token in records without telling it."""
    scopes: frozenset[Scope]
    tables: frozenset[str] | None = None
    """The tables that it may know of; None for all."""

    def may(self, scope: Scope) -> bool:
        """Whether it has the scope."""
        return scope in self.scopes or Scope.ADMIN in self.scopes

    def knows(self, table: str) -> bool:
        """Whether it may know of the table."""
        return self.tables is None or table in self.tables


ANYONE = Caller(name="anyone", fingerprint="anyone", scopes=frozenset(Scope))
"""The caller where no tokens are asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token as the configuration holds it."""

    name: str
    sha256: str
    scopes: frozenset[Scope]
    tables: frozenset[str] | None = None

    def __post_init__(self) -> None:
        if not _SHA256.fullmatch(self.sha256):
            raise Invalid(
                f'sha256 of [tokens."{self.name}"] is {self.sha256!r}, expected 64 hexadecimal '
                "digits: make one with "
                "blockstore token"
            )
        if not self.scopes:
            raise Invalid(
                f'[tokens."{self.name}"] has no scopes, expected some of read, write, admin'
            )
        if self.tables is not None and Scope.ADMIN in self.scopes:
            raise Invalid(
                f'[tokens."{self.name}"] has the scope admin and is of some tables only, expected '
                "one or the other: an "
                "admin sees everybody's jobs"
            )

    @property
    def caller(self) -> Caller:
        """The caller that presents it."""
        return Caller(
            name=self.name, fingerprint=self.sha256[:16], scopes=self.scopes, tables=self.tables
        )


class Tokens:
    """The tokens of a gateway; empty: everybody is ``ANYONE``."""

    def __init__(self, tokens: Iterable[Token]) -> None:
        self._tokens = tuple(tokens)
        twice = {one.sha256 for one in self._tokens}
        if len(twice) < len(self._tokens):
            raise Invalid("two tokens have one sha256, expected a hash of its own for each")

    def __bool__(self) -> bool:
        return bool(self._tokens)

    def caller(self, header: str | None) -> Caller | None:
        """Who presents this Authorization header; None for nobody that is known."""
        if not self._tokens:
            return ANYONE
        kind, _, presented = (header or "").partition(" ")
        given = hashed(presented.strip()) if kind.lower() == "bearer" else ""
        found: Token | None = None
        for token in self._tokens:
            if hmac.compare_digest(token.sha256, given):
                found = token
        return None if found is None else found.caller


def hashed(token: str) -> str:
    """What the configuration holds of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def fresh(ids: Ids) -> str:
    """A new token."""
    return PREFIX + "".join(ids.token() for _ in range(_WORDS))
