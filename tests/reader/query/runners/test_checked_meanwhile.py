"""Many files are checked while the query begins: a damaged one fails it all the same, and no row is
handed out."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from blockstore.bucket.local import LocalBucket
from blockstore.errors import BlockstoreError, Corrupt, Invalid, ObjectMissing
from blockstore.format.definition import Definition
from blockstore.reader.errors import Canceled
from blockstore.reader.query import Capacity, Engine
from blockstore.reader.query.files import Placed
from blockstore.reader.query.runners.frames import Down
from blockstore.reader.query.runners.pool import WorkerPool, _Worker
from blockstore.scan.plan import plan_scan
from blockstore.scan.view import TableSnapshot
from blockstore.world import World
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
    (gone, ObjectMissing, "is missing; query the newest"),
    (cut, Corrupt, "bytes, expected"),
    (a_link, Corrupt, "links are not followed"),
    (a_linked_folder, Invalid, "symbolic link"),
    (a_linked_block, Invalid, "symbolic link"),
]


@pytest.mark.parametrize("kind", ["here", "isolated"])
@pytest.mark.parametrize(
    ("damage", "error", "says"), DAMAGES, ids=[one[0].__name__ for one in DAMAGES]
)
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


def test_the_other_process_begins_before_its_files_are_checked(
    engines: dict[str, Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    send, checked = _Worker.send, Placed.checked

    def sending(worker: _Worker, kind: int, *given: Any) -> None:
        if kind == Down.RUN:  # a worker in reserve may start meanwhile
            done.append("sent")
        send(worker, kind, *given)

    def checking(placed: Placed) -> Iterator[str]:
        done.append("checked")
        return checked(placed)

    monkeypatch.setattr(_Worker, "send", sending)
    monkeypatch.setattr(Placed, "checked", checking)
    assert engines["isolated"].query(COUNTED).read_all()["n"].to_pylist() == [BLOCKS]
    assert done == ["sent", "checked"]
    done.clear()
    engines["isolated"].query(f"{COUNTED} WHERE n = -99").read_all()
    assert done == ["checked", "sent"], "few files are checked first"


@pytest.mark.parametrize("kind", ["here", "isolated"])
def test_a_query_that_is_stopped_while_its_files_are_checked_stops_at_the_next_one(
    engines: dict[str, Engine], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    stops: list[Callable[[], None]] = []
    seen: list[str] = []
    checked = Placed.checked

    def stopped_at_the_third(placed: Placed) -> Iterator[str]:
        for path in checked(placed):
            seen.append(path)
            if len(seen) == 3:
                stops[0]()
            yield path

    with monkeypatch.context() as patched:
        patched.setattr(Placed, "checked", stopped_at_the_third)
        with pytest.raises(Canceled):
            engines[kind].run(COUNTED, began=stops.append)
    assert len(seen) == 3
    assert engines[kind].query(COUNTED).read_all()["n"].to_pylist() == [BLOCKS]
    runner = engines["isolated"]._runner
    assert isinstance(runner, WorkerPool)
    assert runner.killed == 0, "it has stopped by itself"
