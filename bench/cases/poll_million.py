"""A poll of a table of a million blocks, nothing new: the state is synthetic, its index is real.

The blocks have no files: an index reader looks at none. They are published in lots, as discovery
publishes what a fleet of devices has shipped; a checkpoint then holds them all, and a fresh handle
opens it before it polls.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bench import inputs
from bench.case import Case, Figures, Metric, Prepare, Scale, Task
from bench.cases.poll import polled
from blockstore.bucket import open_bucket
from blockstore.format.block import BlockMeta, ChunkFile, ColumnStats
from blockstore.ids import ulid_at
from blockstore.index.change import Append
from blockstore.index.checkpoint_write import write_checkpoint
from blockstore.index.log import Log
from blockstore.world import World

__all__ = ["POLL_MILLION"]

LOT = 1_000
FIRST_MS = 1_700_000_000_000


def prepare(task: Task) -> None:
    """A table whose index names ``blocks`` blocks."""
    task.peer.create(task.directory, inputs.SCHEMA, ["id"]).close()
    world = World.real()
    log = Log(open_bucket(f"{task.directory / 'table'}?durable=false", world), world)
    log.poll()
    blocks = _blocks(task.sizes["blocks"])
    while lot := [
        meta for _, meta in zip(range(min(LOT, task.sizes["blocks"])), blocks, strict=False)
    ]:
        log.commit(Append(commit=world.ids.ulid(), blocks=tuple(lot)))
    write_checkpoint(log.bucket, log.state)


def measure(task: Task) -> Figures:
    """The median of 200 polls by one handle, and what one of them asks of the store."""
    handle = task.peer.open(task.directory)
    if (found := handle.blocks()) != task.sizes["blocks"]:
        raise ValueError(f"{task.peer.name} lists {found} blocks of {task.sizes['blocks']}")
    return polled(task, handle)


def _blocks(count: int) -> Iterator[BlockMeta]:
    """One block a second, of a thousand rows each."""
    chunk = ChunkFile(
        path="chunks/000001.parquet",
        bytes=20_000,
        rows=1_000,
        sha256="0" * 64,
        columns={"id": ColumnStats(min=0, max=999, nulls=0)},
    )
    for number in range(count):
        at_ms = FIRST_MS + 1_000 * number
        ulid = ulid_at(at_ms)
        bounds = {"id": ColumnStats(min=1_000 * number, max=1_000 * number + 999, nulls=0)}
        yield BlockMeta(
            ulid=ulid,
            min_time=at_ms,
            max_time=at_ms + 1_000,
            rows=1_000,
            bytes=20_000,
            level=1,
            sources=(ulid,),
            time_column="time",
            sort_by=("id",),
            schema_id=1,
            files=(replace(chunk, columns=bounds),),
        )


POLL_MILLION = Case(
    name="poll-1m",
    sentence="poll a table of 1,000,000 blocks, nothing new",
    peers=("ours",),
    metrics=(
        Metric(name="poll_ms", unit="ms", title="poll", higher_is_better=False, digits=3),
        Metric(name="requests", unit="", title="requests", higher_is_better=False, digits=0),
    ),
    sizes={
        Scale.FULL: {"blocks": 1_000_000},
        Scale.QUICK: {"blocks": 20_000},
        Scale.TINY: {"blocks": 5},
    },
    rounds=1,
    prepare=Prepare(name="million", run=prepare),
    measure=measure,
    reference="ours",
)
