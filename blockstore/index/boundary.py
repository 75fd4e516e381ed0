"""The boundary: the durable watermark that collection advances before it deletes an entry, read and
obeyed.

Invariants (protocol 3.4):
- An entry at or below the boundary is not part of the history, whatever a GET of it returns.
- The boundary never moves back. Missing where there are entries, not ``[0-9]{1,20}`` of a u64, or
  below a value seen before: ``BoundaryLost``, and no process writes or deletes.
- It is written with zeros before it, 18 to 20 digits in all, so many that their number less their
  sum is divisible by 3: one flipped bit turns a digit into one that is 1, 2, 4 or 8 away, or into
  none. Earlier releases read that, and wrote the digits alone.
- A check that accepts goes to the store, after the entry that it checks; what is cached only spares
  the bytes (304), and may refuse, never accept.
- It advances by compare-and-set on the ETag of the value read. A lost race, or a lost response, is
  read again and decided again. On a store that does not refuse stale writes it never advances: a
  late one could move it back.
"""

from __future__ import annotations

import logging
import re
import threading
from dataclasses import dataclass, field

from blockstore.bucket.api import Bucket, NotModified, ReadBucket, writable
from blockstore.errors import (
    AlreadyExists,
    BlockstoreError,
    BoundaryLost,
    Invalid,
    NoSpace,
    ObjectMissing,
    PreconditionFailed,
    Unavailable,
)
from blockstore.index.backoff import Pace
from blockstore.names import BOUNDARY
from blockstore.world import World

_logger = logging.getLogger(__name__)

_DIGITS = re.compile(rb"[0-9]{1,20}")
_U64_MAX = 2**64 - 1
_PADDED = 18
_DIGITS_MOST = 20
_TRIES = 10


@dataclass(slots=True)
class BoundaryCounts:
    """The requests for the boundary that one handle has made so far; only grows, for metrics."""

    checks: int = 0
    """Entries checked: step 5 of commits."""
    refusals: int = 0
    """Checks that refused: stale writes."""
    advances: int = 0
    """Times that this handle moved the boundary."""
    failed: int = 0
    """Calls of ``advance`` that ended in an error."""
    seconds: float = 0.0
    """Time spent in checks and advances."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(
        self,
        *,
        checks: int = 0,
        refusals: int = 0,
        advances: int = 0,
        failed: int = 0,
        seconds: float = 0.0,
    ) -> None:
        """Count, from any thread."""
        with self._lock:
            self.checks += checks
            self.refusals += refusals
            self.advances += advances
            self.failed += failed
            self.seconds += seconds


@dataclass(frozen=True, slots=True)
class _Seen:
    value: int
    etag: str | None


class Boundary:
    """The boundary of one table; safe to share between threads."""

    def __init__(self, bucket: ReadBucket, world: World) -> None:
        self._bucket = bucket
        self._world = world
        self._seen = _Seen(0, None)
        self._lock = threading.Lock()
        self._fixed: str | None = None
        self._measured = False
        self.counts = BoundaryCounts()

    @property
    def seen(self) -> int:
        """The highest value read so far: enough to refuse an id, never to accept one."""
        return self._seen.value

    @property
    def was_read(self) -> bool:
        """Whether this handle has ever found a boundary."""
        return self._seen.etag is not None

    def read(self) -> int:
        """The value now. Raises BoundaryLost if it is missing, garbage or fell."""
        value = self.look()
        if value is None:
            raise BoundaryLost(
                f"{BOUNDARY} of {self._bucket.url} is missing although the table has an index: "
                f"{how_to_repair(self._bucket.url)}"
            )
        return value

    def look(self) -> int | None:
        """The same, but None where there is no boundary and none was ever seen."""
        seen = self._look()
        return None if seen is None else seen.value

    def check(self, entry: int) -> bool:
        """Whether an entry, created or read before this call, is above the boundary: step 5 of a
        commit."""
        started = self._world.clock.monotonic_s()
        above = entry > self.read()
        self.counts.add(
            checks=1, refusals=not above, seconds=self._world.clock.monotonic_s() - started
        )
        return above

    def why_fixed(self) -> str | None:
        """Why the boundary cannot advance on this store;

        None if it can. Measured once where the store cannot say.
        """
        if not self._measured:
            bucket = writable(self._bucket)
            says = bucket.refuses_stale_writes()
            self._fixed = (
                _measure(bucket, self._world) if says is None else (None if says else _IGNORED)
            )
            self._measured = True
        return self._fixed

    def advance(self, to: int) -> int:
        """Raise the boundary to ``to`` unless it is as high already; returns its value now.

        Raises BoundaryLost where it vanished, is garbage or fell; Invalid on a store that does not
        refuse stale writes; Unavailable where the store does not respond, and then it is where it
        was, or at ``to``.
        """
        started = self._world.clock.monotonic_s()
        moved = False
        try:
            value, moved = self._advance(to)
        except BlockstoreError as error:
            self.counts.add(failed=1)
            _logger.warning(
                "%s of %s was not advanced to %s: %s", BOUNDARY, self._bucket.url, to, error
            )
            raise
        finally:
            self.counts.add(advances=moved, seconds=self._world.clock.monotonic_s() - started)
        return value

    def _advance(self, to: int) -> tuple[int, bool]:
        if not 0 <= to <= _U64_MAX:
            raise Invalid(f"the boundary of {self._bucket.url} cannot be {to}, expected a u64")
        bucket = writable(self._bucket)
        pace = Pace(self._world)
        sent = False
        tries = 0
        while True:
            seen = self._look()
            if seen is None or seen.etag is None:
                raise BoundaryLost(
                    f"{BOUNDARY} of {bucket.url} is missing, and it cannot be advanced to {to}: "
                    f"{how_to_repair(bucket.url)}"
                )
            if seen.value >= to:
                return seen.value, sent and seen.value == to
            fixed = self.why_fixed()
            if fixed is not None:
                raise Invalid(f"{BOUNDARY} of {bucket.url} stays at {seen.value}: {fixed}")
            try:
                etag = bucket.put_if_match(BOUNDARY, encode_boundary(to), seen.etag)
            except PreconditionFailed as error:
                # Another was faster: the next read shows a higher value, or that it is lost.
                tries += 1
                if tries >= _TRIES:
                    raise Unavailable(
                        f"{BOUNDARY} of {bucket.url} was not advanced to {to}: {tries} races in a "
                        f"row were lost ({error}); try again"
                    ) from error
            except Unavailable as error:
                tries += 1
                if tries >= _TRIES or isinstance(error, NoSpace):
                    raise
                sent = True
                pace.after_silence(tries)
            else:
                self._note(_Seen(to, etag))
                return to, True

    def _look(self) -> _Seen | None:
        before = self._seen
        try:
            found = self._bucket.get(BOUNDARY, if_none_match=before.etag)
        except NotModified:
            return before
        except ObjectMissing:
            if before.etag is None:
                return None
            raise BoundaryLost(
                f"{BOUNDARY} of {self._bucket.url} vanished, it was {before.value}: "
                f"{how_to_repair(self._bucket.url)}"
            ) from None
        seen = _Seen(parse_boundary(found.data, self._bucket.url), found.etag)
        if seen.value < before.value:
            raise BoundaryLost(
                f"{BOUNDARY} of {self._bucket.url} fell from {before.value} to {seen.value}, and "
                "it may only rise: stop all processes that work on the table, see with 'blockstore "
                f"verify {self._bucket.url}' what is left of its index, and start them again"
            )
        self._note(seen)
        return seen

    def _note(self, seen: _Seen) -> None:
        with self._lock:
            if seen.value >= self._seen.value:
                self._seen = seen


_IGNORED = (
    "the store does not refuse stale writes (If-Match), so index entries, and blocks that the "
    "index dropped, are kept forever; keep tables that change on a store that "
    "'blockstore probe' passes"
)


def _measure(bucket: Bucket, world: World) -> str | None:
    from blockstore.bucket.probe import IF_MATCH, Result, probe

    (finding,) = probe(bucket, world, only=IF_MATCH)
    if finding.result is Result.UNKNOWN:
        raise Unavailable(
            f"could not measure whether {bucket.url} refuses stale writes ({finding.detail}): "
            "try again"
        )
    return None if finding.result is Result.OK else f"{_IGNORED} ({finding.detail})"


def write_first(bucket: Bucket, world: World, patience_s: float) -> None:
    """Write the boundary of a new table as 0, unless there is one.

    The same bytes may be sent any number of times.
    """
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


def how_to_repair(url: str) -> str:
    """What to do about a boundary that cannot be read, as a clause.

    A rebuild knows a value that is right, the newest checkpoint's version; a value written by hand
    is a guess. One that fell can be read, and a rebuild is refused: ``verify`` shows whether
    entries are gone as well.
    """
    return (
        "stop all processes that work on the table, and rebuild it with 'blockstore index "
        f"rebuild {url}'"
    )


def encode_boundary(value: int) -> bytes:
    """The bytes of the boundary:

    ASCII digits, with zeros before them by which a flipped bit is seen.
    """
    digits = b"%0*d" % (_PADDED, value)
    while not _fits(digits) and len(digits) < _DIGITS_MOST:
        digits = b"0" + digits
    return digits


def _fits(digits: bytes) -> bool:
    return (len(digits) - sum(digit - ord("0") for digit in digits)) % 3 == 0


def parse_boundary(data: bytes, url: str) -> int:
    """The value in the bytes of a boundary. Raises BoundaryLost."""
    value = int(data) if _DIGITS.fullmatch(data) else None
    if value is not None and data.startswith(b"0") and len(data) >= _PADDED and not _fits(data):
        raise BoundaryLost(
            f"{BOUNDARY} of {url} holds {data!r}, whose zeros do not fit its digits, so one of "
            f"them was changed: {how_to_repair(url)}"
        )
    if value is None or value > _U64_MAX:
        raise BoundaryLost(
            f"{BOUNDARY} of {url} holds {data[:40]!r}, expected 1 to 20 ASCII digits of a u64: "
            f"{how_to_repair(url)}"
        )
    return value
