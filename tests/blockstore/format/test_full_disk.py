"""A disk that fills up while a block is written: that is what is said, whatever fails after it, and
nothing is visible."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import blockstore as bs
from blockstore.bucket.api import Bucket, ObjectWriter
from blockstore.bucket.local import LocalBucket
from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.wrapper import Wrapper
from blockstore.errors import NoSpace
from blockstore.format.block_writer import BlockWriter
from blockstore.format.definition import Definition
from blockstore.world import World

BINARY = Path(sys.executable).parent / "blockstore"
SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("v", pa.float64())])
MIB = 1 << 20


def rows(count: int = 2_000_000) -> pa.Table:
    """Bytes that no codec makes small."""
    draw = np.random.default_rng(1)
    return pa.table({"id": draw.integers(0, 2**62, count), "v": draw.random(count)}, schema=SCHEMA)


class Full(Wrapper):
    """A bucket whose objects take ``room`` bytes each;

    ``room`` None: all of them, and their close is refused.
    """

    def __init__(self, bucket: Bucket, room: int | None) -> None:
        super().__init__(bucket)
        self.room = room

    def writer(self, key: str) -> ObjectWriter:
        return _Filling(super().writer(key), self.room)


class _Filling:
    def __init__(self, inner: ObjectWriter, room: int | None) -> None:
        self._inner = inner
        self._room = room
        self._size = 0

    def write(self, data: bytes | memoryview, /) -> int:
        self._size += len(data)
        if self._room is not None and self._size > self._room:
            raise NoSpace("there is no room for this piece")
        return self._inner.write(data)

    def close(self) -> None:
        if self._room is None:
            raise NoSpace("there is no room for the end")
        self._inner.close()

    def abort(self) -> None:
        self._inner.abort()


@pytest.mark.parametrize("presorted", [True, False])
@pytest.mark.parametrize("room", [0, 9 * MIB, None])
def test_the_first_error_of_a_write_is_told(room: int | None, presorted: bool) -> None:
    world = World.manual()
    memory = MemoryBucket(world.clock)
    writer = BlockWriter(
        Full(memory, room),
        world,
        world.ids.ulid(),
        Definition.create(SCHEMA),
        producer="test",
        presorted=presorted,
    )

    def write() -> None:
        with writer:
            writer.write(rows())
            writer.finish()

    with pytest.raises(NoSpace, match="there is no room for"):
        write()
    assert list(memory.list()) == []


def test_a_write_to_a_table_tells_it_as_well(tmp_path: Path) -> None:
    table = bs.create(str(tmp_path / "t"), schema=SCHEMA)
    table.bucket = Full(table.bucket, 9 * MIB)
    with pytest.raises(NoSpace, match="there is no room for this piece"):
        table.append(rows())
    assert table.snapshot().count() == 0


def test_to_abort_a_local_object_raises_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Late:
        """A file of a server that reports only at its close that its disk is full."""

        def close(self) -> None:
            raise OSError(28, os.strerror(28))

    writer = LocalBucket(tmp_path, World.real().clock).writer("a")
    writer.write(b"x")
    monkeypatch.setattr(writer, "_file", Late())
    writer.abort()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 20 MiB of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system may be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


class TestADiskOf20MiB:
    @pytest.fixture
    def big(self, tmp_path: Path) -> Path:
        pq.write_table(rows(), tmp_path / "big.parquet", row_group_size=100_000)
        return tmp_path / "big.parquet"

    @staticmethod
    def complaint(*words: str, given: bytes = b"", **environment: str) -> str:
        done = subprocess.run(
            [BINARY, *words],
            input=given,
            env={**os.environ, **environment},
            capture_output=True,
            check=False,
        )
        assert done.returncode == 1
        said = done.stderr.decode()
        assert said.count("\n") == 1, said
        return said

    def test_a_table_on_it_says_that_it_is_full_and_shows_nothing(
        self, small_disk: Path, big: Path
    ) -> None:
        url = str(small_disk / "t")
        table = bs.create(url, schema=SCHEMA)
        assert self.complaint("write", url, str(big)).startswith("error: no space is left to write")
        assert table.snapshot().count() == 0
        table.append(rows(10))
        assert table.snapshot().count() == 10

    def test_standard_input_that_does_not_fit_into_the_temporary_folder_says_which(
        self, small_disk: Path, big: Path, tmp_path: Path
    ) -> None:
        url = str(tmp_path / "t")
        bs.create(url, schema=SCHEMA)
        said = self.complaint(
            "write", url, "-", "--format", "parquet", given=big.read_bytes(), TMPDIR=str(small_disk)
        )
        assert f"could not be copied to {small_disk}" in said
