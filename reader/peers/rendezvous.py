"""Which member of a group a key belongs to: rendezvous hashing.

Rules:
- The owner depends on the key and the members alone: every process computes the same one, in
  whatever order it knows them.
- A member that leaves moves its own keys and no others; one that joins takes its share of each.

Source: Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def owner_of(key: str, members: Iterable[str]) -> str:
    """The member with the highest score for the key; there is at least one member."""
    return max(members, key=lambda member: (_score(member, key), member))


def _score(member: str, key: str) -> bytes:
    # The length keeps two pairs apart whose texts are the same when they are put together.
    text = f"{len(member)}:{member}{key}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=8).digest()
