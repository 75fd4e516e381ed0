"""The public keys of an OpenID provider, as it publishes them (JWKS, RFC 7517).

Rules:
- Keys are read when the gateway starts, every hour, and soon after a token named a key that is not
  known, at most twice a minute; by a thread of their own, for which nothing waits.
- While they cannot be read the keys of before stay in use, and ``broken`` says why.
- Only keys for signatures by asymmetric algorithms count: what is published must not be a secret.
- A key counts for the algorithm that it names. An RSA key that names none counts for each of RSA's,
  as its token names it.
"""

from __future__ import annotations

import json
import logging
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jwt

from blockstore.clock import Clock
from blockstore.errors import Invalid
from blockstore.world import World

_logger = logging.getLogger(__name__)

ALGORITHMS = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
_OF_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_EVERY_S = 3600.0
_SOON_S = 30.0
_TIMEOUT_S = 5.0
_COMPLETE_S = 10.0
_MOST_BYTES = 1 << 20
_LEAST_RSA_BITS = 2048
_HERE = frozenset({"localhost", "127.0.0.1", "::1"})

Read = Callable[[str], bytes]
"""Reads a URL or a file. Raises OSError."""


class IssuerKeys:
    """The keys of one issuer; ``where`` is a URL or a file of them, empty for what the issuer's own
    description names. ``look`` is for one thread, the rest for any."""

    def __init__(self, issuer: str, where: str, clock: Clock, read: Read) -> None:
        self._issuer = issuer
        self._where = where
        self._clock = clock
        self._read = read
        self._keys: Mapping[str | None, Mapping[str, jwt.PyJWK]] = {}
        """By name and algorithm."""
        self._next_s = 0.0
        self._wanted = False
        self.broken: str | None = f"the keys of {issuer} have not been read yet"
        """Why the keys are not those of now."""

    def key(self, name: str | None, algorithm: str = "") -> jwt.PyJWK | None:
        """The key of a name, for this algorithm if it counts for several; without a name the only
        one. None for one that is not known, which is looked for soon."""
        keys = self._keys
        found = keys.get(name)
        if found is None and name is None and len(keys) == 1:
            (found,) = keys.values()
        if found is None:
            self._wanted = True
            return None
        return found.get(algorithm) or next(iter(found.values()))

    def look(self) -> None:
        """Read the keys if it is time. Never raises."""
        now_s = self._clock.monotonic_s()
        due_s = self._next_s - (_EVERY_S - _SOON_S if self._wanted or self.broken else 0)
        if now_s < due_s:
            return
        self._next_s, self._wanted = now_s + _EVERY_S, False
        try:
            self._keys = _keys_of(self._read(self._where or self._published()))
        except Exception as error:  # noqa: BLE001 - whatever a provider sends, a gateway goes on
            self.broken = (
                f"the keys of {self._issuer} cannot be read, so "
                f"{'those of before are used' if self._keys else 'its tokens are refused'}: "
                f"{type(error).__name__}: {error}"
            )
            _logger.warning("%s", self.broken)
        else:
            self.broken = None

    def _published(self) -> str:
        """Where the issuer says that its keys are. Raises OSError and ValueError."""
        place = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
        said = json.loads(self._read(place))
        if not isinstance(said, dict) or said.get("issuer") != self._issuer:
            raise ValueError(f"its description is of another issuer, {str(said)[:200]!a}")
        where = said.get("jwks_uri")
        if not isinstance(where, str):
            raise ValueError("its description names no jwks_uri")
        check_place(where, "jwks_uri")
        return where


def check_place(where: str, name: str) -> None:
    """Raise Invalid unless this is a URL that is read over TLS, or on this machine."""
    try:
        parts = urlsplit(where)
        host, secret = parts.hostname, parts.username or parts.password
    except ValueError:
        host = secret = None
    else:
        safe = parts.scheme == "https" or (parts.scheme == "http" and host in _HERE)
        if safe and host and not secret:
            return
    raise Invalid(f"{name} is {where[:200]!r}, expected an https:// URL without a password")


def read(where: str) -> bytes:
    """Read a URL, or a file. Raises OSError."""
    if "://" not in where:
        return Path(where).read_bytes()
    clock = World.real().clock
    until_s = clock.monotonic_s() + _COMPLETE_S
    data = b""
    with _opener.open(where, timeout=_TIMEOUT_S) as answer:
        while piece := answer.read1(1 << 16):
            data += piece
            if len(data) > _MOST_BYTES:
                raise OSError(f"{where} is larger than {_MOST_BYTES:,} bytes")
            if clock.monotonic_s() > until_s:
                raise OSError(f"{where} took more than {_COMPLETE_S:g} s")
    return data


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a provider only to where its keys could be read from the start."""

    def redirect_request(self, *given: Any) -> urllib.request.Request | None:
        check_place(str(given[-1]), "a redirect of the provider")
        return super().redirect_request(*given)


_opener = urllib.request.build_opener(_Redirects)


def _keys_of(data: bytes) -> dict[str | None, dict[str, jwt.PyJWK]]:
    """The keys for signatures of a published set, by name and algorithm. Raises ValueError and
    PyJWTError."""
    given = json.loads(data)
    listed = given.get("keys") if isinstance(given, dict) else None
    if not isinstance(listed, list):
        raise ValueError("it is no set of keys")
    found: dict[str | None, dict[str, jwt.PyJWK]] = {}
    for one in listed:
        if not isinstance(one, dict) or one.get("use", "sig") != "sig" or one.get("kty") == "oct":
            continue
        try:
            key = jwt.PyJWK(one)
        except Exception:  # noqa: BLE001 - of an algorithm that is not known here: others count
            continue
        weak = one.get("kty") == "RSA" and key.key.key_size < _LEAST_RSA_BITS
        if key.algorithm_name in ALGORITHMS and not weak and isinstance(key.key_id, str | None):
            own = _OF_RSA if one.get("kty") == "RSA" and "alg" not in one else ()
            found[key.key_id] = {name: jwt.PyJWK(one, name) for name in own} or {
                key.algorithm_name: key
            }
    if not found:
        raise ValueError("it has no key for signatures by an asymmetric algorithm")
    return found
