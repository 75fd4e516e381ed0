"""The interface to an object store: what Blockstore needs of one, and nothing else.

Promises of every bucket, tested by the contract suite in tests/contract:
- A PUT is atomic: a reader sees the old object, the new one or none, never a part.
- Read-after-write and list-after-write, unless the table says ``consistency = eventual``.
- ``put_if_absent`` has exactly one winner among any number of callers.
- A failed request raises one of the errors of ``blockstore.errors``; only the adapter classifies. A
  write whose response was lost is ``Unanswered``; the adapter never sends it a second time.
- No object is visible before its writer is closed; an abandoned writer leaves nothing that a
  listing shows.
- A writer that raised ``Unavailable`` keeps its bytes: ``write(b"")`` or ``close()`` sends them
  again. They may be those of an earlier ``write``, which were sent meanwhile.

Keys are relative to the bucket's URL, separated by ``/``, never absolute and never with ``..``
(``keys.py``). Times are integer milliseconds of UTC. An ETag is opaque and unquoted; HEAD and LIST
return it where that costs nothing, and then it equals GET's. Buckets are safe to share between
threads.
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
    """A GET with ``if_none_match`` found this ETag (304): a result, not a BlockstoreError."""


class ReadBucket(ABC):
    """A bucket that cannot write: for readers, and for Spark's read side."""

    url: str

    @abstractmethod
    def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        """Return the complete object.

        Raises ObjectMissing, or NotModified if its ETag is ``if_none_match``.
        """

    @abstractmethod
    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Return at most ``length`` bytes from byte ``start``: fewer, or none, past the end.

        Raises ObjectMissing.
        """

    @abstractmethod
    def head(self, key: str) -> ObjectInfo:
        """Return size and time of one object, and its ETag where that costs nothing.

        Raises ObjectMissing.
        """

    @abstractmethod
    def list(
        self,
        prefix: str = "",
        *,
        start_after: str = "",
        recursive: bool = True,
        at_most: int | None = None,
    ) -> Iterator[ObjectInfo]:
        """Yield the objects whose key starts with ``prefix`` and sorts after ``start_after`` (UTF-8
        bytes).

        With ``recursive=False`` only those without a further ``/`` after the prefix (S3's
        delimiter). The order is the store's own: callers that need one sort. With ``at_most`` the
        listing ends after so many: fewer are all that there are. Up to a thousand cost one request.
        The iterator raises an error that occurs midway: nothing may be decided by an incomplete
        listing.
        """

    @abstractmethod
    def prefixes(self, prefix: str = "") -> Iterator[str]:
        """Yield the next path parts below ``prefix`` (S3's common prefixes), which end in ``/``."""

    @abstractmethod
    def now_ms(self) -> int:
        """Return the store's own time, by which ages are decided; at most one small request."""

    def path_of(self, key: str) -> str | None:
        """Return a file path by which any program on this machine can read the object, or None."""
        return None


class ObjectWriter(Protocol):
    """A new object, written piece by piece; visible once it is closed."""

    def write(self, data: bytes | memoryview, /) -> int: ...

    def close(self) -> None:
        """Make the object visible. Raises what a put would raise."""

    def abort(self) -> None:
        """Forget everything written; allowed at any time, also after a failed close.

        Raises nothing: the caller is about to raise the failure that made it abort.
        """


class Bucket(ReadBucket):
    """A bucket that can write."""

    @abstractmethod
    def put(self, key: str, data: bytes) -> str:
        """Create or replace the object; return the new ETag."""

    @abstractmethod
    def put_if_absent(self, key: str, data: bytes) -> str:
        """Create the object and return its ETag, or raise AlreadyExists if the key is taken."""

    @abstractmethod
    def put_if_match(self, key: str, data: bytes, etag: str) -> str:
        """Replace the object if it has this ETag and return the new one.

        Raises PreconditionFailed if it has another ETag, or is missing.
        """

    @abstractmethod
    def writer(self, key: str) -> ObjectWriter:
        """Return a writer for an object of any size, in bounded memory; closing it replaces."""

    @abstractmethod
    def delete(self, keys: Iterable[str]) -> None:
        """Delete each key; a missing one is not an error.

        Neither atomic nor ordered: a caller that needs an order calls twice. Raises if any key
        could not be deleted; some, or all, of the others are gone then.
        """

    def delete_once(self, key: str) -> None:
        """Delete one key by one request that is never repeated: the key may name another object by
        then.

        Raises Unanswered where it is not known whether the delete was applied.
        """
        self.delete([key])

    def refuses_stale_writes(self) -> bool | None:
        """Return whether ``put_if_match`` is refused for another ETag.

        None where only a measurement can show it.
        """
        return None

    def keeps_versions(self) -> bool | None:
        """Return whether a DELETE keeps the object's versions (and their cost); None if unknown."""
        return None


def writable(bucket: ReadBucket) -> Bucket:
    """Return the same bucket, for writing. Raises Invalid if it was opened for reading only."""
    if not hasattr(bucket, "put_if_absent"):
        raise Invalid(f"{bucket.url} was opened for reading only: open the table for writing")
    return cast(Bucket, bucket)


def is_there(bucket: ReadBucket, key: str) -> bool:
    """Return whether the object exists, by one HEAD: also where a listing does not show it yet."""
    try:
        bucket.head(key)
    except ObjectMissing:
        return False
    return True
