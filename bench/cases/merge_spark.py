"""Merges by the Spark engine against the local engine, per core: the same blocks, read by both, and
the same rows written."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench import inputs
from bench.case import Case, Figures, Metric, Prepare, Scale, Task
from bench.cases.spark_frame import session, url_of
from bench.cpu import Spent, spent

__all__ = ["MERGE_SPARK"]

_MEMORY_BYTES = 1 << 30
_CORES = 2
_MANY = 8
"""Merges at once, as tasks of their own."""

_WARM = 3


def prepare(task: Task) -> None:
    """``blocks`` blocks of ``rows`` rows, each sorted by ``id``, their keys interleaved."""
    import blockstore as bs

    table = bs.create(_url(task), schema=inputs.SCHEMA, sort_by=["id"])
    for rows in inputs.overlapping(task.sizes["blocks"], task.sizes["rows"], task.seed):
        table.append(rows)


def measure(task: Task) -> Figures:
    """Neither commits, so both merge the same inputs. All of them are one merge, in two pieces, and
    then several merges.

    The figure is the CPU time of a row, the least of a few runs. The JVM's is a figure of its own,
    because it does not grow with the rows.
    """
    import blockstore as bs
    from blockstore import spark as bs_spark
    from blockstore.compactor.merge import MergeInput, MergeOptions, MergeTask
    from blockstore.compactor.merge.local import LocalEngine

    table = bs.open(_url(task))
    blocks = [block.meta for block in table.log.state.blocks]
    total = sum(meta.rows for meta in blocks)
    options = MergeOptions(memory_bytes=_MEMORY_BYTES, work_dir=task.directory / "work")

    def merging(count: int) -> list[MergeTask]:
        return [
            MergeTask(
                ulid=table.world.ids.ulid(),
                inputs=tuple(MergeInput(meta=meta) for meta in blocks[first::count]),
                definition=table.definition,
            )
            for first in range(min(count, len(blocks)))
        ]

    half = -(-sum(meta.bytes for meta in blocks) // _CORES)
    engine = bs_spark.merge_engine(session(), piece_bytes=half)
    local = LocalEngine()

    def locally(tasks: Sequence[MergeTask]) -> list[Any]:
        return [local.merge(table.bucket, table.world, one, options) for one in tasks]

    def on_spark(tasks: Sequence[MergeTask]) -> list[Any]:
        return [one for _, one in engine.merge_all(table.bucket, table.world, tasks, options)]

    def least(way: Callable[[Sequence[MergeTask]], list[Any]], count: int) -> tuple[Spent, Spent]:
        """The first time, and the least of those after it."""
        times = []
        for _ in range(1 + _WARM):
            tasks = merging(count)
            before = spent()
            merged = way(tasks)
            times.append(spent().since(before))
            written = sum(one.written.rows for one in merged)
            if written != total:
                raise ValueError(f"{way.__name__} wrote {written} rows of {total}")
            for one in tasks:
                shutil.rmtree(task.directory / "table" / one.ulid)
        return times[0], min(times[1:])

    _, one_locally = least(locally, 1)
    _, many_locally = least(locally, _MANY)
    cold, one = least(on_spark, 1)
    _, many = least(on_spark, _MANY)
    return {
        "ratio": one_locally.own / one.own,
        "many_ratio": many_locally.own / many.own,
        "rows_per_s": total / one.own / 1e6,
        "local_rows_per_s": total / one_locally.own / 1e6,
        "java_s": one.java,
        "start_s": cold.own - one.own,
    }


def _url(task: Task) -> str:
    return url_of(Path(task.directory), "table", durable=False)


MERGE_SPARK = Case(
    name="merge_spark",
    sentence="merge 40 blocks of 200,000 sorted rows on Spark, local[2], against the local engine, "
    "by CPU seconds: as one merge in two pieces, and as 8 merges",
    peers=("ours",),
    metrics=(
        Metric(
            name="ratio", unit="x", title="per core, in pieces", higher_is_better=True, digits=2
        ),
        Metric(name="many_ratio", unit="x", title="… 8 merges", higher_is_better=True, digits=2),
        Metric(
            name="rows_per_s",
            unit="M rows/CPU s",
            title="Spark engine",
            higher_is_better=True,
            digits=2,
        ),
        Metric(
            name="local_rows_per_s",
            unit="M rows/CPU s",
            title="local engine",
            higher_is_better=True,
            digits=2,
        ),
        Metric(name="java_s", unit="CPU s", title="the JVM", higher_is_better=False),
        Metric(name="start_s", unit="CPU s", title="start of two workers", higher_is_better=False),
    ),
    sizes={
        Scale.FULL: {"blocks": 40, "rows": 200_000},
        Scale.QUICK: {"blocks": 10, "rows": 100_000},
        Scale.TINY: {"blocks": 3, "rows": 2_000},
    },
    rounds=2,
    prepare=Prepare(name="merge_spark", run=prepare, every_round=True),
    measure=measure,
    reference="ours",
)
