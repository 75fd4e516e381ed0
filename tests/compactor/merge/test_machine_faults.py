"""How a merge reports a chunk that cannot be read: the machine's fault is raised as it is, the
block's names the block.
"""

from __future__ import annotations

import errno
import hashlib
import os
import resource
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blockstore.bucket import Bucket
from blockstore.bucket.wrapper import Wrapper
from blockstore.compactor.merge import DamagedInput, MergeOptions
from blockstore.compactor.merge.pieces import Pieces
from blockstore.compactor.merge.workdir import clear_abandoned
from blockstore.format.block import BlockMeta
from blockstore.format.definition import Definition
from blockstore.names import object_key
from tests.compactor.merge.blocks import Bench

ROWS = 50_000
MACHINE = pytest.mark.parametrize(
    "error",
    [
        pa.ArrowMemoryError("malloc of size 1073741824 failed"),
        MemoryError("out of memory"),
        OSError(errno.EIO, "Input/output error"),
        OSError(errno.EMFILE, "Too many open files"),
    ],
    ids=["arrow-memory", "memory", "io", "files"],
)


def bench(tmp_path: Path) -> Bench:
    schema = pa.schema([("k", pa.int64()), ("row", pa.int64())])
    return Bench(tmp_path / "work", Definition.create(schema, sort_by=["k"]))


def rows(seed: int) -> pa.Table:
    values = np.random.default_rng(seed).integers(0, 1 << 60, ROWS)
    return pa.table({"k": values, "row": np.arange(seed * ROWS, (seed + 1) * ROWS)})


def failing_once(error: Exception, real: Callable[..., object]) -> Callable[..., object]:
    errors = [error]

    def call(*args: object, **options: object) -> object:
        if errors:
            raise errors.pop()
        return real(*args, **options)

    return call


@MACHINE
@pytest.mark.parametrize(
    ("step", "memory_bytes"),
    [("__init__", 1 << 20), ("iter_batches", 1 << 20), ("__init__", 1 << 30), ("read", 1 << 30)],
)
def test_a_machine_that_fails_damages_no_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, step: str, memory_bytes: int
) -> None:
    at = bench(tmp_path)
    metas = [at.block(rows(seed)) for seed in range(2)]
    monkeypatch.setattr(pq.ParquetFile, step, failing_once(error, getattr(pq.ParquetFile, step)))
    with pytest.raises(type(error)) as raised:
        at.merge(metas, memory_bytes=memory_bytes)
    assert raised.value is error
    _, merged = at.merge(metas, memory_bytes=memory_bytes)
    assert merged.written.rows == 2 * ROWS


def test_a_merge_opens_no_more_files_than_the_process_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = bench(tmp_path)
    metas = [at.block(rows(seed)) for seed in range(48)]
    before, most = len(os.listdir("/proc/self/fd")), 0
    opened = pq.ParquetFile.__init__

    def counting(self: pq.ParquetFile, *args: object, **options: object) -> None:
        nonlocal most
        opened(self, *args, **options)
        most = max(most, len(os.listdir("/proc/self/fd")) - before)

    monkeypatch.setattr(pq.ParquetFile, "__init__", counting)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (32, 32))
    _, merged = at.merge(metas, memory_bytes=1 << 26)
    assert merged.written.rows == 48 * ROWS
    assert 0 < most <= 32


def spoiled(at: Bench, meta: BlockMeta, first: int, last: int) -> BlockMeta:
    """The block with garbage in its chunk, under a meta.json that promises just that."""
    file = meta.files[0]
    key = object_key(meta.ulid, file.path)
    data = bytearray(at.bucket.get(key).data)
    data[first:last] = b"\xff" * len(data[first:last])
    at.bucket.put(key, bytes(data))
    return replace(meta, files=(replace(file, sha256=hashlib.sha256(data).hexdigest()),))


@pytest.mark.parametrize("memory_bytes", [1 << 20, 1 << 30])
@pytest.mark.parametrize("spot", [(0, 1 << 30), (4, 60), (-80, -20), (-8, -4)])
def test_garbage_of_the_promised_size_and_hash_is_a_damaged_block(
    tmp_path: Path, spot: tuple[int, int], memory_bytes: int
) -> None:
    at = bench(tmp_path)
    good, bad = at.block(rows(0)), spoiled(at, at.block(rows(1)), *spot)
    with pytest.raises(DamagedInput, match="not a readable Parquet file") as found:
        at.merge([good, bad], memory_bytes=memory_bytes)
    assert found.value.ulid == bad.ulid


class Starting(Wrapper):
    """A bucket during whose requests another process starts, and clears the work disk of what dead
    ones left."""

    def __init__(self, inner: Bucket, work_dir: Path) -> None:
        super().__init__(inner)
        self._work_dir = work_dir
        self.cleared: list[int] = []

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self.cleared.append(clear_abandoned(self._work_dir))
        return super().get_range(key, start, length)


def test_a_process_that_starts_leaves_the_pieces_of_a_living_one_alone(tmp_path: Path) -> None:
    at = bench(tmp_path)
    task = at.task([at.block(rows(seed)) for seed in range(3)])
    bucket = Starting(at.bucket, at.work_dir)
    options = MergeOptions(memory_bytes=1 << 20, chunk_bytes=1 << 20, work_dir=at.work_dir)
    merged = Pieces().merge(bucket, at.world, task, options)
    assert bucket.cleared, "the merge is to use its work folder"
    assert set(bucket.cleared) == {0}
    assert merged.written.rows == 3 * ROWS
    assert list(at.work_dir.iterdir()) == []
