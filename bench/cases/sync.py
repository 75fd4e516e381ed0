"""The list path: what one process knows of a table's blocks, from nothing, again, and after a
restart."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

from bench import inputs
from bench.case import Case, Figures, Metric, Prepare, Scale, Task
from bench.timing import milliseconds
from blockstore.bucket import open_bucket
from blockstore.lifecycle.catalog import Catalog
from blockstore.lifecycle.list_path import list_snapshot
from blockstore.table import Table
from blockstore.world import World

__all__ = ["SYNC"]


def prepare(task: Task) -> None:
    """A table of ``blocks`` blocks of one row, none of them in the index."""
    handle = task.peer.create(task.directory, inputs.SCHEMA, ["id"])
    handle.ingest(inputs.ordered(task.sizes["blocks"], 1, task.seed))
    handle.close()


def measure(task: Task) -> Figures:
    """A fresh catalog each time for the first sync and for the one after a restart; the libraries
    are warm."""
    world = World.real()
    bucket = open_bucket(f"{task.directory / 'table'}?durable=false", world)
    properties = Table.open_bucket(bucket, world).definition.properties
    blocks, cache = task.sizes["blocks"], task.directory / "catalog"

    def sync(catalog: Catalog) -> None:
        if (found := len(catalog.sync().found)) != blocks:
            raise ValueError(f"{task.peer.name} finds {found} blocks of {blocks}")

    Catalog(bucket, world, cache).sync()
    known = Catalog(bucket, world)
    per_block = _bytes_held(known) / blocks
    synced = known.sync()
    return {
        "first_ms": milliseconds(lambda: sync(Catalog(bucket, world)), times=3, warm=1),
        "warm_ms": milliseconds(lambda: sync(known), times=5, warm=1),
        "restart_ms": milliseconds(lambda: sync(Catalog(bucket, world, cache)), times=3, warm=1),
        "cover_ms": milliseconds(
            lambda: list_snapshot(synced.found, None, properties, synced.listing.now_ms),
            times=5,
            warm=1,
        ),
        "bytes_per_block": per_block,
        "file_bytes_per_block": _size(cache) / blocks,
    }


def _bytes_held(catalog: Catalog) -> float:
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    catalog.sync()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return after - before


def _size(path: Path) -> int:
    return path.stat().st_size


SYNC = Case(
    name="sync",
    sentence="look at a table of 10,000 blocks by listing",
    peers=("ours-aged",),
    metrics=(
        Metric(name="first_ms", unit="ms", title="first sync", higher_is_better=False, digits=0),
        Metric(name="warm_ms", unit="ms", title="warm sync", higher_is_better=False, digits=0),
        Metric(
            name="restart_ms",
            unit="ms",
            title="sync after a restart",
            higher_is_better=False,
            digits=0,
        ),
        Metric(
            name="cover_ms", unit="ms", title="snapshot of it", higher_is_better=False, digits=0
        ),
        Metric(
            name="bytes_per_block",
            unit="B",
            title="memory a block",
            higher_is_better=False,
            digits=0,
        ),
        Metric(
            name="file_bytes_per_block",
            unit="B",
            title="cache file a block",
            higher_is_better=False,
            digits=0,
        ),
    ),
    sizes={
        Scale.FULL: {"blocks": 10_000},
        Scale.QUICK: {"blocks": 1_000},
        Scale.TINY: {"blocks": 5},
    },
    rounds=3,
    prepare=Prepare(name="listed", run=prepare),
    measure=measure,
    reference="ours-aged",
)
