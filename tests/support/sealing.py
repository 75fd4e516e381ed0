"""Stored JSON that another writer would have written: changed, and its seal made again."""

from __future__ import annotations

import re
from collections.abc import Callable

from blockstore.format.document import sealed

_SEAL = re.compile(rb'^\{"check":"[0-9a-f]{64}",')


def unsealed(data: bytes) -> bytes:
    """The bytes as an earlier release wrote them."""
    return _SEAL.sub(b"{", data)


def forged(data: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """The bytes changed, with a seal that fits if they had one."""
    plain = unsealed(data)
    return change(plain) if plain == data else sealed(change(plain))
