"""The k-way merge over runs in memory: equal to sorting everything, whatever the memory, and never
out of order."""

from __future__ import annotations

import threading
import time
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockstore.compactor.merge.order import KeyPart, RowOrder
from blockstore.compactor.merge.pump import pump
from blockstore.compactor.merge.run import TableRun, Unsorted, depth_of
from blockstore.world import Serial, Threads
from tests.compactor.merge.tables import keyed_runs, sort_stable


def merged(runs: list[Any], keys: list[str], run_bytes: int = 1) -> list[pa.Table]:
    windows: list[pa.Table] = []
    pump(runs, RowOrder(keys), windows.append, run_bytes=run_bytes, pool=Serial())
    return windows


def as_run(table: pa.Table, keys: list[str], rows: int, *, bounded: bool) -> TableRun:
    floor = ceiling = None
    if bounded and table.num_rows:
        order = RowOrder(keys)
        floor, ceiling = order.key(table, 0)[0], order.key(table, table.num_rows - 1)[0]
    return TableRun(table, floor=floor, ceiling=ceiling, rows=rows)


@given(keyed_runs(), st.integers(1, 7), st.integers(1, 5000), st.booleans())
def test_a_merge_is_the_stable_sort_of_its_runs_one_after_the_other(
    case: tuple[list[str], list[pa.Table]], rows: int, run_bytes: int, bounded: bool
) -> None:
    keys, tables = case
    tables = [sort_stable(table, keys) for table in tables]
    runs = [as_run(table, keys, rows, bounded=bounded) for table in tables]
    windows = merged(runs, keys, run_bytes)
    expected = sort_stable(pa.concat_tables(tables), keys)["row"].to_pylist()
    assert [row for window in windows for row in window["row"].to_pylist()] == expected


@given(keyed_runs(), st.integers(1, 7), st.integers(1, 5000))
def test_without_a_sort_key_runs_follow_one_another(
    case: tuple[list[str], list[pa.Table]], rows: int, run_bytes: int
) -> None:
    _, tables = case
    windows = merged([TableRun(table, rows=rows) for table in tables], [], run_bytes)
    expected = pa.concat_tables(tables)["row"].to_pylist()
    assert [row for window in windows for row in window["row"].to_pylist()] == expected


@given(keyed_runs(max_runs=3), st.integers(1, 7))
def test_rows_out_of_order_are_never_handed_on(
    case: tuple[list[str], list[pa.Table]], rows: int
) -> None:
    keys, tables = case
    order = RowOrder(keys)
    windows: list[pa.Table] = []
    try:
        pump(
            [TableRun(t, rows=rows) for t in tables],
            order,
            windows.append,
            run_bytes=1,
            pool=Serial(),
        )
    except Unsorted as found:
        table = tables[found.run]
        assert table["row"].to_pylist() != sort_stable(table, keys)["row"].to_pylist()
    else:
        assert sum(window.num_rows for window in windows) == sum(table.num_rows for table in tables)
    listed = [order.key(window, row) for window in windows for row in range(window.num_rows)]
    assert listed == sorted(listed)


def test_one_key_that_fills_files_is_merged_in_bounded_windows() -> None:
    tables = [
        pa.table({"k": [5] * 1000, "row": range(n * 1000, n * 1000 + 1000)}) for n in range(3)
    ]
    windows = merged([TableRun(table, rows=10) for table in tables], ["k"])
    assert [row for window in windows for row in window["row"].to_pylist()] == list(range(3000))
    assert max(window.num_rows for window in windows) <= 30


class Watched(TableRun):
    """Counts how many of its kind are open."""

    open_now = 0
    most_open = 0

    def read(self, goal_bytes: int) -> pa.Table | None:
        if not getattr(self, "_opened", False):
            self._opened = True
            Watched.open_now += 1
            Watched.most_open = max(Watched.most_open, Watched.open_now)
        return super().read(goal_bytes)

    def close(self) -> None:
        if getattr(self, "_opened", False):
            self._opened = False
            Watched.open_now -= 1
        super().close()


def test_runs_that_do_not_overlap_are_not_open_together() -> None:
    Watched.open_now = Watched.most_open = 0
    tables = [
        pa.table({"k": range(n * 100, n * 100 + 100), "row": range(n * 100, n * 100 + 100)})
        for n in range(20)
    ]
    runs = [
        Watched(t, floor=(0, n * 100), ceiling=(0, n * 100 + 99), rows=10)
        for n, t in enumerate(tables)
    ]
    windows = merged(list(reversed(runs)), ["k"])
    assert [row for window in windows for row in window["row"].to_pylist()] == list(range(2000))
    assert Watched.most_open <= 2
    assert Watched.open_now == 0


def test_a_run_is_opened_when_the_merge_reaches_its_very_first_value() -> None:
    tables = [
        pa.table({"k": [1, 5], "l": [0, 0], "row": [0, 2]}),
        pa.table({"k": [3, 9], "l": [0, 2], "row": [1, 4]}),
        pa.table({"k": [9], "l": [1], "row": [3]}),
    ]
    runs = [as_run(table, ["k", "l"], 10, bounded=True) for table in tables]
    windows = merged(runs, ["k", "l"])
    assert [row for window in windows for row in window["row"].to_pylist()] == [0, 1, 2, 3, 4]


def test_small_runs_that_do_not_overlap_share_a_window() -> None:
    tables = [pa.table({"k": [n], "row": [n]}) for n in range(100)]
    runs = [TableRun(table, floor=(0, n), ceiling=(0, n)) for n, table in enumerate(tables)]
    assert len(merged(runs, ["k"], run_bytes=1 << 20)) == 1


class Misjudged(TableRun):
    """Weighs other than it is said to, as a chunk may before it is open."""

    def __init__(self, table: pa.Table, said_bytes: int, **options: Any) -> None:
        super().__init__(table, **options)
        self.bytes = said_bytes


@given(keyed_runs(), st.data(), st.integers(1, 5000), st.booleans())
def test_what_runs_are_taken_to_weigh_changes_nothing(
    case: tuple[list[str], list[pa.Table]], data: st.DataObject, run_bytes: int, keyed: bool
) -> None:
    keys, tables = (case[0] if keyed else []), case[1]
    tables = [sort_stable(table, keys) if keys else table for table in tables]
    runs = []
    for table in tables:
        bounds = as_run(table, keys, 0, bounded=bool(keys))
        said = data.draw(st.sampled_from([0, 1, 1 << 10, 1 << 40]))
        runs.append(Misjudged(table, said, floor=bounds.floor, ceiling=bounds.ceiling))
    windows = merged(runs, keys, run_bytes)
    whole = pa.concat_tables(tables)
    expected = (sort_stable(whole, keys) if keys else whole)["row"].to_pylist()
    assert [row for window in windows for row in window["row"].to_pylist()] == expected


def test_a_run_that_was_taken_for_nothing_is_read_before_what_comes_after_it() -> None:
    cases = [([0, 10], [0, 1]), ([5, 100], [2, 5]), ([20, 30], [3, 4])]
    runs = [
        Misjudged(pa.table({"k": keys, "row": rows}), 0, floor=(0, keys[0]), ceiling=(0, keys[1]))
        for keys, rows in cases
    ]
    windows = merged(runs, ["k"], 5000)
    assert [row for window in windows for row in window["row"].to_pylist()] == [0, 2, 1, 3, 4, 5]


@pytest.mark.parametrize("keys", [["k"], []])
def test_many_runs_that_weigh_more_than_they_were_taken_for_fill_no_larger_windows(
    keys: list[str],
) -> None:
    rows, said, goal = 1000, 100, 16_000
    tables = [
        pa.table({"k": range(n * rows, (n + 1) * rows), "row": range(n * rows, (n + 1) * rows)})
        for n in range(100)
    ]
    runs = [
        Misjudged(table, said, floor=(0, n * rows), ceiling=(0, (n + 1) * rows - 1))
        for n, table in enumerate(tables)
    ]
    windows = merged(runs, keys, goal)
    assert [row for window in windows for row in window["row"].to_pylist()] == list(
        range(100 * rows)
    )
    assert max(window.nbytes for window in windows) < 4 * goal


@given(keyed_runs(max_runs=4), st.integers(1, 7))
def test_every_run_is_closed_whatever_happens(
    case: tuple[list[str], list[pa.Table]], rows: int
) -> None:
    keys, tables = case
    Watched.open_now = 0
    try:
        merged([Watched(table, rows=rows) for table in tables], keys)
    except Unsorted:
        pass
    assert Watched.open_now == 0


def test_an_error_while_writing_ends_the_merge() -> None:
    def full(table: pa.Table) -> None:
        raise OSError("full")

    run = TableRun(pa.table({"k": [1, 2], "row": [1, 2]}))
    with pytest.raises(OSError, match="full"):
        pump([run], RowOrder(["k"]), full, run_bytes=1, pool=Threads(2))


class Together:
    """What is done at once: counted, and held up until so many do it together."""

    def __init__(self, parties: int = 1) -> None:
        self.most = self.begun = self._now = 0
        self._lock = threading.Lock()
        self._all = threading.Barrier(parties, timeout=20)

    def do(self) -> None:
        with self._lock:
            self._now += 1
            self.begun += 1
            self.most = max(self.most, self._now)
        self._all.wait()
        time.sleep(0.01)
        with self._lock:
            self._now -= 1


class Counted(TableRun):
    """A run that reads one row at a time, watched."""

    def __init__(self, together: Together, keys: list[int]) -> None:
        super().__init__(pa.table({"k": keys, "row": keys}), rows=1)
        self.together = together

    def read(self, goal_bytes: int) -> pa.Table | None:
        self.together.do()
        return super().read(goal_bytes)


@pytest.mark.parametrize("lanes", [1, 3])
def test_as_many_runs_are_read_at_once_as_there_are_lanes(lanes: int) -> None:
    together = Together(parties=lanes)
    runs = [Counted(together, [key]) for key in range(12)]
    windows: list[pa.Table] = []
    pump(runs, RowOrder(["k"]), windows.append, run_bytes=1, pool=Threads(8), lanes=lanes)
    assert [row for window in windows for row in window["k"].to_pylist()] == list(range(12))
    assert together.most == lanes


@pytest.mark.parametrize("lanes", [1, 2])
def test_reading_and_writing_together_take_no_more_than_the_lanes(lanes: int) -> None:
    together = Together()
    runs = [Counted(together, list(range(first, 60, 3))) for first in range(3)]
    windows: list[pa.Table] = []

    def sink(window: pa.Table) -> None:
        together.do()
        windows.append(window)

    pump(runs, RowOrder(["k"]), sink, run_bytes=1, pool=Threads(8), lanes=lanes)
    assert [row for window in windows for row in window["k"].to_pylist()] == list(range(60))
    assert len(windows) > 10
    assert together.most <= lanes


def test_after_an_error_no_further_run_is_read() -> None:
    failing = threading.Event()
    begun: list[int] = []

    class Some(TableRun):
        def __init__(self, key: int) -> None:
            super().__init__(pa.table({"k": [key], "row": [key]}))
            self.key = key

        def read(self, goal_bytes: int) -> pa.Table | None:
            begun.append(self.key)
            if self.key == 1:
                failing.set()
                raise OSError("broken")
            failing.wait(20)
            time.sleep(0.5)
            return super().read(goal_bytes)

    with pytest.raises(OSError, match="broken"):
        pump(
            [Some(n) for n in range(12)],
            RowOrder(["k"]),
            no_sink,
            run_bytes=1,
            pool=Threads(8),
            lanes=2,
        )
    assert sorted(begun) == [0, 1]


def test_of_two_errors_the_one_of_the_write_is_raised() -> None:
    """A full disk must not be taken for a run that is out of order, which would be retried."""
    both = threading.Barrier(2, timeout=20)

    class Late(TableRun):
        def read(self, goal_bytes: int) -> pa.Table | None:
            if self._rest.num_rows == 2:
                both.wait()
                raise Unsorted(0)
            return super().read(goal_bytes)

    def full(_: pa.Table) -> None:
        both.wait()
        time.sleep(0.2)
        raise OSError("full")

    run = Late(pa.table({"k": list(range(4)), "row": list(range(4))}), rows=1)
    with pytest.raises(OSError, match="full"):
        pump([run], RowOrder(["k"]), full, run_bytes=1, pool=Threads(8), lanes=2)


def no_sink(_: pa.Table) -> None: ...


PART = st.one_of(st.none(), st.tuples(st.just(0), st.integers(0, 9)))


@given(st.lists(st.tuples(PART, PART), max_size=8))
def test_depth_is_the_most_ranges_that_share_a_value(
    ranges: list[tuple[KeyPart | None, KeyPart | None]],
) -> None:
    ordered = [(a, b) if a is None or b is None or a <= b else (b, a) for a, b in ranges]

    def holds(low: KeyPart | None, high: KeyPart | None, value: KeyPart) -> bool:
        return (low is None or low <= value) and (high is None or value <= high)

    values = [(0, value / 2) for value in range(-1, 21)]
    expected = max((sum(holds(low, high, v) for low, high in ordered) for v in values), default=0)
    assert depth_of(ordered) == expected
