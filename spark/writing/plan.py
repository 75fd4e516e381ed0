"""What a Spark job writes: one value, made on the driver, sent to every task and to the commit.

Every task's process imports this module and ``task``, so they import nothing of the index.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from blockstore.format import Definition, Job
from blockstore.spark.writing.options import IfExists, WriteMode

if TYPE_CHECKING:
    from blockstore.operations.distributed_overwrite import Begun
    from blockstore.spark.writing.result import Written


PRODUCER = "spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """One job's write: to which table, as which block, with which definition."""

    url: str
    ulid: str
    definition: Definition
    creates: bool
    """Whether the commit creates the table with this definition."""
    labels: Mapping[str, str] = field(default_factory=dict)
    job: Job | None = None
    any_order: bool = False
    """Whether the job's batches may be committed in any order."""
    if_exists: IfExists = IfExists.APPEND
    read: Definition | None = None
    """The table's definition, where the rows need another one, which comes with them."""
    begun: Begun | None = None
    """The overwrite; None for an append or an upsert."""
    mode: WriteMode = WriteMode.APPEND
    sequence_by: str | None = None
    read_version: int | None = None
    """The version from which the rows of a merge were computed."""
    exchanged: bool = False
    """Whether the rows of each key reach one task."""
    any_numbers: bool = False
    """Whether numbers get the types of their columns, where nothing is lost."""
    message: str = ""
    buffer_bytes: int
    chunk_bytes: int
    done: Written | None = None
    """The result if nothing is written: the job was committed before, or the table is left as it
    is."""
    plan_s: float = 0.0
    planned_ms: int = 0
    """When the plan was ready, by the clock of the driver's machine."""
