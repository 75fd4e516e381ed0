"""A provider of identities, without the library that checks its tokens."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

URL = "https://login.example.com"
AUDIENCE = "blockstore"


def coded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value: int) -> str:
    return coded(value.to_bytes((value.bit_length() + 7) // 8, "big"))


@dataclass
class Signer:
    """One key pair; ``alg`` is RS256, ES256 or EdDSA."""

    alg: str
    kid: str | None = "one"
    bits: int = 2048
    key: Any = field(init=False)

    def __post_init__(self) -> None:
        match self.alg:
            case "RS256":
                self.key = rsa.generate_private_key(public_exponent=65537, key_size=self.bits)
            case "ES256":
                self.key = ec.generate_private_key(ec.SECP256R1())
            case _:
                self.key = ed25519.Ed25519PrivateKey.generate()

    @property
    def public(self) -> dict[str, object]:
        """As a provider publishes it."""
        shown: dict[str, object] = {"use": "sig", "alg": self.alg}
        if self.kid is not None:
            shown["kid"] = self.kid
        public = self.key.public_key()
        match self.alg:
            case "RS256":
                numbers = public.public_numbers()
                return {**shown, "kty": "RSA", "n": number(numbers.n), "e": number(numbers.e)}
            case "ES256":
                numbers = public.public_numbers()
                x, y = (coded(one.to_bytes(32, "big")) for one in (numbers.x, numbers.y))
                return {**shown, "kty": "EC", "crv": "P-256", "x": x, "y": y}
            case _:
                raw = serialization.Encoding.Raw, serialization.PublicFormat.Raw
                x = coded(public.public_bytes(*raw))
                return {**shown, "kty": "OKP", "crv": "Ed25519", "x": x}

    @property
    def pem(self) -> bytes:
        public = self.key.public_key()
        return bytes(
            public.public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )

    def sign(self, data: bytes) -> bytes:
        match self.alg:
            case "RS256":
                return self.sign_as("RS256", data)
            case "ES256":
                r, s = decode_dss_signature(self.key.sign(data, ec.ECDSA(hashes.SHA256())))
                return r.to_bytes(32, "big") + s.to_bytes(32, "big")
            case _:
                return bytes(self.key.sign(data))

    def sign_as(self, alg: str, data: bytes) -> bytes:
        """Sign by another algorithm of RSA."""
        digest = {"256": hashes.SHA256, "384": hashes.SHA384, "512": hashes.SHA512}[alg[2:]]()
        if alg.startswith("RS"):
            return bytes(self.key.sign(data, padding.PKCS1v15(), digest))
        length = padding.PSS.DIGEST_LENGTH
        return bytes(self.key.sign(data, padding.PSS(padding.MGF1(digest), length), digest))

    def token_as(self, alg: str, said: Mapping[str, object]) -> str:
        """A token by another algorithm of RSA."""
        parts = f"{_json({'alg': alg, 'typ': 'JWT', 'kid': self.kid})}.{_json(said)}"
        return f"{parts}.{coded(self.sign_as(alg, parts.encode()))}"

    def token(self, said: Mapping[str, object], header: Mapping[str, object] | None = None) -> str:
        """A token that says this."""
        head: dict[str, object] = {"alg": self.alg, "typ": "JWT"}
        if self.kid is not None:
            head["kid"] = self.kid
        parts = f"{_json({**head, **(header or {})})}.{_json(said)}"
        return f"{parts}.{coded(self.sign(parts.encode()))}"


def published(*signers: Signer) -> bytes:
    return json.dumps({"keys": [one.public for one in signers]}).encode()


def forged(said: Mapping[str, object], alg: str, secret: bytes, kid: str = "one") -> str:
    """A token by a shared secret, or by nothing."""
    parts = f"{_json({'alg': alg, 'typ': 'JWT', 'kid': kid})}.{_json(said)}"
    digest = b"" if alg == "none" else hmac.new(secret, parts.encode(), hashlib.sha256).digest()
    return f"{parts}.{coded(digest)}"


def claims(**more: object) -> dict[str, object]:
    """What a token of ann, an analyst, says at the beginning of the epoch."""
    return {
        "iss": URL,
        "aud": AUDIENCE,
        "sub": "0001",
        "email": "ann@example.com",
        "groups": ["staff", "analysts"],
        "exp": 1_000,
        **more,
    }


def _json(value: Mapping[str, object]) -> str:
    return coded(json.dumps(value).encode())
