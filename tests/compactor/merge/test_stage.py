"""Input chunks are checked wherever they are read from, and nothing stays in the work directory."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from blockstore.bucket import Bucket
from blockstore.bucket.local import LocalBucket
from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.metered import Metered
from blockstore.clock import ManualClock
from blockstore.compactor.merge import DamagedInput
from blockstore.compactor.merge.stage import Stage
from blockstore.format.block import ChunkFile
from blockstore.names import object_key

ULID = "01HF7YAT00R84P57VFQVC2R1YD"
DATA = bytes(range(256)) * 10_000
FILE = ChunkFile(
    path="chunks/000001.parquet", bytes=len(DATA), rows=1, sha256=hashlib.sha256(DATA).hexdigest()
)


@pytest.fixture(params=["held", "local", "copied"])
def way(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Bucket, Stage, Path]:
    """A bucket with one chunk, a stage over it, and its work directory."""
    clock = ManualClock()
    bucket = (
        LocalBucket(tmp_path / "lake", clock) if request.param == "local" else MemoryBucket(clock)
    )
    bucket.put(object_key(ULID, FILE.path), DATA)
    work = tmp_path / "work"
    return (
        bucket,
        Stage(bucket, work, whole_bytes=len(DATA) if request.param == "held" else 0),
        work,
    )


def test_a_chunk_reads_as_it_was_written_and_leaves_no_copy(
    way: tuple[Bucket, Stage, Path],
) -> None:
    _, stage, work = way
    staged = stage.open(ULID, FILE)
    assert staged.file.read() == DATA
    staged.close()
    assert not work.exists() or list(work.iterdir()) == []
    stage.clear()
    assert not work.exists()


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (DATA[:-1], "has 2,559,999 bytes, but its meta.json says 2,560,000"),
        (DATA + b"x", "has more than 2,560,000 bytes"),
        (b"x" + DATA[1:], "has the SHA-256"),
        (None, "lacks its chunk"),
    ],
)
def test_a_chunk_that_is_not_what_was_written_is_refused(
    way: tuple[Bucket, Stage, Path], data: bytes | None, part: str
) -> None:
    bucket, stage, _ = way
    bucket.delete([object_key(ULID, FILE.path)])
    if data is not None:
        bucket.put(object_key(ULID, FILE.path), data)
    with pytest.raises(DamagedInput, match=part) as found:
        stage.open(ULID, FILE)
    assert found.value.ulid == ULID


@pytest.mark.parametrize("piece", [len(DATA) // 4, len(DATA) // 4 + 1, len(DATA), len(DATA) + 1])
def test_no_request_finds_only_that_the_chunk_has_ended(tmp_path: Path, piece: int) -> None:
    """On a distant store requests in turn are what a merge waits for."""
    bucket = Metered(MemoryBucket(ManualClock()))
    bucket.put(object_key(ULID, FILE.path), DATA)
    stage = Stage(bucket, tmp_path / "work", whole_bytes=0, piece_bytes=piece)
    staged = stage.open(ULID, FILE)
    assert staged.file.read() == DATA
    assert bucket.counts["get_range"] == -(-(len(DATA) + 1) // piece)
    staged.close()
