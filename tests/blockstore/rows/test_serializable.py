"""``serializable``: a change is planned again unless all that it has read would be read again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import blockstore as bs
from blockstore.format.properties import Isolation, Properties
from blockstore.rows import seen as seen_module
from blockstore.table import Table
from tests.blockstore.rows.lake import BY_KEY, again, at_commit, by_id, by_key, rows_of, seen
from tests.blockstore.rows.made import every_version, replace_blocks, upload
from tests.blockstore.rows.test_conflicts import meanwhile

SERIALIZABLE = Properties(isolation=Isolation.SERIALIZABLE)


def row(place: int, n: int, name: str = "a") -> dict[str, Any]:
    return {"id": place, "name": name, "n": n}


def tables(*ns: int, isolation: str = "serializable") -> tuple[Table, Table]:
    table = by_key(properties=Properties(isolation=Isolation(isolation)))
    table.upsert(rows_of(*(row(place, n) for place, n in enumerate(ns))))
    return table, again(table)


def plans(table: Table, do: Callable[[], object]) -> int:
    """How many blocks of changes ``do`` writes, debris too: one for each plan."""
    before = sum(info.key.endswith("meta.json") for info in table.bucket.list())
    do()
    return sum(info.key.endswith("meta.json") for info in table.bucket.list()) - before


@pytest.mark.parametrize(
    ("isolation", "ns"), [("serializable", [2, 3, 11]), ("write-serializable", [2, 3, 10])]
)
def test_a_row_that_comes_to_meet_the_condition_meanwhile(isolation: str, ns: list[int]) -> None:
    table, other = tables(1, 2, isolation=isolation)
    late = meanwhile(lambda: other.upsert(rows_of(row(7, 10))))
    did = table.update({"n": late}, where="n < 100")
    assert [one["n"] for one in seen(again(table), "id", "n")] == ns
    assert did.updated == (3 if isolation == "serializable" else 2)


def test_one_call_says_it_for_itself() -> None:
    table, other = tables(1, isolation="write-serializable")
    late = meanwhile(lambda: other.upsert(rows_of(row(7, 10))))
    table.update({"n": late}, where="n < 100", isolation="serializable")
    assert seen(again(table), "n") == [{"n": 11}, {"n": 2}]
    with pytest.raises(bs.Invalid, match="isolation is 'strict', expected one of"):
        table.update({"n": 1}, isolation="strict")


def test_what_cannot_meet_the_condition_plans_nothing_again() -> None:
    table, other = tables(1, 2)

    def others() -> None:
        other.upsert(rows_of(row(7, 1_000)))
        other.delete_rows([7])

    assert plans(table, lambda: table.update({"n": meanwhile(others)}, where="n < 100")) == 3


def test_a_row_that_meets_it_no_longer_was_changed_and_is_a_conflict_anyway() -> None:
    table, other = tables(1, 2)
    gone = meanwhile(lambda: other.upsert(rows_of(row(1, 1_000))))
    assert table.update({"n": gone}, where="n < 100").updated == 1


@pytest.mark.parametrize("merged", [False, True])
def test_new_rows_are_seen_when_they_were_merged_meanwhile(merged: bool) -> None:
    table = by_id(properties=SERIALIZABLE)
    table.append(pa.table({"name": ["a"], "n": [1]}))
    other = again(table)

    def late() -> None:
        other.append(pa.table({"name": ["b"], "n": [10]}))
        if merged:
            ulids = other.log.poll().blocks.ulids()
            replace_blocks(other, ulids, upload(other, every_version(other), inputs=ulids))

    assert table.update({"n": meanwhile(late)}, where="n < 100").updated == 2
    assert seen(again(table), "n") == [{"n": 11}, {"n": 2}]


def test_a_merge_of_blocks_alone_plans_nothing_again() -> None:
    table = by_id(properties=SERIALIZABLE)
    for n in (1, 2):
        table.append(pa.table({"name": ["a"], "n": [n]}))
    other = again(table)

    def merge() -> None:
        ulids = other.log.poll().blocks.ulids()
        replace_blocks(other, ulids, upload(other, every_version(other), inputs=ulids))

    assert plans(table, lambda: table.update({"n": meanwhile(merge)}, where="n < 100")) == 2


def test_a_delete_and_an_overwrite_see_new_rows_too() -> None:
    table, other = tables(1)
    at_commit(table, lambda: other.upsert(rows_of(row(7, 10))))
    assert table.delete("n < 100").rows_removed == 2
    at_commit(table, lambda: other.upsert(rows_of(row(8, 10))))
    table.overwrite(rows_of(row(9, 5)), where="n < 100")
    assert seen(again(table), "id") == [{"id": 9}]
    with pytest.raises(bs.Invalid, match="takes no read_version"):
        table.delete("n < 100", read_version=2)


def crossed(table: Table, target: int, source: int, do: Callable[[], object]) -> None:
    """Set n of one row to that of another, which is matched and stays; ``do`` comes in between."""
    given = pa.table({"id": [target, source], "from": [source, target]})
    own = table.snapshot().scan(columns=["n"], where=f"id = {source}").to_table()["n"][0]
    both = table.merge(given, on="id").when_matched_update(
        {"n": meanwhile_value(own.as_py(), do)}, condition=pc.field("target.id") == target
    )
    both.execute()


def meanwhile_value(value: int, do: Callable[[], object]) -> Callable[[pa.RecordBatch], pa.Array]:
    left = [1]

    def values(rows: pa.RecordBatch) -> pa.Array:
        if left[0]:
            left[0] = 0
            do()
        return pa.array([value] * len(rows), pa.int64())

    return values


@pytest.mark.parametrize(("isolation", "blocks"), [("serializable", 3), ("write-serializable", 2)])
def test_a_merge_is_planned_again_where_a_row_that_it_left_was_changed(
    isolation: str, blocks: int
) -> None:
    table, other = tables(1, 2, isolation=isolation)
    change = lambda: other.upsert(rows_of(row(1, 20)))  # noqa: E731
    assert plans(table, lambda: crossed(table, 0, 1, change)) == blocks


@pytest.mark.parametrize(("isolation", "count"), [("serializable", 1), ("write-serializable", 2)])
def test_of_two_merges_that_insert_the_same_thing_one_finds_the_other(
    isolation: str, count: int
) -> None:
    table = by_id(properties=Properties(isolation=Isolation(isolation)))
    table.append(pa.table({"name": ["z"], "n": [0]}))
    new = pa.table({"name": ["b", None], "n": [5, 6]})

    def merge(by: Table) -> None:
        by.merge(new.slice(0, 1), on="name").when_not_matched_insert().execute()

    at_commit(table, lambda: merge(again(table)))
    merge(table)
    assert len(seen(again(table), "n", where="name = 'b'")) == count


def test_a_key_that_a_merge_did_not_find_may_come_in_another_stream() -> None:
    table, other = tables(1)
    given = rows_of(row(0, 5), row(3, 6))
    change = lambda: other.upsert(rows_of(row(3, 7)), labels={"site": "x"})  # noqa: E731
    at_commit(table, change)
    table.merge(given, on="id").when_matched_update().execute()
    assert seen(again(table), "id", "n") == [{"id": 0, "n": 5}, {"id": 3, "n": 6}]


def test_a_merge_of_rows_by_source_has_read_the_table() -> None:
    table, other = tables(1, 2)
    merge = table.merge(rows_of(row(0, 5)), on="id").when_not_matched_by_source_delete()
    at_commit(table, lambda: other.upsert(rows_of(row(9, 9))))
    merge.execute()
    assert seen(again(table), "id") == [{"id": 0}]


def test_a_key_that_an_insert_passed_over_must_still_be_there() -> None:
    table, other = tables(1)
    at_commit(table, lambda: other.delete_rows([0]))
    did = table.insert(rows_of(row(0, 5), row(1, 6)), on_conflict="ignore")
    assert (did.inserted, did.unchanged) == (2, 0)


def test_a_row_that_a_row_set_leaves_as_it_was_must_still_be_so() -> None:
    table, other = tables(1, 2)
    at_commit(table, lambda: other.upsert(rows_of(row(0, 9))))
    read = pa.table(
        {"id": [0, 1], "name": ["a", "a"], "n": [1, 5], "_version": [2, 2]},
        pa.schema([*BY_KEY, ("_version", pa.int64())]),
    )
    with pytest.raises(bs.RowConflict, match="row 0 was read at version 2 and has version 3"):
        table.put_rows(read)


def test_a_restore_is_planned_again_for_rows_that_came_meanwhile() -> None:
    table, other = tables(1)
    table.upsert(rows_of(row(0, 2)))
    at_commit(table, lambda: other.upsert(rows_of(row(5, 5))))
    table.restore(version=2)
    assert seen(again(table), "id", "n") == [{"id": 0, "n": 1}]


def test_a_revert_is_planned_again_where_a_row_that_it_left_was_changed() -> None:
    table, other = tables(1)
    write = table.upsert(rows_of(row(0, 2), row(1, 2)))
    other.upsert(rows_of(row(1, 3)))
    at_commit(table, lambda: other.upsert(rows_of(row(1, 4))))
    assert plans(table, lambda: table.revert(*write.blocks)) == 3


def test_more_rows_than_are_held_are_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_module, "_MOST", 1)
    table, other = tables(1, 2)
    change = lambda: other.upsert(rows_of(row(7, 20)))  # noqa: E731
    assert plans(table, lambda: crossed(table, 0, 1, change)) == 3


def test_blind_changes_read_nothing_and_never_conflict() -> None:
    table, other = tables(1)

    def blind() -> None:
        at_commit(table, lambda: other.upsert(rows_of(row(0, 7))))
        table.upsert(rows_of(row(0, 8)))
        at_commit(table, lambda: other.upsert(rows_of(row(0, 9))))
        table.delete_rows([0])

    assert plans(table, blind) == 4
    assert seen(again(table)) == []
