"""The compactor as an actor of the simulation.

Everything is the compactor's own code except the merge engine: the real one reads on threads of its
own, and a simulated process has none.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from blockstore.bucket.api import Bucket
from blockstore.compactor.clean.cleaner import Cleaner
from blockstore.compactor.clean.report import CleaningReport
from blockstore.compactor.clean.retention import retain
from blockstore.compactor.merge import DamagedInput, Merged, MergeInput, MergeOptions, MergeTask
from blockstore.compactor.merge.result import PRODUCER
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.errors import BlockstoreError, Corrupt, Fenced, HistoryReplaced, ObjectMissing
from blockstore.format.block_writer import BlockWriter
from blockstore.format.chunk_reader import read_chunk
from blockstore.format.schema import adapt
from blockstore.index.epochs import COMPACTOR, Held, claim
from blockstore.index.gc import collect
from blockstore.names import object_key
from blockstore.simulation.actors.doors import met, open_table
from blockstore.simulation.process import Process, Role
from blockstore.simulation.rows import BUFFER_BYTES
from blockstore.table import Table
from blockstore.world import World

_SOURCE = "_source"
_SETTINGS = Settings(tier_blocks=3, work_dir=Path("/nonexistent"), concurrency=1)


class PlainEngine:
    """Merges in memory, in the caller's thread: read all, sort, write."""

    def merge(self, bucket: Bucket, world: World, task: MergeTask, options: MergeOptions) -> Merged:
        """The rows of all inputs under the table's schema, in the order of its sort key."""
        read = [
            _rows(bucket, item, number, task.definition.schema)
            for item in task.inputs
            for number in range(len(item.meta.chunks))
        ]
        kept = pa.concat_tables([table for _, table in read])
        writer = BlockWriter(
            bucket,
            world,
            task.ulid,
            task.definition,
            labels=dict(task.inputs[0].meta.labels),
            producer=PRODUCER,
            buffer_bytes=4 * BUFFER_BYTES,
            extra_columns=(_SOURCE,),
            presorted=True,
        )
        writer.write(kept.sort_by([(name, "ascending") for name in task.definition.sort_by]))
        return Merged(
            written=writer.finish(), dropped_rows=sum(rows for rows, _ in read) - kept.num_rows
        )


def _rows(bucket: Bucket, item: MergeInput, number: int, schema: pa.Schema) -> tuple[int, pa.Table]:
    """The number of rows of a chunk, and the rows that the merge takes, each with its source."""
    file, ulid = item.meta.chunks[number], item.meta.ulid
    try:
        table = read_chunk(bucket, object_key(ulid, file.path), file, verify=True)
    except (Corrupt, ObjectMissing) as error:
        raise DamagedInput(ulid, str(error)) from error
    if _SOURCE in table.column_names:
        sources = table[_SOURCE].cast(pa.string())
        table = table.drop_columns([_SOURCE])
    else:
        sources = pa.chunked_array([pa.repeat(pa.scalar(item.meta.sources[0]), table.num_rows)])
    dropped = pc.is_in(sources, value_set=pa.array(sorted(item.dropped), pa.string()))
    return table.num_rows, adapt(table, schema).append_column(_SOURCE, sources).filter(
        pc.invert(dropped)
    )


def tend(process: Process, thread: int) -> None:
    """One life of a compactor: it claims its role, then merges, cleans and collects until another
    process takes over."""
    held: Held | None = None
    cleaner: Cleaner | None = None
    before: Table | None = None
    while True:
        done = False
        table = open_table(process)
        if table is not before:
            before, held, cleaner = table, None, None
        try:
            if table.indexed and held is None:
                held = claim(table.log, process.world, COMPACTOR)
                cleaner = None
            cleaner = cleaner or Cleaner(table, held)
            _pass(process, table, held, cleaner)
            process.passes += 1
            done = True
        except (Fenced, HistoryReplaced) as error:
            met(process, error)
            held = None
        except BlockstoreError as error:
            met(process, error)
        process.rest(till_morning=done and process.draw.chance(0.9))


def _pass(process: Process, table: Table, held: Held | None, cleaner: Cleaner) -> None:
    """Merge, clean, collect: everything at the end of a run, otherwise one or two of them."""
    finishing, draw = process.finishing, process.draw
    if finishing or draw.chance(0.6):
        compact_once(table, _SETTINGS, engine=PlainEngine())
    if finishing or draw.chance(0.8):
        cleaned = cleaner.run()
        process.stage.note(process.name, f"cleaned: {_summary(cleaned)}")
    if draw.chance(0.2):
        retain(table, held)
    if held is not None and (finishing or draw.chance(0.6)):
        collect(table.log, process.world, held=held)


def _summary(cleaned: CleaningReport) -> str:
    fields = cleaned.to_json()
    return ", ".join(
        f"{name} {value}"
        for name, value in fields.items()
        if value and name not in ("table", "kept")
    )


ROLES = (Role(name="compactor", act=tend, count=2, retries=0.9, tends=True),)
