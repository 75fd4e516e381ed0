"""Quarantine: keeping merges away from a block that is not what its table says it is (R4).

Rules:
- A block of the index is damaged where an object of it is not there, or has another size, or its
  meta.json cannot be read: what a listing lacks is asked for by name before anything is said, since
  listings are older than states and may lag.
- What the bytes of a chunk show only a merge finds: it ends with DamagedInput.
- A damaged block gets a no-compact mark with the reason ``malformed`` and a sentence that says what
  was found and what to do, once; it stays what it is to readers. The mark goes with a ``repair``
  that finds the block whole (``blockstore/care``), or by a person's hand. A block that is gone, or
  on its way out, is not damaged: another process merged it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

import orjson

from blockstore.bucket.api import ReadBucket, is_there
from blockstore.errors import NotFound, ObjectMissing
from blockstore.format.block import BlockMeta
from blockstore.format.marks import NoCompactReason
from blockstore.lifecycle.listing import Listing
from blockstore.lifecycle.mark import place_no_compact
from blockstore.names import META, deletion_mark_key, meta_key, object_key
from blockstore.table import Table
from blockstore.world import World

__all__ = ["contradicted", "quarantine", "unreadable"]

_logger = logging.getLogger(__name__)

_TURN = 64
"""So many meta.json of a remote store are read by one thread in a row: each is a few kilobytes. Of
a folder one thread reads all: several take three times as long, since they wait for one another and
not for a disk."""


def contradicted(
    bucket: ReadBucket, listing: Listing, metas: Iterable[BlockMeta]
) -> dict[str, str]:
    """The blocks of which an object is missing or has another size: ULID to what is wrong."""
    damaged = {}
    for meta in metas:
        directory = listing.directories.get(meta.ulid)
        if directory is None:
            continue  # younger than the listing, or gone: whoever reads it will say so
        if META in directory.objects and directory.difference(meta) is None:
            continue
        why = _by_name(bucket, meta)
        if why is not None:
            damaged[meta.ulid] = f"block {meta.ulid}: {why}: restore it from a copy"
    return damaged


def unreadable(bucket: ReadBucket, world: World, metas: Sequence[BlockMeta]) -> dict[str, str]:
    """The blocks whose meta.json is no JSON of theirs: ULID to what is wrong."""
    ulids = [meta.ulid for meta in metas]
    turn = _TURN if bucket.path_of(META) is None else max(1, len(ulids))
    turns = [ulids[start : start + turn] for start in range(0, len(ulids), turn)]
    found = world.pool.map(lambda turn: [(ulid, _unread(bucket, ulid)) for ulid in turn], turns)
    return {ulid: why for answers in found for ulid, why in answers if why is not None}


def quarantine(table: Table, ulid: str, why: str) -> bool:
    """Mark the block, if it is still one that readers read;

    False if it is not, and then nothing was wrong with it.
    """
    if not _is_live(table, ulid):
        return False
    try:
        placed = place_no_compact(table.bucket, table.world, ulid, NoCompactReason.MALFORMED, why)
    except NotFound:
        placed = False  # not one object is left of it: every merge names it again
    if placed:
        _logger.warning("block %s of %s is quarantined: %s", ulid, table.url, why)
    return True


def _is_live(table: Table, ulid: str) -> bool:
    if table.indexed:
        return ulid in table.log.poll().blocks
    return is_there(table.bucket, meta_key(ulid)) and not is_there(
        table.bucket, deletion_mark_key(ulid)
    )


def _by_name(bucket: ReadBucket, meta: BlockMeta) -> str | None:
    if not is_there(bucket, meta_key(meta.ulid)):
        return f"{META} is missing"
    for file in meta.files:
        try:
            found = bucket.head(object_key(meta.ulid, file.path)).size
        except ObjectMissing:
            return f"{file.path} is missing"
        if found != file.bytes:
            return f"{file.path} has {found:,} bytes, expected {file.bytes:,}"
    return None


def _unread(bucket: ReadBucket, ulid: str) -> str | None:
    try:
        document = orjson.loads(bucket.get(meta_key(ulid)).data)
    except ObjectMissing:
        return f"block {ulid}: {META} is missing: restore it from a copy"
    except orjson.JSONDecodeError as error:
        return f"block {ulid}: {META} cannot be read ({error}): restore it from a copy"
    named = document.get("ulid") if isinstance(document, dict) else None
    if named != ulid:
        return f"block {ulid}: {META} names the block {named!r}: restore it from a copy"
    return None
