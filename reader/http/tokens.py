"""Tokens: who a caller is, and what it may do.

Rules:
- A token is 256 random bits. It is shown once, when it is made; the configuration contains only its
  SHA-256.
- A presented token is hashed and compared with every known hash in constant time; no part of it is
  logged.
- Scopes: ``read`` may query; ``write`` may change rows, files and tables; ``admin`` may do both and
  sees all jobs. A token may be limited to some tables: its responses never contain the name of
  another table.
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
    """The sender of a request."""

    name: str
    fingerprint: str
    """Identifies the token in records without revealing it."""
    scopes: frozenset[Scope]
    tables: frozenset[str] | None = None
    """The tables that it may know; None for all."""

    def may(self, scope: Scope) -> bool:
        """Whether it has the scope."""
        return scope in self.scopes or Scope.ADMIN in self.scopes

    def knows(self, table: str) -> bool:
        """Whether it may know the table."""
        return self.tables is None or table in self.tables


ANYONE = Caller(name="anyone", fingerprint="anyone", scopes=frozenset(Scope))
"""The caller where no token is required."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token as the configuration contains it."""

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
            raise Invalid(f'[tokens."{self.name}"] has no scopes, expected read, write or admin')
        if self.tables is not None and Scope.ADMIN in self.scopes:
            raise Invalid(
                f'[tokens."{self.name}"] has the scope admin and a list of tables: remove one of '
                "them, since an admin sees all jobs"
            )

    @property
    def caller(self) -> Caller:
        """The caller that presents it."""
        return Caller(
            name=self.name, fingerprint=self.sha256[:16], scopes=self.scopes, tables=self.tables
        )


class Tokens:
    """The tokens of a gateway; without any, every caller is ``ANYONE``."""

    def __init__(self, tokens: Iterable[Token]) -> None:
        self._tokens = tuple(tokens)
        twice = {one.sha256 for one in self._tokens}
        if len(twice) < len(self._tokens):
            raise Invalid("two tokens have the same sha256: each token needs its own")

    def __bool__(self) -> bool:
        return bool(self._tokens)

    def caller(self, header: str | None) -> Caller | None:
        """The caller with this Authorization header; None if it is unknown."""
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
    """The hash of a token, as the configuration contains it."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def fresh(ids: Ids) -> str:
    """A new token."""
    return PREFIX + "".join(ids.token() for _ in range(_WORDS))
