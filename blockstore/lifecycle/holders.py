"""Which other blocks hold a write's rows: needed only by a writer that was refused, days after it
began.

Rules (``specs/upload.pml``):
- A write is never called refused while another upload of it may yet be seen, and never uploaded
  again once a merge holds it: a second block of it, one revision up, would knock the merge out of
  the cover.
- A block holds a write if it is complete, by one listing, and the write's source is among its
  sources.

It reads every meta.json of the table: it takes a writer that stalled for longer than partial_delay.
"""

from __future__ import annotations

from blockstore.bucket.api import ReadBucket
from blockstore.errors import Corrupt, ObjectMissing
from blockstore.format.block import BlockMeta
from blockstore.format.meta import load_meta
from blockstore.names import META, split_block_key


def holders(bucket: ReadBucket, meta: BlockMeta) -> list[BlockMeta]:
    """The other complete blocks that account for a source of ``meta``, by ULID."""
    listed: dict[str, dict[str, int]] = {}
    for found in bucket.list():
        place = split_block_key(found.key)
        if place is not None:
            listed.setdefault(place[0], {})[place[1]] = found.size
    candidates = sorted(
        ulid for ulid, inside in listed.items() if META in inside and ulid != meta.ulid
    )
    found_metas = ((ulid, _loaded(bucket, ulid)) for ulid in candidates)
    return [
        other
        for ulid, other in found_metas
        if other is not None
        and not set(other.sources).isdisjoint(meta.sources)
        and all(listed[ulid].get(file.path) == file.bytes for file in other.files)
    ]


def _loaded(bucket: ReadBucket, ulid: str) -> BlockMeta | None:
    try:
        return load_meta(bucket, ulid)
    except (ObjectMissing, Corrupt):
        return None
