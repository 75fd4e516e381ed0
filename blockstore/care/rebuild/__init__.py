"""Rebuild: create an index again where it is lost.

The problem: the boundary, entries or checkpoints of a table are gone, and no copy has them. The
blocks are still there, and say much, but not all, of what the index said.

The mental model: take what can still be read of the old index, and decide about every other block
by what it says of itself. What is certain is taken; what only a person can know is reported with
the block's name, and decided with ``leave_out``.

Rules:
- A rebuild is refused while the index can be read.
- Nothing old is deleted or changed. The new index begins above every version that was ever seen, so
  a process that still holds the old one is refused or starts again, and never forks the history.

Types: ``plan_rebuild`` returns a ``RebuildPlan``; ``rebuild`` carries it out and returns a
``Rebuilt``. ``evidence`` gathers what is known of each block, ``decide`` judges it, ``compose``
builds the new state, ``write`` writes it.

Example::

    plan = plan_rebuild(bucket, world)
    if not plan.stops:
        print(rebuild(bucket, world, plan).version)
"""

from __future__ import annotations

from blockstore.care.rebuild.plan import RebuildPlan, plan_rebuild
from blockstore.care.rebuild.write import Rebuilt, rebuild

__all__ = ["RebuildPlan", "Rebuilt", "plan_rebuild", "rebuild"]
