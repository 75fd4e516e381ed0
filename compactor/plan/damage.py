"""Which blocks are damaged, as far as listings and meta.json show (R4).

Rules:
- A block of the index is damaged where one of its objects is missing or has another size, or its
  meta.json cannot be read. What a listing lacks is looked up by name before anything is reported,
  since listings are older than states and may lag.
- Of a live block only the columns of the index are compared with the listing: whether meta.json is
  there, and whether its chunks have as many bytes together as the block. Where they do not, each of
  its objects is looked at. All objects of a block are looked at before it is merged.
- Damaged bytes inside a chunk are found only by a merge, which ends with DamagedInput.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np
import orjson
import pyarrow as pa

from blockstore.bucket.api import ReadBucket, is_there
from blockstore.errors import ObjectMissing
from blockstore.format.block import BlockMeta
from blockstore.index import ulids as of_ulids
from blockstore.index.arrow import integers
from blockstore.lifecycle.listing import Directory, Listing
from blockstore.names import META, is_chunk_path, meta_key, object_key
from blockstore.world import Serial, World


def suspects(listing: Listing, frame: pa.Table, *, but: Collection[str]) -> list[str]:
    """The blocks of ``frame`` that are listed and may have an object missing or of the wrong size,
    without some."""
    listed = [ulid for ulid in listing.directories if ulid not in but]
    if not listed or not len(frame):
        return []
    names, live = of_ulids.from_texts(listed), of_ulids.from_arrow(frame["ulid"])
    places = np.minimum(live.searchsorted(names), len(live) - 1)
    expected = np.where(live[places] == names, integers(frame["bytes"])[places], -1)
    return [
        ulid
        for ulid, size in zip(listed, expected.tolist(), strict=True)
        if size >= 0 and _chunk_bytes(listing.directories[ulid]) != size
    ]


def _chunk_bytes(directory: Directory) -> int | None:
    """The bytes of the chunks of a directory; None where it has no meta.json."""
    objects = directory.objects
    if META not in objects:
        return None
    return sum(info.size for path, info in objects.items() if is_chunk_path(path))


def contradicted(
    bucket: ReadBucket, listing: Listing, metas: Iterable[BlockMeta]
) -> dict[str, str]:
    """The blocks that have an object missing or of the wrong size: ULID to what is wrong."""
    damaged = {}
    for meta in metas:
        directory = listing.directories.get(meta.ulid)
        if directory is None:
            continue  # newer than the listing, or gone: reading it will show
        if META in directory.objects and directory.difference(meta) is None:
            continue
        why = _by_name(bucket, meta)
        if why is not None:
            damaged[meta.ulid] = f"block {meta.ulid}: {why}: restore it from a copy"
    return damaged


def unreadable(bucket: ReadBucket, world: World, metas: Sequence[BlockMeta]) -> dict[str, str]:
    """The blocks whose meta.json cannot be read or is another block's: ULID to what is wrong.

    Those of a folder are read by one thread: several take three times as long, since they wait for
    one another and not for a disk.
    """
    ulids = [meta.ulid for meta in metas]
    pool = world.pool if bucket.path_of(META) is None else Serial()
    problems = pool.map(lambda ulid: _unread(bucket, ulid), ulids)
    return {ulid: why for ulid, why in zip(ulids, problems, strict=True) if why is not None}


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
