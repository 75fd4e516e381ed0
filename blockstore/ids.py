"""Identifiers: the only code that draws random numbers.

A ULID is 48 bits of milliseconds and 80 random bits in
Crockford's base 32 (https://github.com/ulid/spec); its text order is its time order.
"""

from __future__ import annotations

import random
import threading

from blockstore.clock import Clock

_TIME_LETTERS = 10
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = [first + second for first in _CROCKFORD for second in _CROCKFORD]
"""The two letters of ten bits."""

_AS_DIGITS = dict.fromkeys(range(128), "!") | {
    ord(letter): "0123456789abcdefghijklmnopqrstuv"[value]
    for value, letter in enumerate(_CROCKFORD)
}
"""Letters of a ULID as Python's digits of base 32; every other character as an invalid one.

A table is used because listing a table parses the ULID of every block.
"""

MIN_ULID = "0" * 26
MAX_ULID = "7" + "Z" * 25


class Ids:
    """Draws ULIDs, tokens and jitter from one random source and one clock; safe to share between
    threads."""

    def __init__(self, clock: Clock, rng: random.Random | None = None) -> None:
        self._clock = clock
        self._random = rng if rng is not None else random.SystemRandom()
        self._lock = threading.Lock()

    @classmethod
    def seeded(cls, clock: Clock, seed: int) -> Ids:
        """Return ``Ids`` with the same draws for the same seed, for tests and the simulation."""
        return cls(clock, random.Random(seed))

    def ulid(self) -> str:
        """Return a new ULID of now."""
        with self._lock:
            entropy = self._random.getrandbits(80)
        return _text(self._clock.now_ms(), entropy)

    def token(self) -> str:
        """Return 16 random hexadecimal digits, for names that differ from every other attempt's."""
        with self._lock:
            return f"{self._random.getrandbits(64):016x}"

    def uniform(self, low: float, high: float) -> float:
        """Return a float between ``low`` and ``high``, for jitter."""
        with self._lock:
            return self._random.uniform(low, high)


def ulid_time_ms(ulid: str) -> int:
    """Return the creation time in a ULID, in milliseconds since the epoch.

    Raises ValueError for another text.
    """
    return int(ulid[:_TIME_LETTERS].translate(_AS_DIGITS), 32)


def ulid_at(time_ms: int) -> str:
    """Return the least ULID of a millisecond: every ULID drawn earlier sorts below it."""
    return _text(time_ms, 0)


def ulid_of(time_ms: int, digest: bytes) -> str:
    """Return the ULID that follows from a time and the first ten bytes of a digest."""
    return _text(time_ms, int.from_bytes(digest[:10], "big"))


def _text(time_ms: int, entropy: int) -> str:
    """Return the 128 bits of a ULID as its 26 letters, five bits each, made in pairs.

    Raises OverflowError for a time without a ULID.
    """
    number = int.from_bytes(time_ms.to_bytes(6, "big") + entropy.to_bytes(10, "big"), "big")
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)])
