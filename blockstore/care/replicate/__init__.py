"""Replicate: a copy of a table at another place, brought up to date by each pass.

The problem: a table must survive the loss of its store, or be read far from it. The copy has to be
readable at every moment, also while it is being updated and after a pass that died halfway.

The mental model: the replica is the same table. It has the same blocks under the same names and the
same index entries, byte for byte. Blocks are copied before the entries that name them, so a reader
of the replica sees a complete earlier version of the source. Only this process writes there.

Types:
- ``Replicator`` runs one pass at a time and returns a ``ReplicationReport``.
- ``blocks`` copies blocks and mirrors their marks; ``index`` copies entries and checkpoints.

Example::

    replicator = Replicator(open_bucket("lake/t", world), open_bucket("copy/t", world), world)
    report = replicator.once()
    print(report.version, report.blocks, report.refused)
"""

from __future__ import annotations

from blockstore.care.replicate.replicator import ReplicationReport, Replicator

__all__ = ["ReplicationReport", "Replicator"]
