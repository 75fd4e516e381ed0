"""What a Spark job writes: one value, decided on the driver, carried to every task and to the commit.

Every task's process imports this module and ``task``, so they import nothing of the index.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from blockstore.format import Definition, Job

if TYPE_CHECKING:
    from blockstore.operations.append import AppendedBlock

__all__ = ["PRODUCER", "WritePlan"]

PRODUCER = "spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """One job's write: where, as which block, under which definition."""

    url: str
    ulid: str
    definition: Definition
    creates: bool
    """Whether the commit creates the table with this definition."""
    labels: Mapping[str, str] = field(default_factory=dict)
    job: Job | None = None
    buffer_bytes: int
    chunk_bytes: int
    done: AppendedBlock | None = None
    """The block by which the job was committed before: then there is nothing to write."""
