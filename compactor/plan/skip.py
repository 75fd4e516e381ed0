"""Streams that the compactor leaves alone, by label: ``skip`` protects them while a person repairs
them.

Rules:
- No block of such a stream is merged, expired by retention, marked by cleaning or removed. What was
  marked before waits.
- What hides and removes no row continues, so that no other stream waits: its blocks are published,
  invalid marks are withdrawn, and the watermarks and the index advance as for all others. A
  superseded block that stays longer is not counted: the index or the cover accounts for its
  sources.
- A directory belongs to the stream that its meta.json names. One without a readable meta.json
  belongs to no stream: an aborted upload goes by R4, and an interrupted removal is finished.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from blockstore.format.block import BlockMeta, StreamKey
from blockstore.lifecycle.listing import Found

Labels = Collection[tuple[str, str]]

LEFT_ALONE = "the configuration skips its stream"
"""Why a block stays although its mark is due."""


def is_skipped(meta: BlockMeta, skip: Labels) -> bool:
    """Whether the block has one of the labels."""
    return any(meta.labels.get(name) == value for name, value in skip)


def has_label(stream: StreamKey, skip: Labels) -> bool:
    """Whether the blocks of a stream have one of the labels."""
    return any(label in stream.labels for label in skip)


def skipped_blocks(found: Mapping[str, Found], skip: Labels) -> dict[str, str]:
    """The blocks of skipped streams: ULID to why they are left alone."""
    return {
        ulid: LEFT_ALONE
        for ulid, one in found.items()
        if one.meta is not None and is_skipped(one.meta, skip)
    }
