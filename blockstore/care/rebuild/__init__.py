"""An index brought back: from what can still be read of it, and where that ends from what the
blocks say of themselves.

Rules:
- It is refused while the index can be read.
- What is certain is taken over; what only a person can know is told, with the block's name, and
  decided by ``leave_out``.
- Nothing old is deleted or changed, and the new index stands above everything that was ever seen,
  so a process that still holds the old one is refused or starts over, and never forks the history.
"""

from __future__ import annotations

from blockstore.care.rebuild.plan import RebuildPlan, plan_rebuild
from blockstore.care.rebuild.write import Rebuilt, rebuild

__all__ = ["RebuildPlan", "Rebuilt", "plan_rebuild", "rebuild"]
