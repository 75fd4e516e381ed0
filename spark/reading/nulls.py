"""Which columns of a snapshot hold no null, by the statistics of its blocks. Pure.

Why: Spark asks each value of a column that may hold nulls whether it is one, and for rows out of
Python that is a quarter of its work.
"""

from __future__ import annotations

from blockstore.scan.chunk import ScanChunk
from blockstore.scan.plan import ScanPlan

__all__ = ["without_nulls"]


def without_nulls(plan: ScanPlan) -> frozenset[str]:
    """The columns of the plan's output of which no chunk holds a null. What is not known counts as
    one: hidden columns, labels, columns that are younger than a chunk, and all of a plan without
    chunks."""
    held = (
        [name for name in plan.output_schema.names if name in plan.columns.table.names]
        if plan.chunks
        else []
    )
    return frozenset(
        name for name in held if all(_none_in(chunk, plan, name) for chunk in plan.chunks)
    )


def _none_in(chunk: ScanChunk, plan: ScanPlan, name: str) -> bool:
    stored_as = plan.reads(chunk.schema_id)[name].stored_as
    found = None if stored_as is None else chunk.file.columns.get(stored_as)
    return found is not None and found.nulls == 0
