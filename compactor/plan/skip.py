"""Streams that the compactor leaves alone, by label: what ``skip`` promises to whoever repairs
them.

Rules:
- Nothing of such a stream is merged, taken out by retention, marked by cleaning or removed. What
  was marked before waits.
- What hides no row and takes none away goes on, so that no other stream waits for it: its blocks
  are published, marks that do not hold are withdrawn, and the watermarks and the index move as for
  all others. A superseded block that stays for longer is counted by nobody: the index or the cover
  accounts for its sources.
- A directory belongs to the stream that its meta.json names. One without, or with one that cannot
  be read, belongs to none: an aborted upload goes by R4, and what a removal left behind is
  finished.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from blockstore.format.block import BlockMeta
from blockstore.lifecycle.listing import Found

Labels = Collection[tuple[str, str]]

LEFT_ALONE = "its stream is left alone, by skip in the configuration"
"""Why a block waits whose mark is due."""


def is_skipped(meta: BlockMeta, skip: Labels) -> bool:
    """Whether the block has one of the labels."""
    return any(meta.labels.get(name) == value for name, value in skip)


def skipped_blocks(found: Mapping[str, Found], skip: Labels) -> dict[str, str]:
    """The blocks of skipped streams: ULID to why they are left alone."""
    return {
        ulid: LEFT_ALONE
        for ulid, one in found.items()
        if one.meta is not None and is_skipped(one.meta, skip)
    }
