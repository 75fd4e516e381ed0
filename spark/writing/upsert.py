"""The end of an upsert or a merge, on the driver: the chunks of the accepted task attempts become
one block of changes."""

from __future__ import annotations

from collections.abc import Sequence

from blockstore.index.entry import Operation
from blockstore.operations.access import Access
from blockstore.operations.append import earlier_block
from blockstore.rows.attempts import Said
from blockstore.rows.distributed import commit_parts
from blockstore.rows.parts import Part
from blockstore.spark.writing.options import WriteMode
from blockstore.spark.writing.plan import PRODUCER, WritePlan
from blockstore.spark.writing.result import Written
from blockstore.table import Table


def upserted(plan: WritePlan, table: Table, parts: Sequence[Part]) -> Written:
    """Make one visible block of what the tasks wrote. Raises as ``commit_parts``."""
    said = Said(job=plan.job, ordered=not plan.any_order, labels=plan.labels, message=plan.message)
    merges = plan.mode is WriteMode.MERGE
    done = commit_parts(
        Access.of(table.bucket, table.world, table.log),
        parts,
        ulid=plan.ulid,
        definition=plan.definition,
        labels=plan.labels,
        said=said,
        producer=PRODUCER,
        operation=Operation.MERGE if merges else Operation.UPSERT,
        read_version=plan.read_version,
    )
    chunks, did = done.chunks, done.did
    ulid = did.block
    if did.already and plan.job is not None:
        earlier = earlier_block(table.log.state, plan.job)
        ulid = None if earlier is None else earlier.ulid
    return Written(
        url=plan.url,
        operation=did.operation,
        ulid=ulid,
        version=did.version,
        published=did.version is not None,
        already=did.already,
        rows=0 if chunks is None else chunks.rows,
        bytes=0 if chunks is None else chunks.bytes,
        chunks=0 if chunks is None else len(chunks.files),
        inserted=did.inserted if merges else None,
        updated=did.updated if merges else None,
        deleted=did.deleted if merges else None,
    )
