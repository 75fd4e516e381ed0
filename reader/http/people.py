"""People who sign in at an OpenID provider: their bearer tokens are JWTs (RFC 7519).

Rules:
- A token counts if a key of its issuer has signed it, and it is for this gateway (``aud``), has an
  end (``exp``) that has not come, and has begun (``nbf``).
- A person has the rights of the first group of the configuration that the token names. One of no
  group is refused.
- The name of a person is a claim, and what identifies one is the issuer with ``sub``: in jobs, and
  in limits.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any, TypeGuard

import jwt

from blockstore.clock import Clock
from blockstore.errors import Invalid
from blockstore.reader.http.issuer_keys import ALGORITHMS, IssuerKeys, Read, check_place, read
from blockstore.reader.http.problems import Refusal
from blockstore.reader.http.tokens import Caller, Scope, Signed, check_rights, shown
from blockstore.reader.tables.policies import Policy, without

_LONGEST = 16 << 10
_LONGEST_NAME = 200
_MOST_NAMES = 10_000
_LEEWAY_MS = 30_000
"""By so much the clocks of an issuer and of this machine may differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuer:
    """An OpenID provider whose tokens count."""

    name: str
    url: str
    """As its tokens name it (``iss``)."""
    audience: str
    """What its tokens for this gateway name (``aud``)."""
    keys: str = ""
    """A URL or a file of its keys; empty for what its own description names."""
    name_claim: str = "email"
    groups_claim: str = "groups"

    def __post_init__(self) -> None:
        check_place(self.url, f'url of [issuers."{self.name}"]')
        if "://" in self.keys:
            check_place(self.keys, f'keys of [issuers."{self.name}"]')
        elif self.keys and not Path(self.keys).is_absolute():
            raise Invalid(
                f'keys of [issuers."{self.name}"] is {self.keys[:200]!r}, expected an https:// '
                "URL or the complete path of a file"
            )
        if not self.name_claim or not self.groups_claim:
            raise Invalid(f'[issuers."{self.name}"] has a claim without a name: name it')
        if not self.audience:
            raise Invalid(
                f'[issuers."{self.name}"] has no audience, so tokens for other programs would '
                "count here: set the one that the provider gives to this gateway"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """What people of a group may do."""

    name: str
    scopes: frozenset[Scope]
    tables: frozenset[str] | None = None
    policies: tuple[Policy, ...] = ()
    queries_at_once: int | None = None
    bytes_a_day: int | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise Invalid('[groups.""] has no name: give it that of a group of the provider')
        check_rights(f'[groups."{self.name}"]', self.scopes, self.tables, self.policies)


class People:
    """Who may come in by the token of an issuer; safe to share between threads, but for
    ``look``."""

    def __init__(
        self,
        issuers: Iterable[Issuer],
        groups: Iterable[Group],
        clock: Clock,
        *,
        read: Read = read,
    ) -> None:
        self._clock = clock
        self._read = read
        self._lock = Lock()
        self._names: OrderedDict[str, Caller] = OrderedDict()
        self._issuers: Mapping[str, tuple[Issuer, IssuerKeys]] = {}
        self._groups: tuple[Group, ...] = ()
        self.exchange(issuers, groups)

    def exchange(self, issuers: Iterable[Issuer], groups: Iterable[Group]) -> bool:
        """Go by these from now on; return whether they differ. Keys that are read at the same place
        stay."""
        kept = {(one.url, one.keys): keys for one, keys in self._issuers.values()}
        before = ([one for one, _ in self._issuers.values()], self._groups)
        self._issuers = {
            one.url: (
                one,
                kept.get((one.url, one.keys))
                or IssuerKeys(one.url, one.keys, self._clock, self._read),
            )
            for one in issuers
        }
        self._groups = tuple(groups)
        return before != ([one for one, _ in self._issuers.values()], self._groups)

    @property
    def any(self) -> bool:
        """Whether anyone can come in so."""
        return bool(self._issuers)

    @property
    def broken(self) -> str | None:
        """Why the keys of an issuer are not those of now."""
        return next((keys.broken for _, keys in self._issuers.values() if keys.broken), None)

    def look(self) -> None:
        """Read keys whose time has come. Never raises."""
        for _, keys in list(self._issuers.values()):
            keys.look()

    def caller(self, token: str) -> Caller | None:
        """The person with this token; None if it is no token of an issuer here. Raises Refusal."""
        if not self._issuers or token.count(".") != 2 or len(token) > _LONGEST:
            return None
        if not token.isascii():
            return None
        try:
            header = jwt.get_unverified_header(token)
            said = jwt.decode(token, options={"verify_signature": False})
        except (jwt.PyJWTError, ValueError, RecursionError):
            return None
        known = self._issuers.get(str(said.get("iss")))
        if known is None:
            return None
        issuer, keys = known
        caller = self._caller(issuer, _checked(token, header, issuer, keys))
        with self._lock:
            self._names[caller.fingerprint] = caller
            self._names.move_to_end(caller.fingerprint)
            while len(self._names) > _MOST_NAMES:
                self._names.popitem(last=False)
        return caller

    def of(self, caller: Caller) -> Caller | None:
        """A person who came in before, with the rights of now; None for a caller that is none.
        Raises Refusal for one whose token has ended, or would not count any more."""
        signed = caller.signed
        if signed is None:
            return None
        self._check_time(caller.name, signed.expires_ms)
        if signed.issuer not in [issuer for issuer, _ in self._issuers.values()]:
            raise _refused(caller.name, "is of a provider that has changed here: connect again")
        return self._with_rights(caller, signed)

    def left_s(self, caller: Caller) -> float | None:
        """How long the person's token may still be used; None for a caller that is none."""
        if caller.signed is None:
            return None
        return max(0.0, (caller.signed.expires_ms - self._clock.now_ms()) / 1000)

    def name_of(self, fingerprint: str) -> str | None:
        """The name of a person who came in before, one of the last."""
        with self._lock:
            found = self._names.get(fingerprint)
        return None if found is None else found.name

    def most_of(self, fingerprint: str) -> int | None:
        """How many queries such a person could run at once when it last came in; None for any."""
        with self._lock:
            found = self._names.get(fingerprint)
        return None if found is None else found.queries_at_once

    def _caller(self, issuer: Issuer, said: Mapping[str, Any]) -> Caller:
        subject = str(said["sub"])
        name = _name_of(issuer, said, subject)
        expires_ms = round(said["exp"] * 1000)
        self._check_time(name, expires_ms)
        begins = said.get("nbf", 0)
        if not (begins == 0 or _is_number(begins)):
            raise _refused(name, "does not say when it begins: sign in again")
        if begins * 1000 > self._clock.now_ms() + _LEEWAY_MS:
            raise _refused(name, f"begins at {shown(round(begins * 1000))}: wait until then")
        named = said.get(issuer.groups_claim)
        listed = [named] if isinstance(named, str) else named if isinstance(named, list) else []
        groups = frozenset(one for one in listed if isinstance(one, str))
        digest = hashlib.sha256(f"{issuer.url}\n{subject}".encode("utf-8", "surrogatepass"))
        signed = Signed(
            issuer=issuer, person=(issuer.url, subject), groups=groups, expires_ms=expires_ms
        )
        who = Caller(
            name=name, fingerprint=digest.hexdigest()[:16], scopes=frozenset(), signed=signed
        )
        return self._with_rights(who, signed)

    def _with_rights(self, caller: Caller, signed: Signed) -> Caller:
        group = next((one for one in self._groups if one.name in signed.groups), None)
        if group is None:
            raise _refused(caller.name, "names no group of this gateway: ask the operator for one")
        return replace(
            caller,
            scopes=group.scopes,
            tables=without(group.tables, group.policies),
            policies=group.policies,
            queries_at_once=group.queries_at_once,
            bytes_a_day=group.bytes_a_day,
        )

    def _check_time(self, name: str, expires_ms: int) -> None:
        if self._clock.now_ms() >= expires_ms:
            raise _refused(name, f"ended at {shown(expires_ms)}: sign in again")


def _checked(
    token: str, header: Mapping[str, Any], issuer: Issuer, keys: IssuerKeys
) -> Mapping[str, Any]:
    """What a token says, if its issuer has signed it for this gateway. Raises Refusal."""
    name, algorithm = header.get("kid"), str(header.get("alg"))
    key = keys.key(name if isinstance(name, str) else None, algorithm)
    if key is None:
        raise Refusal(
            f"the token is signed by a key of {issuer.url} that is not known here: try again in a "
            "minute, or sign in again"
        )
    try:
        if algorithm not in ALGORITHMS:
            raise jwt.InvalidAlgorithmError(f"the algorithm {algorithm[:20]!a} is not accepted")
        said = jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            audience=issuer.audience,
            issuer=issuer.url,
            options={
                "require": ["exp", "sub", "iss", "aud"],
                "verify_exp": False,  # by the gateway's clock, below
                "verify_nbf": False,
                "verify_iat": False,
            },
        )
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        plain = (one if one.isascii() and one.isprintable() else "?" for one in str(error)[:200])
        why = "".join(plain)
        raise Refusal(f"the token of {issuer.url} does not count here: {why}") from None
    if not _is_number(said["exp"]) or not said["sub"]:
        raise Refusal(f"the token of {issuer.url} has no end, or no subject: sign in again")
    return said


def _name_of(issuer: Issuer, said: Mapping[str, Any], subject: str) -> str:
    """What a person is called: the claim, if its provider does not say whether it is verified, or
    says that it is."""
    name = said.get(issuer.name_claim)
    says = said.get(f"{issuer.name_claim}_verified", True)
    # Some providers send the word. A policy may go by the name, so what is unclear does not count.
    verified = says is True or says == "true"
    names = (name if verified else None, subject)
    fit = (one for one in names if isinstance(one, str) and one and one.isprintable())
    return next(fit, "a person without a name")[:_LONGEST_NAME]


def _refused(name: str, why: str) -> Refusal:
    return Refusal(f"the token of {name!r} {why}", token=name)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e11
