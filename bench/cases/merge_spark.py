"""A merge by the Spark engine against the local engine: the same blocks, read by both, and the same
rows written."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import inputs
from bench.case import Case, Figures, Metric, Prepare, Scale, Task
from bench.cases.spark_frame import session, url_of

__all__ = ["MERGE_SPARK"]

_MEMORY_BYTES = 1 << 30


def prepare(task: Task) -> None:
    """``blocks`` blocks of ``rows`` rows, each sorted by ``id``, their keys interleaved."""
    import blockstore as bs

    table = bs.create(_url(task), schema=inputs.SCHEMA, sort_by=["id"])
    for rows in inputs.overlapping(task.sizes["blocks"], task.sizes["rows"], task.seed):
        table.append(rows)


def measure(task: Task) -> Figures:
    """Neither commits, so both merge the same inputs: by one process with all its threads, and as
    two tasks of ``local[2]``."""
    import blockstore as bs
    from blockstore import spark as bs_spark
    from blockstore.compactor.merge import MergeInput, MergeOptions, MergeTask
    from blockstore.compactor.merge.local import LocalEngine

    table = bs.open(_url(task))
    blocks = [block.meta for block in table.log.state.blocks]
    total = sum(meta.rows for meta in blocks)
    options = MergeOptions(memory_bytes=_MEMORY_BYTES, work_dir=task.directory / "work")

    def merging() -> MergeTask:
        return MergeTask(
            ulid=table.world.ids.ulid(),
            inputs=tuple(MergeInput(meta=meta) for meta in blocks),
            definition=table.definition,
        )

    half = -(-sum(meta.bytes for meta in blocks) // 2)
    spark = bs_spark.merge_engine(session(), piece_bytes=half)
    spark.session.range(2).mapInArrow(
        lambda batches: batches, "id long"
    ).collect()  # workers are up
    ways: dict[str, Any] = {"local": LocalEngine(), "spark": spark}
    rows_per_s = {}
    for name, engine in ways.items():
        seconds, merged = _timed(
            lambda engine=engine: engine.merge(table.bucket, table.world, merging(), options)
        )
        if merged.written.rows != total:
            raise ValueError(f"the {name} engine wrote {merged.written.rows} rows of {total}")
        rows_per_s[name] = total / seconds / 1e6
    return {
        "ratio": rows_per_s["spark"] / rows_per_s["local"],
        "rows_per_s": rows_per_s["spark"],
        "local_rows_per_s": rows_per_s["local"],
    }


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    done = work()
    return time.perf_counter() - started, done


def _url(task: Task) -> str:
    return url_of(Path(task.directory), "table", durable=False)


MERGE_SPARK = Case(
    name="merge_spark",
    sentence="merge 40 blocks of 200,000 sorted rows as two tasks of Spark, local[2], against the "
    "local engine",
    peers=("ours",),
    metrics=(
        Metric(
            name="ratio", unit="x", title="Spark against local", higher_is_better=True, digits=2
        ),
        Metric(
            name="rows_per_s",
            unit="M rows/s",
            title="Spark engine",
            higher_is_better=True,
            digits=2,
        ),
        Metric(
            name="local_rows_per_s",
            unit="M rows/s",
            title="local engine",
            higher_is_better=True,
            digits=2,
        ),
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
