"""Merging many sorted blocks whose keys interleave over the whole range and repeat."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from bench import inputs
from bench.case import Case, Figures, Metric, Prepare, Scale, Sizes, Task
from bench.timing import timed

__all__ = ["MERGE_10GB", "MERGE_SMALL", "MERGE_WIDE"]

METRICS = (
    Metric(name="rows_per_s", unit="M rows/s", title="merge", higher_is_better=True, digits=2),
    Metric(name="memory_mib", unit="MiB", title="peak memory", higher_is_better=False, digits=0),
)


def prepare(task: Task) -> None:
    """``blocks`` blocks of ``rows`` rows, each sorted by ``id``."""
    handle = task.peer.create(task.directory, inputs.SCHEMA, ["id"])
    handle.ingest(inputs.overlapping(task.sizes["blocks"], task.sizes["rows"], task.seed))
    handle.close()


def measure(task: Task) -> Figures:
    """One merge of everything, by a handle that was just opened."""
    total = task.sizes["blocks"] * task.sizes["rows"]
    handle = task.peer.open(task.directory)
    made: list[Path] = []
    seconds = timed(lambda: made.extend(handle.merge()))
    if (found := handle.count()) != total:
        raise ValueError(f"{task.peer.name} holds {found} rows after the merge of {total}")
    handle.close()
    if made and not _sorted(made):
        raise ValueError(f"{task.peer.name} merged into files that are not sorted by id")
    return {"rows_per_s": total / seconds / 1e6}


def _sorted(files: Sequence[Path]) -> bool:
    """Whether ``id`` never falls, over all files in turn; reads a row group at a time."""
    last = -1
    for path in files:
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                ids = file.read_row_group(group, columns=["id"])["id"].to_numpy()
                if len(ids) and (ids[0] < last or (np.diff(ids) < 0).any()):
                    return False
                last = ids[-1] if len(ids) else last
    return True


def _case(
    name: str, sentence: str, full: Sizes, quick: Sizes, rounds: int, peers: tuple[str, ...]
) -> Case:
    return Case(
        name=name,
        sentence=sentence,
        peers=peers,
        metrics=METRICS,
        sizes={Scale.FULL: full, Scale.QUICK: quick, Scale.TINY: {"blocks": 3, "rows": 200}},
        rounds=rounds,
        prepare=Prepare(name=name, run=prepare, every_round=True),
        measure=measure,
        memory=True,
        reference="duckdb",
    )


MERGE_WIDE = _case(
    "merge_wide",
    "merge 100 blocks of 200,000 sorted rows",
    {"blocks": 100, "rows": 200_000},
    {"blocks": 10, "rows": 100_000},
    2,
    ("duckdb", "duckdb-1gib", "ours", "lance", "delta"),
)
MERGE_SMALL = _case(
    "merge_small",
    "merge 1,000 blocks of 1,000 rows",
    {"blocks": 1_000, "rows": 1_000},
    {"blocks": 100, "rows": 1_000},
    2,
    ("duckdb", "ours", "lance", "delta", "iceberg"),
)
MERGE_10GB = _case(
    "merge_10gb",
    "merge 160 blocks of 3,200,000 sorted rows: 10 GB of Parquet, all of it over one key range",
    {"blocks": 160, "rows": 3_200_000},
    {"blocks": 16, "rows": 320_000},
    1,
    ("duckdb", "ours"),
)
