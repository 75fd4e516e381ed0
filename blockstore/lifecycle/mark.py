"""Placing and withdrawing marks: small objects next to a block that say what is to become of it
(R6).

Rules:
- A mark is written once: created if absent, so that marking a block twice changes nothing, not even
  the mark's age. Where the store does not support conditions, a look comes first and a plain PUT
  follows.
- A mark is on a block: a ULID in whose directory there is nothing is refused.
- A DELETE whose response was lost is sent again only while the mark is still the one that was
  looked at before: one that was placed meanwhile stays. A copy of that DELETE which the network
  delivers late cannot be taken back: the process that hides a block looks once more, later
  (``hiding.py``).
- A lost response is resolved by trying again: a process that finds the mark there is done,
  whichever process placed it.
- Nothing here decides what may be marked: that is R6's (``decide.py``), and a person's.
"""

from __future__ import annotations

from blockstore.bucket.api import Bucket, ReadBucket, is_there
from blockstore.errors import AlreadyExists, Invalid, NoSpace, NotFound, ObjectMissing, Unavailable
from blockstore.format.document import sealed
from blockstore.format.marks import (
    DeletionMark,
    MarkReason,
    NoCompactMark,
    NoCompactReason,
    encode_mark,
)
from blockstore.names import deletion_mark_key, is_ulid, no_compact_mark_key, object_key
from blockstore.world import World

_TRIES = 5
_PAUSE_S = 0.1


def place_deletion(
    bucket: Bucket,
    world: World,
    ulid: str,
    reason: MarkReason,
    details: str = "",
    superseded_by: str | None = None,
) -> bool:
    """Schedule a block's deletion; False if a deletion mark is there already, and then nothing is
    changed.

    Raises NotFound if nothing is in the block's directory.
    """
    key = deletion_mark_key(_known(bucket, ulid))
    if is_there(bucket, key):
        return False
    mark = DeletionMark(
        ulid=ulid,
        deletion_time_s=world.clock.now_ms() // 1000,
        reason=reason,
        details=details,
        superseded_by=superseded_by,
    )
    return put_mark(bucket, world, mark)


def withdraw_deletion(bucket: Bucket, world: World, ulid: str) -> None:
    """Take the deletion mark away; the next look at the table honors it. None there is not an
    error."""
    _withdraw(bucket, world, deletion_mark_key(_ulid(ulid)))


def place_no_compact(
    bucket: Bucket, world: World, ulid: str, reason: NoCompactReason, details: str = ""
) -> bool:
    """Keep the compactor's merges away from a block; False if such a mark is there already.

    Raises NotFound if nothing is in the block's directory.
    """
    key = no_compact_mark_key(_known(bucket, ulid))
    if is_there(bucket, key):
        return False
    mark = NoCompactMark(
        ulid=ulid, no_compact_time_s=world.clock.now_ms() // 1000, reason=reason, details=details
    )
    return put_mark(bucket, world, mark)


def withdraw_no_compact(bucket: Bucket, world: World, ulid: str) -> None:
    """Let merges take the block again. None there is not an error."""
    _withdraw(bucket, world, no_compact_mark_key(_ulid(ulid)))


def put_mark(bucket: Bucket, world: World, mark: DeletionMark | NoCompactMark) -> bool:
    """Write a mark on a block that a listing just showed without one;

    False if another is there by now.
    """
    key = (deletion_mark_key if isinstance(mark, DeletionMark) else no_compact_mark_key)(mark.ulid)
    data = sealed(encode_mark(mark))
    for attempt in range(1, _TRIES):
        try:
            return _created(bucket, key, data) or (attempt > 1 and bucket.get(key).data == data)
        except NoSpace:
            raise
        except Unavailable:
            world.clock.sleep(world.ids.uniform(0, _PAUSE_S * 2.0**attempt))
    return _created(bucket, key, data)


def _withdraw(bucket: Bucket, world: World, key: str) -> None:
    judged = found = _data(bucket, key)
    for attempt in range(1, _TRIES + 1):
        if found is None or found != judged:
            return
        try:
            bucket.delete_once(key)
            return
        except Unavailable as error:
            if attempt == _TRIES or isinstance(error, NoSpace):
                raise
            world.clock.sleep(world.ids.uniform(0, _PAUSE_S * 2.0**attempt))
        found = _data(bucket, key)


def _data(bucket: ReadBucket, key: str) -> bytes | None:
    try:
        return bucket.get(key).data
    except ObjectMissing:
        return None


def _created(bucket: Bucket, key: str, data: bytes) -> bool:
    try:
        bucket.put_if_absent(key, data)
    except AlreadyExists:
        return False
    except Invalid as error:
        if type(error) is not Invalid:
            raise
        # The store does not support conditions: two at once both write, and both mean the same.
        if is_there(bucket, key):
            return False
        bucket.put(key, data)
    return True


def _known(bucket: ReadBucket, ulid: str) -> str:
    if next(iter(bucket.list(object_key(_ulid(ulid), ""))), None) is None:
        raise NotFound(
            f"there is no block {ulid} in {bucket.url}: its directory is empty; list the blocks "
            "with 'blockstore inspect'"
        )
    return ulid


def _ulid(ulid: str) -> str:
    if not is_ulid(ulid):
        raise Invalid(
            f"{ulid[:60]!r} is not a ULID, expected 26 characters such as "
            "01JD0000000000000000000000"
        )
    return ulid
