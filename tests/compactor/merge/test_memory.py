"""The memory of a merge stays within its limit, whatever its inputs weigh."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa

from blockstore.format.block import BlockMeta
from blockstore.format.definition import Definition
from tests.compactor.merge.blocks import Bench

MIB = 1 << 20
SCHEMA = pa.schema([("k", pa.int64()), ("noise", pa.int64()), ("text", pa.string())])


@contextmanager
def watched() -> Iterator[list[int]]:
    """The most bytes that Arrow held at once inside the block, beyond those that it held before."""
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    peak: list[int] = []
    pa.set_memory_pool(pool)
    try:
        yield peak
        peak.append(pool.max_memory())
    finally:
        pa.set_memory_pool(before)


def written(at: Bench, count: int, rows: int) -> list[BlockMeta]:
    """Blocks over one range of keys, with texts that no encoding shrinks."""
    metas = []
    for number in range(count):
        rng = np.random.default_rng(number)
        noise = rng.integers(0, 1 << 62, rows)
        table = pa.table(
            {
                "k": np.sort(rng.integers(0, 1 << 40, rows)),
                "noise": noise,
                "text": pa.array([f"{value:032x}" for value in noise.tolist()]),
            },
            schema=SCHEMA,
        )
        metas.append(at.block(table, presorted=True))
    return metas


def test_a_merge_of_more_than_its_memory_stays_within_it(tmp_path: Path) -> None:
    at = Bench(tmp_path, Definition.create(SCHEMA, sort_by=["k"]))
    metas = written(at, 12, 60_000)
    weight = 12 * 60_000 * (8 + 8 + 4 + 32)
    with watched() as bounded:
        block, _ = at.merge(metas, memory_bytes=8 * MIB)
    with watched() as free:
        at.merge(metas, memory_bytes=1 << 30)
    assert weight > 4 * 8 * MIB
    # What Parquet's readers and writers take by themselves does not grow with the rows.
    assert bounded[0] < 8 * MIB + 8 * MIB, f"{bounded[0] / MIB:.1f} MiB"
    assert free[0] > 8 * MIB + 8 * MIB, "the bound above could not fail"
    assert block.rows == 12 * 60_000
