"""Marks on blocks: a person's, and those that the compactor's quarantine has left.

The problem: a person wants a block deleted or kept out of merges, while writers, readers and a
compactor work on the same table. With an index the index decides what readers see; without one the
mark itself does, and a merge that is running could show the rows of a hidden block again.

The mental model: a mark is a small object in the block's directory. A deletion mark lets the
compactor remove the block after ``delete_delay``. A no-compact mark keeps the block out of merges.
Marks can be withdrawn at any time. Nothing here removes a block.

Types:
- ``Marker`` marks the blocks of one table and returns a ``Marked``.
- ``hiding`` hides a block of a table without an index so that no merge shows its rows again.
- ``quarantine`` recognizes the compactor's marks, and removes them from intact blocks.
- ``adopted`` formats the mark of a block whose rows were written again under another name.

Example::

    marker = Marker(bucket=bucket, world=world, log=log, properties=properties, catalog=catalog)
    print(marker.delete(ulid, "wrong units").summary)
    print(marker.withdraw(ulid, MarkKind.DELETION).summary)
"""

from __future__ import annotations

from blockstore.care.marks.marker import Marked, Marker, MarkKind

__all__ = ["MarkKind", "Marked", "Marker"]
