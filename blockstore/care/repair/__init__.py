"""``repair``: mend what ``verify`` has found, as far as bytes that are still good allow it.

Rules:
- A block is never edited (R1): it is replaced by one with the same sources and a higher revision.
- Only bytes with the SHA-256 that was written are taken over, from the table or from a replica of
  it; a damaged row never gets a fresh hash.
- First it is said what would be done and how many rows would be lost; nothing is lost without being
  asked for.
"""

from __future__ import annotations

from blockstore.care.repair.plan import RepairOptions, RepairPlan, Step, StepKind, plan_repair
from blockstore.care.repair.run import Done, carry_out

__all__ = ["Done", "RepairPlan", "Step", "StepKind", "RepairOptions", "carry_out", "plan_repair"]
