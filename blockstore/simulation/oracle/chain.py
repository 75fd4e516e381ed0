"""Whether an entry names the one below it: computed from the raw bytes, without the product's own
code.

Promises (format, "prev"):
- ``prev`` of entry N+1 is the commit id of raw entry N, the SHA-256 of its bytes, and the digest of
  the entire raw sequence up to it: each digest is the SHA-256 of the one before and of the next
  entry's own hash, void entries among them.
- Entries without ``prev`` are history until the first that has one, or requests the chain, and void
  after it. That first one names a commit only. An entry that names another one is void.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import orjson

_CHAIN = "chain/0.2"


@dataclass(frozen=True, slots=True)
class Chain:
    """What the next entry must name."""

    commit: str = ""
    hash: bytes = b""
    digest: bytes | None = None
    """None as long as the chain has not begun."""

    def fits(self, data: bytes) -> bool:
        """Whether the entry in these bytes may follow."""
        prev = _prev(data)
        if prev is None:
            return self.digest is None
        if self.digest is None:
            return bool(prev["commit"] == self.commit)
        named = (prev["commit"], prev["sha256"], prev["chain"])
        return named == (self.commit, self.hash.hex(), self.digest.hex())

    def after(self, data: bytes) -> Chain:
        """What must be named once the entry in these bytes is there, void or not."""
        own, entry = hashlib.sha256(data).digest(), _object(data)
        begun = (
            self.digest is not None or "prev" in entry or _CHAIN in str(entry.get("requires", ""))
        )
        digest = hashlib.sha256((self.digest or bytes(32)) + own).digest() if begun else None
        return Chain(str(entry.get("commit", "")), own, digest)


def _object(data: bytes) -> dict[str, object]:
    try:
        found = orjson.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _prev(data: bytes) -> dict[str, str] | None:
    prev = _object(data).get("prev")
    if not isinstance(prev, dict):
        return None
    return {name: str(prev.get(name, "")) for name in ("commit", "sha256", "chain")}
