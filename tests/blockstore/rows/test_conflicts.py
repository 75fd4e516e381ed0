"""What happens when others change rows between the reading and the commit of an operation."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import blockstore as bs
from blockstore.index import touches
from blockstore.index.touches import MOST
from blockstore.rows import attempts
from blockstore.table import Table
from tests.blockstore.rows.lake import again, by_id, by_key, rows_of, seen


def meanwhile(do: Callable[[], object], times: int = 1) -> Callable[[pa.RecordBatch], pa.Array]:
    """New values, n + 1; the first ``times`` that they are computed, ``do`` is done first."""
    left = [times]

    def values(rows: pa.RecordBatch) -> pa.Array:
        if left[0]:
            left[0] -= 1
            do()
        return pc.add(rows["n"], 1)

    return values


def table_of(*ns: int) -> tuple[Table, Table]:
    table = by_key()
    table.upsert(rows_of(*({"id": place, "name": "a", "n": n} for place, n in enumerate(ns))))
    return table, again(table)


def blocks(table: Table) -> int:
    """The blocks of the bucket, debris of plans too."""
    return sum(info.key.endswith("meta.json") for info in table.bucket.list())


def test_an_update_of_a_row_that_was_changed_meanwhile_is_planned_again() -> None:
    table, other = table_of(1, 2)
    late = rows_of({"id": 0, "name": "b", "n": 10})
    did = table.update({"n": meanwhile(lambda: other.upsert(late))})
    assert (did.version, did.updated) == (4, 2)
    assert seen(table, "id", "n") == [{"id": 0, "n": 11}, {"id": 1, "n": 3}]


def test_a_change_of_another_row_plans_nothing_again() -> None:
    table, other = table_of(1, 2)
    late = rows_of({"id": 7, "name": "b", "n": 10})
    table.update({"n": meanwhile(lambda: other.upsert(late))}, where="id = 0")
    assert blocks(table) == 3
    assert seen(table, "id", "n") == [{"id": 0, "n": 2}, {"id": 1, "n": 2}, {"id": 7, "n": 10}]


def test_a_deletion_meanwhile_is_seen() -> None:
    table, other = table_of(1, 2)
    did = table.update({"n": meanwhile(lambda: other.delete_rows([0]))})
    assert did.updated == 1
    assert seen(table, "id", "n") == [{"id": 1, "n": 3}]


def test_both_of_two_changes_of_cells_of_one_row_survive() -> None:
    table, other = table_of(1)
    did = table.update(
        {"n": meanwhile(lambda: other.set_cells([{"id": 0, "name": "theirs"}]))}, where="id = 0"
    )
    assert did.version == 4
    assert seen(table) == [{"id": 0, "name": "theirs", "n": 2}]


def test_of_two_inserts_of_a_key_one_finds_the_other() -> None:
    table, other = table_of()
    mine = rows_of({"id": 5, "name": "mine", "n": 0})
    real, begun = table.log.commit, []

    def commit(change: object) -> object:
        if not begun:
            begun.append(other.insert(rows_of({"id": 5, "name": "theirs", "n": 0})))
        return real(change)  # type: ignore[arg-type]

    table.log.commit = commit  # type: ignore[method-assign, assignment]
    with pytest.raises(bs.RowConflict, match="exist already") as caught:
        table.insert(mine)
    assert caught.value.rows == ((5, None, None),)
    assert [row["name"] for row in seen(table)] == ["theirs"]


def test_a_version_that_the_caller_read_must_be_the_current_one() -> None:
    table = by_id()
    table.append(pa.table({"name": ["a", "b"], "n": [1, 2]}))
    table.set_cells([{"_row_id": 0, "n": 5}])
    with pytest.raises(bs.RowConflict, match="read at version 2 and has version 3") as caught:
        table.set_cells(
            [{"_row_id": 0, "_version": 2, "n": 6}, {"_row_id": 1, "_version": 2, "n": 7}]
        )
    assert caught.value.rows == ((0, 2, 3),)
    assert seen(table, "n") == [{"n": 2}, {"n": 5}]


def test_blind_upserts_never_conflict_and_the_later_one_wins() -> None:
    table, other = table_of(1)
    other.upsert(rows_of({"id": 0, "name": "x", "n": 2}))
    table.upsert(rows_of({"id": 0, "name": "y", "n": 3}))
    assert seen(again(table), "name") == [{"name": "y"}]


def test_rows_that_change_all_the_time_are_an_honest_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "_PLANS", 3)
    table, other = table_of(1)

    def bump() -> None:
        other.update({"n": pc.field("n") + 100})

    with pytest.raises(bs.RowConflict, match="was planned 3 times"):
        table.update({"n": meanwhile(bump, times=3)})
    assert seen(again(table), "n") == [{"n": 301}]


def test_more_rows_than_an_entry_names_may_be_any() -> None:
    table, other = table_of(1, 2)
    many = rows_of(*({"id": 100 + place, "name": "m", "n": 0} for place in range(MOST + 1)))
    before = blocks(table)
    table.update({"n": meanwhile(lambda: other.upsert(many))}, where="id = 0")
    assert blocks(table) == before + 3, "one of theirs, and two plans of this one"
    assert next(reversed(list(table.history()))).touched is not None


def test_entries_that_a_state_no_longer_knows_may_have_touched_any_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(touches, "_KEPT_ENTRIES", 1)
    table, other = table_of(1)

    def two() -> None:
        other.upsert(rows_of({"id": 0, "name": "b", "n": 10}))
        other.upsert(rows_of({"id": 9, "name": "c", "n": 0}))

    table.update({"n": meanwhile(two)}, where="id = 0")
    assert seen(table, "id", "n") == [{"id": 0, "n": 11}, {"id": 9, "n": 0}]


def test_a_definition_that_was_altered_meanwhile_is_followed() -> None:
    table, other = table_of(1)
    did = table.update({"n": meanwhile(lambda: other.alter(add=[pa.field("x", pa.int64())]))})
    assert did.version == 4
    assert seen(table) == [{"id": 0, "name": "a", "n": 2, "x": None}]


def test_a_job_counts_once() -> None:
    table, _ = table_of(1)
    job = bs.Job("app", 1)
    first = table.update({"n": pc.field("n") + 1}, job=job)
    second = table.update({"n": pc.field("n") + 1}, job=job)
    assert (second.version, second.already) == (first.version, True)
    assert seen(table, "n") == [{"n": 2}]
