"""A process for queries can reach nothing but its folders, with the rules of the statement out of
the way: by the kernel's lock, and by DuckDB's where there is none."""

from __future__ import annotations

import datetime
import decimal
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blockstore.reader.query.runners import pool as module
from blockstore.reader.query.runners import worker as other_side
from blockstore.reader.query.runners.instance import Limits, clear_abandoned_spill
from blockstore.reader.query.runners.landlock import identity, knows_enough
from blockstore.reader.query.runners.pool import EngineError, WorkerPool
from blockstore.reader.query.runners.worker import Start
from blockstore.reader.query.task import Task
from tests.reader.query.runners.test_instance import ATTEMPTS

pytestmark = pytest.mark.slow

SMALL = Limits(memory_bytes=64 << 20, threads=2, spill_bytes=1 << 30)
SPILLS = "SELECT r, hash(r) AS h FROM range(20000000) AS t(r) ORDER BY h"


LOCKS = [
    pytest.param(
        True,
        id="kernel",
        marks=pytest.mark.skipif(
            not knows_enough(), reason="this kernel has no Landlock of version 4 or later"
        ),
    ),
    pytest.param(False, id="duckdb"),
]


@pytest.fixture(scope="module", params=LOCKS)
def kernel(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Whether the lock is the kernel's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "knows_enough", lambda: request.param)
        yield bool(request.param)


def filled(place: Path) -> Path:
    (place / "folder").mkdir()
    pq.write_table(pa.table({"a": [1, 2]}), place / "folder/in.parquet")
    pq.write_table(pa.table({"a": [3]}), place / "outside.parquet")
    return place


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return filled(tmp_path)


@pytest.fixture
def runner(place: Path, kernel: bool) -> Iterator[WorkerPool]:
    opened = WorkerPool([str(place / "folder")], SMALL)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def attacked(
    tmp_path_factory: pytest.TempPathFactory, kernel: bool
) -> Iterator[tuple[WorkerPool, Path]]:
    """One process for all attempts, and the folder above the one it may read."""
    place = filled(tmp_path_factory.mktemp("attacked"))
    opened = WorkerPool([str(place / "folder")], SMALL)
    yield opened, place
    opened.close()


def answer(runner: WorkerPool, sql: str, parameters: object = None) -> list[dict[str, object]]:
    """What the process returns, whoever the caller is; a statement that is no SELECT goes where
    views are made."""
    is_query = sql.startswith(("SELECT", "FROM"))
    task = (
        Task(views=(), sql=sql, parameters=parameters)  # type: ignore[arg-type]
        if is_query
        else Task(views=((sql, ()),), sql="SELECT 'done' AS done")
    )
    running = runner.start(task, lambda _: None)
    try:
        return [row for batch in running.batches() for row in batch.to_pylist()]
    finally:
        running.close()


def test_files_of_its_folders_are_read(runner: WorkerPool, place: Path, kernel: bool) -> None:
    assert answer(runner, f"SELECT * FROM read_parquet('{place}/folder/in.parquet')") == [
        {"a": 1},
        {"a": 2},
    ]
    pq.write_table(pa.table({"a": [7]}), place / "folder/later.parquet")
    assert answer(runner, f"SELECT * FROM read_parquet('{place}/folder/later.parquet')") == [
        {"a": 7}
    ]
    external = answer(runner, "SELECT current_setting('enable_external_access') AS open")
    assert external == [{"open": kernel}], (
        "with the kernel's lock DuckDB looks at no path itself, without it at each"
    )


@pytest.mark.parametrize("sql", ATTEMPTS)
def test_everything_else_is_shut(attacked: tuple[WorkerPool, Path], sql: str) -> None:
    runner, place = attacked
    before = sorted(str(path) for path in place.rglob("*"))
    rows: list[dict[str, object]] = []
    with suppress(EngineError):
        rows = answer(
            runner, sql.format(outside=place / "outside.parquet", folder=place / "folder")
        )
    assert rows == []
    assert sorted(str(path) for path in place.rglob("*")) == before
    assert answer(
        runner, f"SELECT count(*) AS n FROM read_parquet('{place}/folder/*.parquet')"
    ) == [{"n": 2}]


VALUES = [
    True,
    -(2**70),
    1.5,
    "text",
    b"bytes",
    decimal.Decimal("1.25"),
    datetime.date(1970, 1, 1),
    datetime.datetime(2026, 1, 2, 3, 4, 5, 6),
    datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC),
    datetime.time(1, 2),
    datetime.timedelta(days=1, seconds=2),
    uuid.UUID(int=7),
    [1, 2, 3],
    {"a": [1.5, None]},
    None,
]


@pytest.mark.parametrize("value", VALUES, ids=[type(value).__name__ for value in VALUES])
def test_parameters_of_every_kind_arrive(attacked: tuple[WorkerPool, Path], value: object) -> None:
    """Values of some kinds bring modules of their own, which a locked process must still be able to
    load."""
    (row,) = answer(
        attacked[0], "SELECT $1 IS NOT DISTINCT FROM $2 AS same, typeof($1) AS kind", [value, value]
    )
    assert row["same"] is True
    assert row["kind"]


def test_what_outgrows_memory_is_spilled_and_removed_after_each_end(runner: WorkerPool) -> None:
    running = runner.start(Task(views=(), sql=SPILLS), lambda _: None)
    batches = running.batches()
    next(batches)
    (worker,) = runner._all
    spill = Path(worker.spill.path)
    assert sum(path.stat().st_size for path in spill.rglob("*")) > 1 << 20
    worker.kill()
    with pytest.raises(EngineError, match="Out of Memory Error: its process was killed"):
        list(batches)
    running.close()
    assert not spill.exists()
    assert not spill.with_name(spill.name + ".lock").exists()


@contextmanager
def spilling_gateway(kernel: bool) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """A gateway in the midst of a query that spills, which ends by itself once it hears nothing
    more; the id of its process for the query, and the folder."""
    script = f"""
import sys
from blockstore.reader.query.runners import pool
from blockstore.reader.query.runners.instance import Limits
from blockstore.reader.query.task import Task
from blockstore.reader.query.runners.pool import WorkerPool
pool.knows_enough = lambda: {kernel}
runner = WorkerPool([], Limits(memory_bytes=64 << 20, threads=2, spill_bytes=1 << 30))
running = runner.start(Task(views=(), sql={SPILLS!r}), lambda _: None)
next(running.batches())
(worker,) = runner._all
print(worker.pid, worker.spill.path, flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[4],
    ) as gateway:
        assert gateway.stdout is not None
        pid, spill = gateway.stdout.readline().split()
        assert list(Path(spill).rglob("*"))
        yield gateway, pid, spill


def test_a_gateway_that_is_killed_leaves_nothing_spilled(kernel: bool) -> None:
    with spilling_gateway(kernel) as (gateway, pid, spill):
        os.kill(gateway.pid, signal.SIGKILL)
    end = time.monotonic() + 30
    while (
        Path(f"/proc/{pid}/stat").exists()
        and Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    ):
        assert time.monotonic() < end, "the process outlived its gateway"
        time.sleep(0.01)
    assert list(Path(spill).rglob("*")) == []
    # With the kernel's lock the process may empty the folder and not remove it: the next gateway
    # does.
    assert Path(spill).exists() is kernel
    # Its last thread lets the lock go, a moment after the process counts as ended.
    while Path(f"{spill}.lock").exists():
        assert time.monotonic() < end, "the folder of a process that is gone was not cleared"
        clear_abandoned_spill()
        time.sleep(0.01)
    assert not Path(spill).exists()


def test_a_gateway_that_no_one_closes_leaves_no_folder(kernel: bool) -> None:
    with spilling_gateway(kernel) as (gateway, _, spill):
        assert gateway.stdin is not None
        gateway.stdin.close()
        assert gateway.wait(60) == 0
    assert not Path(spill).exists()


def test_a_process_is_not_used_once_its_folder_was_created_again(
    runner: WorkerPool, place: Path, kernel: bool
) -> None:
    sql = f"SELECT a FROM read_parquet('{place}/folder/in.parquet')"
    assert answer(runner, sql) == [{"a": 1}, {"a": 2}]
    (first,) = runner._all
    (place / "folder").rename(place / "gone")
    (place / "folder").mkdir()
    pq.write_table(pa.table({"a": [8]}), place / "folder/in.parquet")
    assert answer(runner, sql) == [{"a": 8}]
    (second,) = runner._all
    assert (first is not second) is kernel
    assert answer(runner, sql) == [{"a": 8}]
    assert runner._all == {second}


def test_a_kernel_that_refuses_after_all_leaves_it_to_duckdb(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(**_: object) -> None:
        raise OSError(1, "landlock: Operation not permitted")

    start = Start(
        folders=(str(place),),
        identities=(identity(str(place)),),
        limits=SMALL,
    )
    monkeypatch.setattr(other_side, "confine", refused)
    assert not other_side._confined(start, str(place))
    assert "DuckDB does" in capsys.readouterr().err
    monkeypatch.setattr(other_side, "confine", lambda **_: None)
    assert other_side._confined(start, str(place))
    assert not other_side._confined(replace(start, identities=None), str(place))


def test_a_folder_that_comes_later_is_read(place: Path, kernel: bool) -> None:
    runner = WorkerPool([str(place / "folder"), str(place / "later")], SMALL)
    try:
        assert answer(runner, "SELECT 1 AS one") == [{"one": 1}]
        (place / "later").mkdir()
        pq.write_table(pa.table({"a": [9]}), place / "later/x.parquet")
        assert answer(runner, f"SELECT a FROM read_parquet('{place}/later/x.parquet')") == [
            {"a": 9}
        ]
    finally:
        runner.close()
