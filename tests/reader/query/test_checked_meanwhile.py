"""Many files are checked while the query begins: a damaged one fails it all the same, and no row is handed out."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from blockstore.bucket.local import LocalBucket
from blockstore.errors import BlockstoreError, Corrupt, Invalid, ObjectMissing
from blockstore.format.definition import Definition
from blockstore.scan.plan import plan_scan
from blockstore.scan.view import TableSnapshot
from blockstore.world import World
from reader.query import Capacity, Engine
from tests.blockstore.scan.tables import Lake
from tests.reader.query.lakes import NARROW, rows, snapshot_of

BLOCKS = 70
CAPACITY = Capacity(queries=1, memory_bytes=512 << 20, threads=2, spill_bytes=256 << 20)
COUNTED = "SELECT count(*) + 0 * count(n) AS n FROM t"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TableSnapshot]:
    folder = tmp_path_factory.mktemp("lake") / "t"
    bucket = LocalBucket(str(folder), World.manual().clock, durable=False)
    made = Lake(bucket, Definition.create(NARROW, time_column="time", sort_by=["n"]))
    for number in range(BLOCKS):
        made.append(rows(number, number + 1))
    return folder, snapshot_of(made)


@pytest.fixture(scope="module")
def engines(original: tuple[Path, TableSnapshot]) -> Iterator[dict[str, Engine]]:
    _, snapshot = original
    with (
        Engine({"t": snapshot}, world=World.real()) as here,
        Engine({"t": snapshot}, world=World.real(), capacity=CAPACITY, isolated=True) as isolated,
    ):
        yield {"here": here, "isolated": isolated}


def gone(chunk: Path, _: Path) -> None:
    chunk.unlink()


def cut(chunk: Path, _: Path) -> None:
    chunk.write_bytes(chunk.read_bytes()[:-1])


def a_link(chunk: Path, elsewhere: Path) -> None:
    chunk.rename(elsewhere)
    chunk.symlink_to(elsewhere)


def a_linked_folder(chunk: Path, elsewhere: Path) -> None:
    chunk.parent.rename(elsewhere)
    chunk.parent.symlink_to(elsewhere)


def a_linked_block(chunk: Path, elsewhere: Path) -> None:
    chunk.parent.parent.rename(elsewhere)
    chunk.parent.parent.symlink_to(elsewhere)


DAMAGES: list[tuple[Callable[[Path, Path], None], type[BlockstoreError], str]] = [
    (gone, ObjectMissing, "is missing; ask again"),
    (cut, Corrupt, "bytes, expected"),
    (a_link, Corrupt, "links are not followed"),
    (a_linked_folder, Invalid, "symbolic link"),
    (a_linked_block, Invalid, "symbolic link"),
]


@pytest.mark.parametrize("kind", ["here", "isolated"])
@pytest.mark.parametrize(("damage", "error", "says"), DAMAGES, ids=[one[0].__name__ for one in DAMAGES])
def test_a_damaged_file_among_many_fails_the_query(
    original: tuple[Path, TableSnapshot],
    engines: dict[str, Engine],
    tmp_path: Path,
    kind: str,
    damage: Callable[[Path, Path], None],
    error: type[BlockstoreError],
    says: str,
) -> None:
    folder, snapshot = original
    ulid = plan_scan(snapshot.snapshot).chunks[BLOCKS // 2].block
    (chunk,) = (folder / ulid / "chunks").iterdir()
    kept = tmp_path / "kept"
    shutil.copytree(folder / ulid, kept)
    try:
        damage(chunk, tmp_path / "elsewhere")
        with pytest.raises(error, match=says):
            engines[kind].run(COUNTED)
    finally:
        block = folder / ulid
        block.unlink() if block.is_symlink() else shutil.rmtree(block)
        kept.rename(block)
    assert engines[kind].query(COUNTED).read_all()["n"].to_pylist() == [BLOCKS]
