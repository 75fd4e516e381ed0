"""Reading chunks: the same rows by every way; a missing or damaged chunk is named, never fewer rows
(R11)."""

from __future__ import annotations

import tempfile
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from blockstore.bucket.api import Bucket
from blockstore.bucket.local import LocalBucket
from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.metered import Metered
from blockstore.bucket.wrapper import Wrapper
from blockstore.errors import Corrupt, Invalid, ObjectMissing
from blockstore.format.block import ChunkFile
from blockstore.format.block_writer import BlockWriter
from blockstore.format.chunk_reader import read_batches, read_chunk, read_part
from blockstore.format.definition import Definition
from blockstore.world import World

DEFINITION = Definition.create(
    pa.schema([("a", pa.int64()), ("b.c", pa.string()), ("f", pa.float64())])
)


@pytest.fixture(params=["memory", "local"])
def bucket(request: pytest.FixtureRequest, tmp_path: Path) -> Bucket:
    """A bucket that has files, and one that has none."""
    clock = World.manual().clock
    return (
        MemoryBucket(clock)
        if request.param == "memory"
        else LocalBucket(tmp_path, clock, durable=False)
    )


def write(bucket: Bucket, count: int = 100) -> tuple[str, ChunkFile, pa.Table]:
    """A chunk in the bucket: its key, what meta.json says of it, its rows."""
    world = World.manual()
    ulid = world.ids.ulid()
    rng = np.random.default_rng(0)
    rows = pa.table(
        {"a": np.arange(count), "b.c": [f"t{n}" for n in range(count)], "f": rng.random(count)},
        schema=DEFINITION.schema,
    )
    with BlockWriter(
        bucket, world, ulid, DEFINITION, producer="test", row_group_rows=max(1, count // 2)
    ) as writer:
        writer.write(rows)
        (file,) = writer.finish().files
    return f"{ulid}/{file.path}", file, rows


@pytest.mark.parametrize("verify", [False, True])
def test_the_rows_come_back_whole_and_in_batches(bucket: Bucket, verify: bool) -> None:
    key, file, rows = write(bucket)
    assert read_chunk(bucket, key, file, verify=verify).equals(rows)
    batches = list(read_batches(bucket, key, file, batch_rows=30, verify=verify))
    assert max(batch.num_rows for batch in batches) <= 30
    assert pa.Table.from_batches(batches).equals(rows)


def test_columns_are_chosen_by_name_and_those_that_a_chunk_lacks_left_out(bucket: Bucket) -> None:
    key, file, rows = write(bucket)
    assert read_chunk(bucket, key, file, ["b.c", "later"]).equals(rows.select(["b.c"]))
    assert [batch.schema.names for batch in read_batches(bucket, key, file, ["a"])] == [["a"]]
    assert read_chunk(bucket, key, file, []).num_rows == 100


def test_a_small_chunk_costs_one_request_and_a_large_one_only_what_is_needed() -> None:
    bucket = Metered(MemoryBucket(World.manual().clock))
    key, file, rows = write(bucket)
    bucket.counts.clear()
    read_chunk(bucket, key, file)
    assert dict(bucket.counts) == {"get": 1}
    key, file, rows = write(bucket, 700_000)
    assert file.bytes > 4 * 1024 * 1024
    bucket.counts.clear()
    assert read_chunk(bucket, key, file, ["a"]).equals(rows.select(["a"]))
    assert set(bucket.counts) == {"get_range"}


class Threaded(Wrapper):
    """Notes who reads."""

    def __init__(self, bucket: Bucket) -> None:
        super().__init__(bucket)
        self.seen: set[int] = set()

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self.seen.add(threading.get_ident())
        return self.inner.get_range(key, start, length)


def test_no_thread_of_arrow_s_reads_a_remote_chunk() -> None:
    """It would drop its last bytes when it likes, and abort a process that is ending."""
    bucket = Threaded(MemoryBucket(World.manual().clock))
    key, file, rows = write(bucket, 700_000)
    bucket.seen.clear()
    assert read_chunk(bucket, key, file, threads=True).equals(rows)
    assert pa.Table.from_batches(read_batches(bucket, key, file)).equals(rows)
    batches = [batch for _, batch in read_part(bucket, key, file, ["a"], part=1, parts=2)]
    assert pa.Table.from_batches(batches).num_rows == 350_000
    assert bucket.seen == {threading.get_ident()}


def test_columns_that_lie_side_by_side_are_fetched_together() -> None:
    bucket = Metered(MemoryBucket(World.manual().clock))
    key, file, rows = write(bucket, 700_000)
    for columns in (None, ["a", "b.c"]):
        bucket.reset()
        found = read_chunk(bucket, key, file, columns)
        assert found.equals(rows if columns is None else rows.select(columns))
        footer, groups = 2, 2
        assert bucket.counts["get_range"] <= footer + groups
        assert bucket.bytes["get_range"] <= file.bytes + 128 * 1024


@pytest.mark.parametrize("wanted", [[True, False], [False, True], [False, False], [True, True]])
def test_groups_that_are_judged_out_are_not_read(bucket: Bucket, wanted: list[bool]) -> None:
    key, file, rows = write(bucket)
    found = list(read_part(bucket, key, file, may=lambda parquet: wanted))
    assert sum(batch.num_rows for _, batch in found) == 50 * sum(wanted)
    for position, batch in found:
        assert position == 50 or wanted[0]
        assert pa.Table.from_batches([batch]).equals(rows.slice(position, batch.num_rows))


def test_of_groups_that_are_judged_out_nothing_is_fetched() -> None:
    bucket = Metered(MemoryBucket(World.manual().clock))
    key, file, _ = write(bucket, 700_000)
    fetched = []
    for wanted in ([True, True], [False, True], [False, False]):
        bucket.reset()
        batches = [
            batch for _, batch in read_part(bucket, key, file, may=lambda _, wanted=wanted: wanted)
        ]
        assert sum(batch.num_rows for batch in batches) == 350_000 * sum(wanted)
        fetched.append(bucket.bytes["get_range"])
    footer = 128 * 1024
    assert fetched[2] <= footer
    assert abs(fetched[1] - fetched[0] / 2) <= footer


def test_a_missing_chunk_is_named(bucket: Bucket) -> None:
    key, file, _ = write(bucket)
    bucket.delete([key])
    for call in (read_chunk, lambda *args: list(read_batches(*args))):
        with pytest.raises(ObjectMissing, match=key):
            call(bucket, key, file)


def test_a_chunk_of_another_size_hash_or_count_is_corrupt(bucket: Bucket) -> None:
    key, file, _ = write(bucket)
    with pytest.raises(Corrupt, match=rf"{key}.*bytes"):
        read_chunk(bucket, key, replace(file, bytes=file.bytes + 1))
    with pytest.raises(Corrupt, match=rf"{key}.*SHA-256"):
        read_chunk(bucket, key, replace(file, sha256="0" * 64), verify=True)
    with pytest.raises(Corrupt, match=rf"{key}.*rows"):
        read_chunk(bucket, key, replace(file, rows=99))


@pytest.mark.parametrize("verify", [False, True])
def test_a_link_in_a_chunk_s_place_is_not_followed(tmp_path: Path, verify: bool) -> None:
    bucket = LocalBucket(tmp_path / "t", World.manual().clock, durable=False)
    key, file, _ = write(bucket)
    path = Path(bucket.path_of(key) or "")
    path.rename(tmp_path / "elsewhere.parquet")
    path.symlink_to(tmp_path / "elsewhere.parquet")
    for call in (read_chunk, lambda *args, **words: list(read_batches(*args, **words))):
        with pytest.raises((Corrupt, Invalid), match="link"):
            call(bucket, key, file, verify=verify)


def test_garbage_of_the_right_size_is_corrupt(bucket: Bucket) -> None:
    key, file, _ = write(bucket)
    for garbage in (b"x" * file.bytes, bucket.get(key).data[:-8] + b"\xff" * 8):
        bucket.put(key, garbage)
        with pytest.raises(Corrupt, match=key):
            read_chunk(bucket, key, file)


def test_a_flipped_byte_is_found_by_its_hash(bucket: Bucket) -> None:
    key, file, _ = write(bucket)
    data = bytearray(bucket.get(key).data)
    data[len(data) // 2] ^= 1
    bucket.put(key, bytes(data))
    with pytest.raises(Corrupt, match=key):
        read_chunk(bucket, key, file, verify=True)


def test_a_large_remote_chunk_is_verified_in_pieces_and_leaves_no_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    bucket = Metered(MemoryBucket(World.manual().clock))
    key, file, rows = write(bucket, 1_200_000)
    assert file.bytes > 8 << 20
    bucket.reset()
    assert read_chunk(bucket, key, file, verify=True).equals(rows)
    assert bucket.counts == {"get_range": 3}
    damaged = bytearray(bucket.get(key).data)
    damaged[len(damaged) // 2] ^= 1
    bucket.put(key, bytes(damaged))
    with pytest.raises(Corrupt, match="another SHA-256"):
        read_chunk(bucket, key, file, verify=True)
    bucket.put(key, bytes(damaged[:-1]))
    with pytest.raises(Corrupt, match="bytes"):
        read_chunk(bucket, key, file, verify=True)
    assert list(tmp_path.iterdir()) == []
