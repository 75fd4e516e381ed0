"""The narrow edge to an object store: what Blockstore needs of one, and nothing else.

Promises that every bucket keeps (the contract suite in tests/contract holds each of them to it):
- A PUT is atomic: a reader sees the old object, the new one or none, never a part.
- Read-after-write and list-after-write, unless the table says ``consistency = eventual``.
- ``put_if_absent`` has exactly one winner among any number of callers.
- An answer is one of the typed errors of ``blockstore.errors``; the adapter classifies, once. A
  write whose answer was lost is ``Unanswered``; the adapter never sends it a second time by itself.
- No object is visible before its writer is closed; an abandoned writer leaves nothing that a
  listing shows.

- A writer that raised ``Unavailable`` keeps what it was given: ``write(b"")`` or ``close()`` sends
  it again.

Keys are relative to the bucket's URL, separated by ``/``, never absolute and never with ``..``
(``keys.py``). Times are integer milliseconds of UTC. An ETag is opaque and unquoted; HEAD and LIST
give it where it costs nothing, and then it is the one that GET gives. Buckets are safe to share
between threads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, cast

from blockstore.errors import Invalid, ObjectMissing


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectInfo:
    """What a listing or a HEAD says of one object."""

    key: str
    size: int
    modified_ms: int
    etag: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Object:
    """An object's bytes and the ETag under which they were read."""

    data: bytes
    etag: str


class NotModified(Exception):
    """The answer 304 to a GET with ``if_none_match``: an answer, not an error of the tree."""


class ReadBucket(ABC):
    """A bucket for those who never write: readers, and Spark's read side."""

    url: str

    @abstractmethod
    def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        """The whole object.

        Raises ObjectMissing, or NotModified if its ETag is ``if_none_match``.
        """

    @abstractmethod
    def get_range(self, key: str, start: int, length: int) -> bytes:
        """At most ``length`` bytes from byte ``start``: fewer, or none, past the end.

        Raises ObjectMissing.
        """

    @abstractmethod
    def head(self, key: str) -> ObjectInfo:
        """Size and time of one object, and its ETag where that costs nothing.

        Raises ObjectMissing.
        """

    @abstractmethod
    def list(
        self, prefix: str = "", *, start_after: str = "", recursive: bool = True
    ) -> Iterator[ObjectInfo]:
        """Every object whose key starts with ``prefix`` and sorts after ``start_after`` (UTF-8
        bytes).

        With ``recursive=False`` only those without a further ``/`` after the prefix (S3's
        delimiter). The order is the store's own: callers that need one sort. An error midway is
        raised from the iterator: a listing that did not end by itself decides nothing.
        """

    @abstractmethod
    def prefixes(self, prefix: str = "") -> Iterator[str]:
        """The next path parts below ``prefix`` (S3's common prefixes), each ending in ``/``."""

    @abstractmethod
    def now_ms(self) -> int:
        """The store's own clock: what decides about ages. Costs at most one small request."""

    def path_of(self, key: str) -> str | None:
        """A file path by which any program on this machine can read the object, or None where there
        is none."""
        return None


class ObjectWriter(Protocol):
    """A new object, written piece by piece; visible only once closed."""

    def write(self, data: bytes | memoryview, /) -> int: ...

    def close(self) -> None:
        """Make the object visible. Raises what a put would raise."""

    def abort(self) -> None:
        """Forget everything written; allowed at any time, also after a failed close.

        Raises nothing: it is called where something has failed already, and that is what is told.
        """


class Bucket(ReadBucket):
    """A bucket for those who write."""

    @abstractmethod
    def put(self, key: str, data: bytes) -> str:
        """Create or replace; answers the new ETag."""

    @abstractmethod
    def put_if_absent(self, key: str, data: bytes) -> str:
        """Create; raises AlreadyExists if the key is taken. Answers the new ETag."""

    @abstractmethod
    def put_if_match(self, key: str, data: bytes, etag: str) -> str:
        """Replace what has this ETag; raises PreconditionFailed if it has another, or is
        missing."""

    @abstractmethod
    def writer(self, key: str) -> ObjectWriter:
        """A writer for an object of any size in bounded memory; closing replaces what was there."""

    @abstractmethod
    def delete(self, keys: Iterable[str]) -> None:
        """Delete each key; a missing one is no error. Neither atomic nor in any order: who needs
        one calls twice.

        Raises if any key could not be deleted; some, or all, of the others are gone then.
        """

    def delete_once(self, key: str) -> None:
        """Delete one key by one request, which is never sent again by itself: what has that name by
        then may be another object.

        Raises Unanswered where nobody knows whether it was applied.
        """
        self.delete([key])

    def refuses_stale_writes(self) -> bool | None:
        """Whether ``put_if_match`` is refused where the ETag is another;

        None where only a measurement tells.
        """
        return None

    def keeps_versions(self) -> bool | None:
        """Whether a DELETE leaves the object's versions behind (and their cost);

        None where nobody can say.
        """
        return None


def writable(bucket: ReadBucket) -> Bucket:
    """The same bucket, for writing. Raises Invalid if it was opened for reading only."""
    if not hasattr(bucket, "put_if_absent"):
        raise Invalid(f"{bucket.url} was opened for reading only: open the table for writing")
    return cast(Bucket, bucket)


def is_there(bucket: ReadBucket, key: str) -> bool:
    """Whether there is such an object, by one HEAD: also where a listing does not show it yet."""
    try:
        bucket.head(key)
    except ObjectMissing:
        return False
    return True
