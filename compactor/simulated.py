"""The compactor as an actor of the simulation.

Everything is the compactor's own code except the merge engine: the real one reads on threads of its
own, and a simulated process has none.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from blockstore.bucket.api import Bucket
from blockstore.compactor.clean.cleaner import Cleaner
from blockstore.compactor.clean.report import CleaningReport
from blockstore.compactor.clean.retention import retain
from blockstore.compactor.merge import DamagedInput, Merged, MergeOptions, MergeTask
from blockstore.compactor.merge.chunkrun import ChunkSpec
from blockstore.compactor.merge.inputs import chunk_specs
from blockstore.compactor.merge.result import PRODUCER
from blockstore.compactor.merge.sources import SOURCE, Sources
from blockstore.compactor.merge.versions import LEFT_OUT, column, extra_columns, numbered
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.errors import BlockstoreError, Corrupt, Fenced, HistoryReplaced, ObjectMissing
from blockstore.format.block_writer import BlockWriter
from blockstore.format.chunk_reader import read_chunk
from blockstore.format.fields import RESERVED
from blockstore.format.schema import adapt
from blockstore.index.epochs import COMPACTOR, Held, claim
from blockstore.index.gc import collect
from blockstore.names import object_key
from blockstore.simulation.actors.doors import met, open_table
from blockstore.simulation.process import Process, Role
from blockstore.simulation.rows import BUFFER_BYTES
from blockstore.table import Table
from blockstore.world import World

_SETTINGS = Settings(tier_blocks=3, work_dir=Path("/nonexistent"), concurrency=1)


class PlainEngine:
    """Merges in memory, in the caller's thread: read all, sort, write."""

    def merge(self, bucket: Bucket, world: World, task: MergeTask, options: MergeOptions) -> Merged:
        """The rows of all inputs under the table's schema, in the order of its sort key."""
        extra = extra_columns(task.definition.identity, task.kind)
        read = [
            _rows(bucket, spec, task, sources, extra)
            for sources in [Sources(task.met)]
            for spec in chunk_specs(task, sources)
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
            extra_columns=(SOURCE, *extra),
            presorted=True,
        )
        writer.write(kept.sort_by([(name, "ascending") for name in task.definition.sort_by]))
        return Merged(
            written=writer.finish(), dropped_rows=sum(rows for rows, _ in read) - kept.num_rows
        )


def _rows(
    bucket: Bucket, spec: ChunkSpec, task: MergeTask, sources: Sources, extra: tuple[str, ...]
) -> tuple[int, pa.Table]:
    """The number of rows of a chunk, and the rows that the merge takes, each with its source and
    what else says which row it is."""
    file, ulid = spec.file, spec.ulid
    try:
        table = read_chunk(bucket, object_key(ulid, file.path), file, verify=True)
    except (Corrupt, ObjectMissing) as error:
        raise DamagedInput(ulid, str(error)) from error
    if spec.source is None and not task.former:
        numbers = sources.numbers(table[SOURCE].combine_chunks(), ulid)
    else:
        numbers = pa.repeat(pa.scalar(spec.source or 0, pa.int32()), table.num_rows)
    places = np.arange(table.num_rows)
    numbers = numbered(numbers, spec.implied, places)
    rows = adapt(
        table.select([name for name in table.column_names if name not in RESERVED]),
        task.definition.schema,
    )
    rows = rows.append_column(SOURCE, sources.names.take(pc.max_element_wise(numbers, 0)))
    for name in extra:
        rows = rows.append_column(name, column(name, table, spec.implied, places))
    dropped = pa.array([LEFT_OUT, *sorted(spec.excepted)], pa.int32())
    return table.num_rows, rows.filter(pc.invert(pc.is_in(numbers, value_set=dropped)))


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
