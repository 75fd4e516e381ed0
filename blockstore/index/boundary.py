"""The boundary: the durable watermark that collection advances before it deletes an entry, read and obeyed.

Invariants (protocol 3.4):
- An entry at or below the boundary is no part of the history, whatever a GET of it answers.
- The boundary never moves back. Missing where there are entries, not ``[0-9]{1,20}`` of a u64, or below a value seen
  before: ``BoundaryLost``, and nobody writes or deletes.
- A check that accepts goes to the store, after the entry that it checks; what is cached only spares the bytes (304), and
  may refuse, never accept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from blockstore.bucket.api import Bucket, NotModified, ReadBucket
from blockstore.errors import AlreadyExists, BoundaryLost, NoSpace, ObjectMissing, Unavailable
from blockstore.index.storetime import Pace
from blockstore.names import BOUNDARY
from blockstore.world import World

__all__ = ["Boundary", "encode_boundary", "parse_boundary", "write_first"]

_DIGITS = re.compile(rb"[0-9]{1,20}")
_U64_MAX = 2**64 - 1


@dataclass(frozen=True, slots=True)
class _Seen:
    value: int
    etag: str | None


class Boundary:
    """The boundary of one table; safe to share between threads."""

    def __init__(self, bucket: ReadBucket) -> None:
        self._bucket = bucket
        self._seen = _Seen(0, None)

    @property
    def seen(self) -> int:
        """The highest value read so far: enough to refuse an id, never to accept one."""
        return self._seen.value

    def read(self) -> int:
        """The value now. Raises BoundaryLost if it is missing, garbage or fell."""
        value = self.look()
        if value is None:
            raise BoundaryLost(
                f"{BOUNDARY} of {self._bucket.url} is missing although the table has an index: stop all writers, "
                "and write the highest value known, or restore it from a copy"
            )
        return value

    def look(self) -> int | None:
        """The same, but None where there is no boundary and none was ever seen."""
        before = self._seen
        try:
            found = self._bucket.get(BOUNDARY, if_none_match=before.etag)
        except NotModified:
            return before.value
        except ObjectMissing:
            if before.etag is None:
                return None
            raise BoundaryLost(
                f"{BOUNDARY} of {self._bucket.url} vanished, it was {before.value}: stop all writers, and restore it"
            ) from None
        value = parse_boundary(found.data, self._bucket.url)
        if value < before.value:
            raise BoundaryLost(
                f"{BOUNDARY} of {self._bucket.url} fell from {before.value} to {value}, and it may only rise: "
                "stop all writers, and restore it"
            )
        if value >= self._seen.value:
            self._seen = _Seen(value, found.etag)
        return value

    def check(self, entry: int) -> bool:
        """Whether an entry, created or read before this call, is above the boundary: step 5 of a commit."""
        return entry > self.read()


def write_first(bucket: Bucket, world: World, patience_s: float) -> None:
    """Write the boundary of a new table as 0, unless there is one. The same bytes may be sent any number of times."""
    deadline = world.clock.monotonic_s() + patience_s
    pace = Pace(world)
    tries = 0
    while True:
        try:
            bucket.put_if_absent(BOUNDARY, encode_boundary(0))
        except AlreadyExists:
            pass  # another's, or our own that was not answered: 0 or above, as it must be
        except Unavailable as error:
            if isinstance(error, NoSpace) or world.clock.monotonic_s() >= deadline:
                raise
            tries += 1
            pace.after_silence(tries)
            continue
        return


def encode_boundary(value: int) -> bytes:
    """The bytes of the boundary: ASCII digits."""
    return str(value).encode("ascii")


def parse_boundary(data: bytes, url: str) -> int:
    """The value in the bytes of a boundary. Raises BoundaryLost."""
    value = int(data) if _DIGITS.fullmatch(data) else None
    if value is None or value > _U64_MAX:
        raise BoundaryLost(
            f"{BOUNDARY} of {url} holds {data[:40]!r}, expected 1 to 20 ASCII digits of a u64: "
            "stop all writers, and restore it"
        )
    return value
