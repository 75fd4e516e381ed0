"""How a mark says that a block's rows were adopted: written again as a block of their own, which
the mark names."""

from __future__ import annotations

from blockstore.format.marks import DeletionMark

ADOPTED = "adopted: its rows are those of block "
"""How the details of such a mark begin."""


def adopted_name(mark: DeletionMark | None) -> str | None:
    """The block that has the rows of a marked one;

    None if it is not marked, or for another reason.
    """
    return mark.superseded_by if mark is not None and mark.details.startswith(ADOPTED) else None
