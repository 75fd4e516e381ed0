"""A real ``blockstore ship``, and a real ``blockstore replicate``, ended with SIGKILL in the
middle: once more, and every row is there exactly once.

On a folder and on the real S3 servers, through both S3 clients.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.bucket import Bucket, open_bucket
from blockstore.names import META, SHIPPER_STATE, parse_entry, split_block_key
from blockstore.world import World
from tests.support.tally import tally

SCHEMA = pa.schema([("device", pa.string()), ("block", pa.int64()), ("row", pa.int64())])
BLOCKS = 16
ROWS = 20
PROGRAM = str(Path(sys.executable).parent / "blockstore")

RGW = [pytest.mark.s3, pytest.mark.xdist_group("rgw")]
PLACES = [
    "folder",
    pytest.param("s3", marks=pytest.mark.s3),
    pytest.param("obstore-rgw", marks=RGW),
]


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where tables lie."""
    kind = request.param
    if kind == "folder":
        return f"{tmp_path}/lake"
    return str(request.getfixturevalue(f"{kind.removeprefix('obstore-')}_url"))


@pytest.fixture
def table_url(place: str, request: pytest.FixtureRequest) -> Callable[[str], str]:
    client = "?client=obstore" if "obstore" in request.node.callspec.id else ""
    return lambda name: f"{place}/{name}{client}"


def rows(device: str, block: int) -> pa.Table:
    return pa.table(
        {"device": [device] * ROWS, "block": [block] * ROWS, "row": list(range(ROWS))},
        schema=SCHEMA,
    )


def found(url: str) -> Counter[tuple[str, int, int]]:
    read = bs.open(url).snapshot().scan().to_table()
    return Counter(zip(*(column.to_pylist() for column in read.columns), strict=True))


def everything(*devices: str) -> Counter[tuple[str, int, int]]:
    return Counter(
        (device, block, row) for device in devices for block in range(BLOCKS) for row in range(ROWS)
    )


def built(folder: Path, device: str) -> str:
    for block in range(BLOCKS):
        assert bs.build(str(folder), rows(device, block), schema=SCHEMA).rows == ROWS
    return str(folder)


def killed_once(words: list[str], is_time: Callable[[], bool]) -> int:
    """Run the program and kill it as soon as ``is_time``; its exit code."""
    with subprocess.Popen(
        [PROGRAM, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        while not is_time():
            try:
                return process.wait(0.01)
            except subprocess.TimeoutExpired:
                continue
        process.kill()
        return process.wait()


def complete(bucket: Bucket) -> int:
    """How many blocks have their meta.json."""
    return sum((split_block_key(info.key) or ("", ""))[1] == META for info in bucket.list())


def test_a_shipper_killed_in_the_middle_ships_every_row_once(
    table_url: Callable[[str], str], tmp_path: Path
) -> None:
    url = table_url("table")
    bs.create(url, schema=SCHEMA)
    bucket = open_bucket(url, World.real())
    folders = [built(tmp_path / device, device) for device in ("one", "two")]
    assert killed_once(["ship", folders[0], url], lambda: complete(bucket) >= 4) == -9, (
        "not in the middle"
    )
    tally("shippers killed")
    (tmp_path / "one" / SHIPPER_STATE).write_bytes(b"{")
    both = [
        subprocess.Popen([PROGRAM, "ship", folder, url], stdout=subprocess.PIPE, text=True)
        for folder in folders
    ]
    for process in both:
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0, out
    assert found(url) == everything("one", "two")


def test_a_replication_killed_in_the_middle_ends_as_the_same_table(
    table_url: Callable[[str], str], tmp_path: Path
) -> None:
    source, target = table_url("source"), table_url("target")
    table = bs.create(source, schema=SCHEMA)
    for block in range(BLOCKS):
        table.append(rows("one", block))
    bucket = open_bucket(target, World.real())
    assert killed_once(["replicate", source, target], lambda: complete(bucket) >= 4) == -9, (
        "not in the middle"
    )
    tally("replications killed")
    try:
        version = bs.open(target).poll()
    except bs.NotFound:
        pass
    else:
        earlier = Counter({key: 1 for key in everything("one") if key[1] < version - 1})
        assert found(target) == earlier, "an earlier version, whole"
    subprocess.run([PROGRAM, "replicate", source, target], check=True, stdout=subprocess.DEVNULL)
    assert found(target) == everything("one")
    here, there = (
        {
            info.key: info.size
            for info in open_bucket(url, World.real()).list("index/")
            if parse_entry(info.key)
        }
        for url in (source, target)
    )
    assert here == there
