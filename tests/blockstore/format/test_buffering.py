"""Held rows never weigh less than they take, and slices stop counting for their whole once it
matters."""

from __future__ import annotations

import pyarrow as pa

from blockstore.format.buffering import Held

WHOLE = pa.record_batch({"a": range(1000)})


def test_the_count_is_an_upper_bound_that_weighing_makes_exact() -> None:
    held = Held()
    for start in range(0, 1000, 100):
        held.add(WHOLE.slice(start, 100))
    assert held.bytes >= 8000
    assert held.rows == 1000
    assert held.weigh() == held.bytes == 8000


def test_slices_reach_a_limit_only_by_what_they_take() -> None:
    held = Held()
    reached = []
    for start in range(0, 1000, 100):
        held.add(WHOLE.slice(start, 100))
        reached.append(held.reaches(4000))
    assert reached == [False] * 4 + [True] * 6


def test_rows_are_taken_once_and_can_be_put_back() -> None:
    held = Held()
    held.add(WHOLE)
    table = held.take(WHOLE.schema)
    assert (table.num_rows, held.rows, held.bytes) == (1000, 0, 0)
    held.put_back(table.slice(990))
    assert (held.rows, held.bytes) == (10, 80)
    assert held.take(WHOLE.schema)["a"].to_pylist() == list(range(990, 1000))


def test_room_is_told_exactly() -> None:
    held = Held()
    held.add(WHOLE.slice(0, 500))
    assert held.has_room(WHOLE.slice(500, 500), 8000)
    assert not held.has_room(WHOLE.slice(500, 500), 7999)
