"""An index whose entries were edited, made consistent again: as if a faulty program had written it
so from the start."""

from __future__ import annotations

from dataclasses import replace

from blockstore.bucket.api import Bucket
from blockstore.errors import Corrupt
from blockstore.format.document import sealed
from blockstore.index.chain import NO_LINK
from blockstore.index.checkpoint import decode_checkpoint, encode_checkpoint
from blockstore.index.entry import decode_entry, encode_entry
from blockstore.names import (
    CHECKPOINTS,
    INDEX,
    checkpoint_key,
    entry_key,
    parse_checkpoint,
    parse_entry,
)

__all__ = ["rechain"]


def rechain(bucket: Bucket) -> None:
    """Let every entry that can be read name the one below it as that is now, and every checkpoint
    the last of its own."""
    entries = sorted(
        one for info in bucket.list(INDEX, recursive=False) if (one := parse_entry(info.key))
    )
    last = NO_LINK
    links = {}
    for number in entries:
        try:
            entry = decode_entry(bucket.get(entry_key(number)).data, entry_id=number)
        except Corrupt:
            return
        if last.commit and entry.prev is not None:
            data = sealed(encode_entry(replace(entry, prev=last)))
            bucket.put(entry_key(number), data)
            entry = decode_entry(data, entry_id=number)
        last = links[number] = entry.link_after(last)
    for info in bucket.list(CHECKPOINTS):
        version = parse_checkpoint(info.key)
        if version in links:
            state = decode_checkpoint(bucket.get(info.key).data, version=version)
            bucket.put(
                checkpoint_key(version), encode_checkpoint(replace(state, last=links[version]))
            )
