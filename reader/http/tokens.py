"""Tokens: who a caller is, and what it may do.

Rules:
- A token is 256 random bits. It is shown once, when it is made; the configuration contains only its
  SHA-256.
- A presented token is hashed and compared with every known hash in constant time; no part of it is
  logged.
- Scopes: ``read`` may query; ``write`` may change rows and files; ``ddl`` may create, alter, drop
  and bring back tables; ``admin`` may do all of it and sees all jobs. A token may be limited to
  some tables, by name or by pattern: its responses never contain the name of another table.
- Policies restrict what a token sees of some tables (``tables/policies.py``). Code that takes
  ``Caller.tables`` for the tables of a caller reaches none of these.
- A token with an end is refused from that moment on. ``gate.py`` says by which tokens a gateway
  goes now.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from blockstore.errors import Invalid
from blockstore.ids import Ids
from blockstore.reader.tables.names import WITHOUT, Names, permits
from blockstore.reader.tables.policies import Policies, Policy, without

PREFIX = "bsk_"
_WORDS = 4
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Scope(StrEnum):
    """What a token may do."""

    READ = "read"
    WRITE = "write"
    DDL = "ddl"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """What the token of a provider said, in addition to who it is."""

    issuer: object
    """The provider, as the configuration had it."""
    person: tuple[str, str]
    """Who it is: the URL of the issuer, and the subject."""
    groups: frozenset[str]
    expires_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The sender of a request."""

    name: str
    fingerprint: str
    """Identifies the token in records without revealing it."""
    scopes: frozenset[Scope]
    tables: frozenset[str] | None = None
    """The tables that it may reach as a whole, by name or by pattern (``sales_*``), and those that
    policies take out (``!orders``); None for all."""
    policies: tuple[Policy, ...] = ()
    """What it sees of the tables that are taken out."""
    queries_at_once: int | None = None
    """How many of its queries may run at once; None for as many as the gateway runs."""
    bytes_a_day: int | None = None
    """How many bytes it may be sent in a day; None for no limit."""
    signed: Signed | None = field(default=None, compare=False, repr=False)
    """Of a person who came in by the token of a provider."""

    @property
    def person(self) -> tuple[str, str] | None:
        """The issuer and the subject of a person; None for a token of the configuration."""
        return None if self.signed is None else self.signed.person

    def may(self, scope: Scope) -> bool:
        """Whether it has the scope."""
        return scope in self.scopes or Scope.ADMIN in self.scopes

    def knows(self, table: str) -> bool:
        """Whether it may reach the table as a whole."""
        return permits(self.tables, table)

    def sees(self, table: str) -> bool:
        """Whether it may reach the table, or a query of it sees a part of it."""
        return table in Names([table], self.tables)

    @property
    def restricted(self) -> Policies | None:
        """By what a query of it sees the tables that are taken out; None without policies."""
        if not self.policies:
            return None
        return Policies(user=self.name, policies=self.policies)


ANYONE = Caller(name="anyone", fingerprint="anyone", scopes=frozenset(Scope))
"""The caller where no token is required."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token as the configuration contains it."""

    name: str
    sha256: str
    scopes: frozenset[Scope]
    tables: frozenset[str] | None = None
    policies: tuple[Policy, ...] = ()
    expires_ms: int | None = None
    """From this moment on it is refused; None for never."""
    queries_at_once: int | None = None
    bytes_a_day: int | None = None

    def __post_init__(self) -> None:
        if not _SHA256.fullmatch(self.sha256):
            raise Invalid(
                f'sha256 of [tokens."{self.name}"] is {self.sha256!r}, expected 64 hexadecimal '
                "digits: make one with "
                "blockstore token"
            )
        check_rights(f'[tokens."{self.name}"]', self.scopes, self.tables, self.policies)

    @property
    def caller(self) -> Caller:
        """The caller that presents it."""
        return Caller(
            name=self.name,
            fingerprint=self.sha256[:16],
            scopes=self.scopes,
            tables=without(self.tables, self.policies),
            policies=self.policies,
            queries_at_once=self.queries_at_once,
            bytes_a_day=self.bytes_a_day,
        )

    def over(self, now_ms: int) -> bool:
        """Whether it has expired."""
        return self.expires_ms is not None and now_ms >= self.expires_ms


def check_rights(
    place: str,
    scopes: frozenset[Scope],
    tables: frozenset[str] | None,
    policies: tuple[Policy, ...] = (),
) -> None:
    """Raise Invalid for rights that cannot be meant; ``place`` names them in the configuration."""
    if not scopes:
        raise Invalid(f"{place} has no scopes, expected read, write, ddl or admin")
    if Scope.ADMIN in scopes and (tables is not None or policies):
        other = "a list of tables" if tables is not None else "policies"
        raise Invalid(
            f"{place} has the scope admin and {other}: remove one of them, since an admin "
            "sees all jobs"
        )
    if any(one.startswith(WITHOUT) for one in tables or ()):
        raise Invalid(
            f"{place} has a table that begins with {WITHOUT}: name the tables that it may know, "
            "and restrict others by policies"
        )


class Tokens:
    """The tokens of one configuration."""

    def __init__(self, tokens: Iterable[Token]) -> None:
        self._tokens = tuple(tokens)
        self._known = {one.sha256[:16]: one for one in self._tokens}
        if len({one.sha256 for one in self._tokens}) < len(self._tokens):
            raise Invalid("two tokens have the same sha256: each token needs its own")

    def __iter__(self) -> Iterator[Token]:
        return iter(self._tokens)

    def __len__(self) -> int:
        return len(self._tokens)

    def presented(self, header: str | None) -> Token | None:
        """The token of an Authorization header; None if it is unknown."""
        given = hashed(bearer(header)) if bearer(header) else ""
        found: Token | None = None
        for token in self._tokens:
            if hmac.compare_digest(token.sha256, given):
                found = token
        return found

    def of(self, caller: Caller) -> Token | None:
        """The token that a caller presented before; None if it is known no more."""
        return self._known.get(caller.fingerprint)


def bearer(header: str | None) -> str:
    """The token of an Authorization header, ``Bearer TOKEN``; empty if it has none."""
    kind, _, presented = (header or "").partition(" ")
    return presented.strip() if kind.lower() == "bearer" else ""


def hashed(token: str) -> str:
    """The hash of a token, as the configuration contains it."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def shown(time_ms: int) -> str:
    """A moment as ISO 8601 in UTC."""
    moment = dt.datetime.fromtimestamp(time_ms / 1000, dt.UTC)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def fresh(ids: Ids) -> str:
    """A new token."""
    return PREFIX + "".join(ids.token() for _ in range(_WORDS))
