"""Runs that are opened before the merge needs them: once, and never left behind."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockstore.compactor.merge.early import EarlyRun
from blockstore.compactor.merge.order import RowOrder
from blockstore.compactor.merge.pump import pump
from blockstore.compactor.merge.run import TableRun
from blockstore.world import Pool, Serial, Threads
from tests.compactor.merge.tables import keyed_runs, sort_stable
from tests.support.depth import LATENCY_S, Time


class Slow(TableRun):
    """A run whose opening takes a request; says what happened to it."""

    def __init__(self, time: Time, first: int = 0, error: Exception | None = None) -> None:
        table = pa.table({"k": range(first, first + 10), "row": range(first, first + 10)})
        super().__init__(table, floor=(0, first), ceiling=(0, first + 9), rows=3)
        self.events: list[str] = []
        self._time = time
        self._error = error
        self._is_open = False

    def open(self) -> None:
        if self._is_open:
            return
        self.events.append("opening")
        self._time.sleep(LATENCY_S)
        if self._error is not None:
            raise self._error
        self._is_open = True
        self.events.append("open")

    def read(self, goal_bytes: int) -> pa.Table | None:
        self.open()
        return super().read(goal_bytes)

    def close(self) -> None:
        self.events.append("closed")
        super().close()


def test_a_run_that_was_begun_is_opened_once_whoever_comes_first() -> None:
    for late in (True, False):
        time = Time(workers=2)
        run = Slow(time)
        early = EarlyRun(run, time)
        early.begin()
        early.begin()
        if late:
            time.sleep(1)
        assert early.read(1) is not None
        assert run.events == ["opening", "open"]
        early.close()


def test_a_run_that_no_thread_has_begun_is_opened_by_its_reader() -> None:
    pool, hold = Threads(1), threading.Event()
    pool.start(hold.wait)  # type: ignore[arg-type]
    early = EarlyRun(Slow(Time()), pool)
    early.begin()
    assert early.read(1) is not None
    early.close()
    hold.set()


def test_a_pool_without_threads_opens_nothing_early() -> None:
    run = Slow(Time())
    early = EarlyRun(run, Serial())
    early.begin()
    assert run.events == []
    assert early.read(1) is not None
    early.close()


def test_what_an_early_opening_raises_is_raised_by_the_read() -> None:
    time = Time()
    early = EarlyRun(Slow(time, error=OSError("broken")), time)
    early.begin()
    time.sleep(1)
    with pytest.raises(OSError, match="broken"):
        early.read(1)
    early.close()


def test_closing_waits_for_an_opening_in_progress() -> None:
    time = Time()
    run = Slow(time)
    early = EarlyRun(run, time)
    early.begin()
    time.sleep(LATENCY_S / 2)
    early.close()
    assert run.events == ["opening", "open", "closed"]


def test_closing_prevents_an_opening_that_has_not_begun() -> None:
    pool, hold = Threads(1), threading.Event()
    pool.start(hold.wait)  # type: ignore[arg-type]
    run = Slow(Time())
    early = EarlyRun(run, pool)
    early.begin()
    early.close()
    hold.set()
    ended = threading.Event()
    pool.start(ended.set)
    assert ended.wait(20)
    assert run.events == ["closed"]


@pytest.mark.parametrize("keys", [["k"], []])
def test_runs_that_do_not_overlap_are_opened_side_by_side(keys: list[str]) -> None:
    time = Time()
    runs = [Slow(time, first) for first in range(0, 120, 10)]
    windows: list[pa.Table] = []
    pump(runs, RowOrder(keys), windows.append, run_bytes=1, pool=time, lanes=2, ahead=4)
    assert [row for window in windows for row in window["row"].to_pylist()] == list(range(120))
    # The first one, with the four after it; then while one is read the next are opened.
    assert time.monotonic_s() <= 4 * LATENCY_S
    assert all(run.events[:2] == ["opening", "open"] for run in runs)


@pytest.mark.parametrize("keys", [["k"], []])
def test_a_failure_leaves_no_run_open(keys: list[str]) -> None:
    time = Time()
    runs = [Slow(time, 10 * n, OSError("broken") if n == 3 else None) for n in range(12)]
    with pytest.raises(OSError, match="broken"):
        pump(runs, RowOrder(keys), lambda _: None, run_bytes=1, pool=time, ahead=4)
    assert all(run.events[-1] == "closed" for run in runs)


@given(keyed_runs(), st.integers(1, 7), st.integers(1, 5000), st.integers(1, 4))
def test_the_result_does_not_depend_on_what_is_opened_early(
    case: tuple[list[str], list[pa.Table]], rows: int, run_bytes: int, ahead: int
) -> None:
    keys, tables = case
    order = RowOrder(keys)
    tables = [sort_stable(table, keys) for table in tables]

    def run_of(table: pa.Table) -> TableRun:
        floor: Any = order.key(table, 0)[0] if table.num_rows else None
        ceiling: Any = order.key(table, table.num_rows - 1)[0] if table.num_rows else None
        return TableRun(table, floor=floor, ceiling=ceiling, rows=rows)

    windows: list[pa.Table] = []
    runs = [run_of(table) for table in tables]
    pump(runs, order, windows.append, run_bytes=run_bytes, pool=POOL, ahead=ahead)
    expected = sort_stable(pa.concat_tables(tables), keys)["row"].to_pylist()
    assert [row for window in windows for row in window["row"].to_pylist()] == expected


POOL: Pool = Threads(4)
