"""Repair: fix what ``verify`` has found, as far as good bytes are left.

The problem: a block has lost a file, or a checkpoint is corrupt. The table must be readable again
without a row being invented, and without losing a row that a copy still has.

The mental model: a plan first, then its steps. The plan says what each step does and how many rows
it would lose; nothing is lost unless the person asks for that.

Rules:
- A block is never edited (R1). It is replaced by one with the same sources and a higher revision.
- Only bytes with the SHA-256 that was written are taken, from the table or from a replica of it. A
  damaged row never gets a fresh hash.

Types: ``plan_repair`` takes ``RepairOptions`` and returns a ``RepairPlan`` of ``Step`` values;
``carry_out`` runs it and yields a ``Done`` for each step. Every step first checks whether it is
done, so a repair that died is run again.

Example::

    plan = plan_repair(bucket, world, target, RepairOptions(blocks=(ulid,), replica=replica))
    for done in carry_out(bucket, target, plan):
        print(done.step.object, done.summary)
"""

from __future__ import annotations

from blockstore.care.repair.plan import plan_repair
from blockstore.care.repair.run import Done, carry_out
from blockstore.care.repair.step import RepairOptions, RepairPlan, Step, StepKind

__all__ = ["Done", "RepairOptions", "RepairPlan", "Step", "StepKind", "carry_out", "plan_repair"]
