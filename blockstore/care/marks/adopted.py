"""The mark of an adopted block: its rows were written again as another block, which it names."""

from __future__ import annotations

from blockstore.format.marks import DeletionMark

ADOPTED = "adopted: its rows are those of block "
"""The first words of such a mark's details; stored in the bucket."""


def adopted_name(mark: DeletionMark | None) -> str | None:
    """Return the block that now has the rows; None if the mark has another reason."""
    return mark.superseded_by if mark is not None and mark.details.startswith(ADOPTED) else None
