"""Every error of Blockstore, in one tree, grouped by what the caller does next.

    BlockstoreError
    ├── Unavailable              try again later: no response from the store or the network
    │   ├── Throttled              the store limits the rate of requests
    │   ├── Unanswered             a write was sent and may or may not have been applied
    │   ├── Contended              two conditional writes at once (HTTP 409): send the same again
    │   ├── NoSpace                the disk or the quota is full
    │   └── SnapshotExpired        a part of what was read before is gone: read the table again
    ├── Conflict                 read again, decide again
    │   ├── RowConflict            rows were changed since they were read
    │   ├── Fenced                 another process holds this role now: stop
    │   ├── BlockCondemned         the block is at or below the horizon: upload again
    │   ├── HistoryReplaced        the table was put back, or made again: open it again
    │   ├── AlreadyExists          a create-if-absent lost
    │   └── PreconditionFailed     a compare-and-set lost
    ├── Indeterminate            it is not known yet whether the operation was applied
    ├── NotFound                 no such table, version, tag, block or object
    │   ├── ObjectMissing          the bucket has no such key (HTTP 404)
    │   ├── TableDropped           the table was dropped: undrop it, or create another
    │   └── VersionExpired         the version existed and was collected
    ├── Invalid                  fix the call
    │   ├── AccessDenied           the credentials do not allow it
    │   ├── NoMemory               it needs more memory or disk than it may use
    │   └── MissingExtra           an optional package is not installed
    └── Corrupt                  stop, a person must look: stored bytes contradict the format
        ├── NewerFormat            written by a newer release: upgrade
        └── BoundaryLost           index entries without a boundary, or a boundary that fell

A message is one sentence: what is affected, what was found, what was expected and what to do.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = [
    "AccessDenied",
    "AlreadyExists",
    "BlockCondemned",
    "BlockstoreError",
    "BoundaryLost",
    "Conflict",
    "Contended",
    "Corrupt",
    "Fenced",
    "HistoryReplaced",
    "Indeterminate",
    "Invalid",
    "MissingExtra",
    "NewerFormat",
    "NoMemory",
    "NoSpace",
    "NotFound",
    "ObjectMissing",
    "PreconditionFailed",
    "RowConflict",
    "SnapshotExpired",
    "TableDropped",
    "Throttled",
    "Unanswered",
    "Unavailable",
    "VersionExpired",
]


class BlockstoreError(Exception):
    """The root: catch it to catch everything that Blockstore raises on purpose."""


class Unavailable(BlockstoreError):
    """The store did not respond. Nothing is known to be wrong: try again later."""


class Throttled(Unavailable):
    """The store limits the rate of requests (503 SlowDown); the request was not applied."""


class Unanswered(Unavailable):
    """A request was sent and its response was lost: a write may or may not have been applied."""


class Contended(Unavailable):
    """Two conditional writes at once (409 ConditionalRequestConflict). This one was not applied:
    send it again."""


class NoSpace(Unavailable):
    """The disk or the quota is full; nothing of the object is visible."""


class SnapshotExpired(Unavailable):
    """A leaf of the checkpoint that a state was read from is gone: collected since, or lost. Read
    the table again; what the leaf held is not known, and counts neither as there nor as absent."""


class Conflict(BlockstoreError):
    """What the operation relied on has changed: read again and decide again.

    ``block`` is the ULID of the block that was changed or is gone, if there is one.
    """

    def __init__(self, message: str, *, block: str | None = None) -> None:
        super().__init__(message)
        self.block = block


class RowConflict(Conflict):
    """Rows that the operation has read, or whose version its caller named, were changed since:
    nothing of it was applied.

    ``rows`` has, for each row, its id or key, the version that was expected and the one that was
    found (None: it was deleted, or it is not known). ``places`` has the number of each of them in
    what the caller handed in, from 0, where it is known.
    """

    def __init__(
        self,
        message: str,
        *,
        rows: Sequence[tuple[object, object, object]] = (),
        places: Sequence[int] = (),
    ) -> None:
        super().__init__(message)
        self.rows = tuple(rows)
        self.places = tuple(places)


class Fenced(Conflict):
    """Another process has claimed this role; the holder of the old epoch must stop."""


class BlockCondemned(Conflict):
    """The block is at or below the horizon and may be removed at any time: upload its rows
    again."""


class HistoryReplaced(Conflict):
    """The table's history is not the one that this handle has read: a copy was put back, or the
    table was made again.

    Nothing of the operation was acknowledged. The handle cannot be used any more: open the table
    again. ``dropped`` says that the table was dropped and another one was created there.
    """

    def __init__(self, message: str, *, dropped: bool = False) -> None:
        super().__init__(message)
        self.dropped = dropped


class AlreadyExists(Conflict):
    """A create-if-absent found the key taken (412)."""


class PreconditionFailed(Conflict):
    """A compare-and-set found other content (412), or none."""


class Indeterminate(BlockstoreError):
    """It is not known yet whether the operation was applied.

    ``commit`` is the operation's commit id, ``entry`` the number of the index entry that will
    decide, ``ulid`` the block that an append can resume (``append(data, resume=ulid)``); each None
    where it does not apply.
    """

    def __init__(
        self,
        message: str,
        *,
        commit: str | None = None,
        entry: int | None = None,
        ulid: str | None = None,
    ) -> None:
        super().__init__(message)
        self.commit = commit
        self.entry = entry
        self.ulid = ulid


class NotFound(BlockstoreError):
    """No such table, version, tag, block or object."""


class ObjectMissing(NotFound):
    """The bucket has no object of this key (404)."""


class TableDropped(NotFound):
    """The table was dropped; the message names the version that did it and how to bring it back.

    Nothing of the operation is in the table.
    """


class VersionExpired(NotFound):
    """The version existed and was collected; the message names the oldest one left."""


class Invalid(BlockstoreError):
    """The call is wrong and changed nothing; the message says what to fix.

    If one of the rows is wrong, ``row`` is its number, from 0 over the complete write.
    """

    def __init__(self, *args: object, row: int | None = None) -> None:
        super().__init__(*args)
        self.row = row


class AccessDenied(Invalid):
    """The credentials do not allow the request (401, 403, EACCES)."""


class NoMemory(Invalid):
    """The call needs more memory, or temporary disk, than it may use: request less, or raise the
    limit that the message names."""


class MissingExtra(Invalid):
    """An optional package is needed; the message has the pip command that installs it."""


class Corrupt(BlockstoreError):
    """Stored bytes contradict the format. Nothing was changed; a person must look."""


class NewerFormat(Corrupt):
    """A newer release wrote the object; the message names the version found and what to upgrade."""


class BoundaryLost(Corrupt):
    """Index entries without a readable boundary, or a boundary that fell: every writer and
    collector stops."""
