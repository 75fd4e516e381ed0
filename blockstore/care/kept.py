"""Blocks that only tags and older versions name: a reader of those needs them as much as the newest
one's.

Rule: what is named is decided as for removal (``index/reachable.py``), but past whatever is damaged: a
tag that cannot be read is told elsewhere, and names nothing here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from blockstore.bucket.api import ReadBucket
from blockstore.care.finding import Check, Severity
from blockstore.care.survey import Survey, read_checkpoint, slim
from blockstore.errors import Corrupt
from blockstore.format.block import BlockMeta

__all__ = ["KeptBlock", "kept_blocks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBlock:
    """A block that the newest version does not name."""

    meta: BlockMeta
    """As the index has it, without statistics."""
    check: Check
    severity: Severity
    who: str
    """Who names it, for a message."""
    instead: str
    """What to do where nobody has its bytes."""


def kept_blocks(bucket: ReadBucket, index: Survey) -> Mapping[str, KeptBlock]:
    """These blocks, by ULID: those of tags, and those that a version above the boundary had."""
    if index.state is None:
        return {}
    live = index.state.blocks
    found = {
        ulid: KeptBlock(
            meta=one.block.meta,
            check=Check.VERSION,
            # A repair has left it behind knowingly.
            severity=Severity.NOTE if one.by_repair else Severity.ERROR,
            who=f"version {one.entry - 1}",
            instead="restore it from a copy, or leave it: that version goes with its history",
        )
        for ulid, one in index.removed.items()
        if ulid not in live
    }
    for tag, version in sorted(index.state.tags.items()):
        try:
            tagged = read_checkpoint(bucket, version)
        except Corrupt:
            continue
        for block in tagged.blocks:
            if block.ulid not in live:
                found[block.ulid] = KeptBlock(
                    meta=slim(block.meta),
                    check=Check.TAG,
                    severity=Severity.ERROR,
                    who=f"tag {tag!r}",
                    instead=f"restore it from a copy, or blockstore untag {bucket.url} {tag}",
                )
    return found
