"""Changes of rows of several streams (label sets) by one operation: one version, a block of changes
for each stream, and each row stays in its stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import blockstore as bs
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.ids import ulid_at
from blockstore.index.change import Draft
from blockstore.index.entry import Operation
from blockstore.operations.append import earlier_block
from blockstore.rows import streams
from blockstore.rows.change import ChangeRows
from tests.blockstore.rows.lake import again, by_id, by_key, rows_of, seen
from tests.blockstore.rows.sites import X, Y, added, check, keyed, numbered, row, sites
from tests.support.index_data import Planned


def test_an_update_follows_the_streams_of_its_rows() -> None:
    table = keyed()
    did = table.update({"n": pc.field("n") + 100}, where="id >= 2")
    assert (did.updated, len(did.blocks), did.block) == (4, 3, None)
    assert added(table, did.version) == [X, Y, {}]
    assert sites(again(table)) == {
        ("x", 1): 11,
        ("x", 2): 112,
        ("y", 2): 122,
        ("y", 3): 123,
        ("", 3): 133,
    }
    entry = list(table.history())[-1]
    assert entry.touched is not None
    assert len(entry.touched) == 8 * 4, "two rows with key 2 are two rows"
    check(table)


def test_a_condition_may_name_labels_and_so_may_a_value() -> None:
    table = keyed()
    did = table.update({"n": 0, "name": pc.field("site")}, where="site = 'y'")
    assert (did.updated, added(table, did.version)) == (2, [Y])
    assert [one["name"] for one in seen(table, "name", where="site = 'y'")] == ["y", "y"]
    assert sites(table)["x", 2] == 12


def test_a_delete_by_condition_follows_the_streams_of_its_rows() -> None:
    table = keyed()
    assert table.delete("id = 2", dry_run=True).rows_removed == 2
    did = table.delete("id = 2")
    assert (did.rows_removed, len(did.added)) == (2, 2)
    assert sites(again(table)) == {("x", 1): 11, ("y", 3): 23, ("", 3): 33}
    check(table)


def test_a_key_names_the_row_with_the_labels_of_the_call_or_of_the_table() -> None:
    table = keyed()
    table.delete_rows([2, 3])
    assert ("", 3) not in sites(table)
    assert len(sites(table)) == 4, "rows of other labels are other rows"
    did = table.delete_rows([2, 3], labels=Y)
    assert did.deleted is None, "it reads nothing"
    assert set(sites(table)) == {("x", 1), ("x", 2)}
    table.set_cells([{"id": 2, "n": 5}], labels=X)
    with pytest.raises(bs.NotFound, match="not in the table"):
        table.set_cells([{"id": 2, "n": 5}])
    did = table.put_rows(rows_of(row(1, 7), row(9, 9)), labels=X)
    assert (did.version is not None, sites(table)) == (
        True,
        {("x", 1): 7, ("x", 2): 5, ("x", 9): 9},
    )
    with pytest.raises(bs.RowConflict, match="row 1 is new and exists"):
        table.put_rows(rows_of(row(1, 8)), labels=X, on_conflict="fail")
    table.put_rows(rows_of(row(1, 8)), on_conflict="fail")
    assert sites(table)["", 1] == 8


def test_an_id_names_its_row_whatever_labels_it_has() -> None:
    table = numbered()
    did = table.set_cells([{"_row_id": 3, "n": 30}, {"_row_id": 0, "n": 9}, {"_row_id": 4, "n": 8}])
    assert (did.updated, added(table, did.version)) == (3, [X, Y, {}])
    assert sites(again(table), "_row_id") == {
        ("x", 0): 9,
        ("x", 1): 1,
        ("y", 2): 2,
        ("y", 3): 30,
        ("", 4): 8,
    }
    with pytest.raises(bs.NotFound):
        table.set_cells([{"_row_id": 3, "n": 1}, {"_row_id": 99, "n": 1}])
    check(table)


def test_a_row_set_changes_rows_where_they_are_and_new_ones_get_the_labels_of_the_call() -> None:
    table = numbered()
    rows = pa.table(
        {
            "_row_id": pa.array([3, None, 0, 1], pa.int64()),
            "_version": pa.array([3, None, 2, 2], pa.int64()),
            "name": ["b", "new", "b", "a"],
            "n": [30, 50, 9, 1],
        }
    )
    did = table.put_rows(rows, labels={"site": "z"})
    assert (did.updated, did.inserted, did.unchanged) == (2, 1, 1)
    assert added(table, did.version) == [X, Y, {"site": "z"}]
    found = sites(again(table), "_row_id")
    assert {one for one in found.items() if one[0][0] in ("x", "y")} == {
        (("x", 0), 9),
        (("x", 1), 1),
        (("y", 2), 2),
        (("y", 3), 30),
    }
    assert [n for (site, _), n in found.items() if site == "z"] == [50]
    before = (found, table.poll())
    with pytest.raises(bs.RowConflict) as caught:
        table.put_rows(rows)
    assert [one[0] for one in caught.value.rows] == [3, 0]
    assert (sites(table, "_row_id"), table.poll()) == before
    check(table)


def test_ids_to_delete_are_looked_up_where_rows_have_several_sets_of_labels() -> None:
    table = numbered()
    did = table.delete_rows([0, 3, 4])
    assert (did.deleted, added(table, did.version)) == (3, [X, Y, {}])
    assert table.delete_rows([0, 3]).version is None, "they are gone"
    assert set(sites(again(table), "_row_id")) == {("x", 1), ("y", 2)}
    assert table.row_history(3)["_deleted"].to_pylist() == [True, False]
    with pytest.raises(bs.Invalid, match="row id 99 was never given"):
        table.delete_rows([1, 99])
    alone = by_id()
    alone.append(pa.table({"name": ["a"], "n": [1]}), labels=X)
    assert alone.delete_rows([0]).deleted == 1
    assert seen(alone) == []


def test_a_merge_looks_at_all_rows_and_inserts_with_the_labels_of_the_call() -> None:
    table = keyed()
    did = (
        table.merge(rows_of(row(2, 1), row(3, 2), row(8, 3)), on="id", labels={"site": "z"})
        .when_matched_delete(condition=pc.field("target.site") == "y")
        .when_matched_update({"n": pc.field("target.n") + pc.field("source.n")})
        .when_not_matched_insert()
        .when_not_matched_by_source_update({"n": -1})
        .execute()
    )
    assert (did.inserted, did.updated, did.deleted) == (1, 3, 2)
    assert added(table, did.version) == [X, Y, {"site": "z"}, {}]
    assert sites(again(table)) == {("x", 1): -1, ("x", 2): 13, ("", 3): 35, ("z", 8): 3}
    check(table)


def test_an_overwrite_replaces_rows_of_all_labels() -> None:
    table = keyed()
    did = table.overwrite(rows_of(row(2, 5), row(9, 9)), labels=X)
    assert (did.rows_added, did.rows_removed, len(did.added)) == (2, 5, 3)
    assert sites(again(table)) == {("x", 2): 5, ("x", 9): 9}
    table.revert(did.version)
    assert sites(table) == sites(keyed())
    check(table)


def test_an_overwrite_by_condition_knows_a_key_by_its_labels() -> None:
    table = keyed()
    table.overwrite(rows_of(row(2, 50)), where="id = 2", labels=Y)
    assert sites(table) == {("x", 1): 11, ("y", 2): 50, ("y", 3): 23, ("", 3): 33}
    did = table.overwrite(rows_of(row(2, 51)), where="site = 'x'", labels=X, dry_run=True)
    assert (did.rows_added, did.rows_removed) == (1, 1)
    with pytest.raises(bs.RowConflict, match="widen the condition"):
        table.overwrite(rows_of(row(2, 51)), where="n = 51", labels=Y)
    table.overwrite(rows_of(row(2, 51)), where="n = 51", labels={"site": "z"})
    assert sites(table)["z", 2] == 51


def test_a_restore_and_a_revert_give_rows_of_all_labels_their_state() -> None:
    table = keyed()
    before = sites(table)
    bad = table.update({"n": 0})
    table.upsert(rows_of(row(2, 99)), labels=Y)
    table.delete("id = 3")
    preview = table.restore(version=4, dry_run=True)
    did = table.restore(version=4)
    assert (did.rows_changed, did.rows_back, did.rows_gone) == (3, 2, 0)
    assert (preview.rows_changed, preview.rows_back) == (3, 2)
    assert sites(again(table)) == before
    table.revert(did.version)
    assert sites(table) == {("x", 1): 0, ("x", 2): 0, ("y", 2): 99}
    undone = table.revert(bad.version)
    assert len(undone.undone) == 0, "all of its rows were changed since"
    check(table)


def test_a_revert_of_one_stream_leaves_the_key_of_another() -> None:
    """Version 5 wrote key 2 of x and of y; only x was changed after it, and both are reverted."""
    table = keyed()
    both = table.update({"n": 0}, where="id = 2")
    later = table.upsert(rows_of(row(2, 99)), labels=X)
    undone = table.revert(both.version, later.version)
    assert undone.left == {}
    assert sites(table) == sites(keyed())


def test_versions_of_a_row_are_found_in_their_streams() -> None:
    table = numbered()
    table.update({"n": pc.field("n") + 10})
    assert table.fetch([(0, 2), (0, 5), (3, 3), (3, 5)])["n"].to_pylist() == [0, 10, 3, 13]
    assert table.row_history(4)["_version"].to_pylist() == [5, 4]


def test_a_job_counts_once_with_the_rows_of_all_streams() -> None:
    table, job = keyed(), bs.Job("nightly", 1)
    first = table.update({"n": 0}, job=job)
    again_ = table.update({"n": 1}, job=job)
    assert (again_.already, again_.version) == (True, first.version)
    earlier = earlier_block(table.log.poll(), job)
    assert earlier is not None
    assert (earlier.ulid, earlier.rows, earlier.version) == (first.blocks[0], 5, 5)


def test_merges_after_it_keep_every_row(tmp_path: Path) -> None:
    for make, identity in ((keyed, "id"), (numbered, "_row_id")):
        table = make()
        table.update({"n": pc.field("n") + 100}, where="n > 1")
        table.delete("n = 122 or n = 103")
        table.update({"n": pc.field("n") + 100}, where="n > 100")
        before = sites(table, identity)
        compact_once(table, Settings(tier_blocks=2, work_dir=tmp_path))
        assert sites(again(table), identity) == before
        assert len(list(table.log.poll().blocks)) < 9
        check(table)


def test_an_upsert_of_one_stream_meanwhile_plans_the_update_of_all_again() -> None:
    table = keyed()
    other = again(table)
    begun: list[object] = []

    def values(rows: pa.RecordBatch) -> pa.Array:
        if not begun:
            begun.append(other.upsert(rows_of(row(3, 1_000)), labels=Y))
        return pc.add(rows["n"], 1)

    did = table.update({"n": values})
    assert (did.updated, did.version) == (5, 6)
    assert sites(table) == {
        ("x", 1): 12,
        ("x", 2): 13,
        ("y", 2): 23,
        ("y", 3): 1_001,
        ("", 3): 34,
    }


def test_an_upsert_of_the_same_key_of_other_labels_conflicts_with_nothing() -> None:
    table = keyed()
    other = again(table)
    begun: list[object] = []

    def values(rows: pa.RecordBatch) -> pa.Array:
        if not begun:
            begun.append(other.upsert(rows_of(row(1, 1_000)), labels=Y))
        return pc.add(rows["n"], 1)

    before = sum(info.key.endswith("meta.json") for info in table.bucket.list())
    table.update({"n": values}, where="id = 1")
    now = sum(info.key.endswith("meta.json") for info in table.bucket.list())
    assert now == before + 2, "theirs, and one plan of this one"
    assert (sites(table)["x", 1], sites(table)["y", 1]) == (12, 1_000)


def test_a_delete_of_ids_that_looked_them_up_is_planned_again_where_one_was_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = numbered()
    other = again(table)
    commit, begun = table.log.commit, []

    def first_theirs(change: Any) -> Any:
        if isinstance(change, ChangeRows) and not begun:
            begun.append(other.set_cells([{"_row_id": 3, "n": 7}]))
        return commit(change)

    monkeypatch.setattr(table.log, "commit", first_theirs)
    did = table.delete_rows([3, 0])
    assert (did.version, did.deleted) == (6, 2)
    assert set(sites(table, "_row_id")) == {("x", 1), ("y", 2), ("", 4)}


def test_condemned_blocks_are_uploaded_again_each(monkeypatch: pytest.MonkeyPatch) -> None:
    table = keyed()
    other, world = again(table), table.world
    commit, given = table.log.commit, []

    def first_the_horizon(change: Any) -> Any:
        if isinstance(change, ChangeRows) and not given:
            given.extend(change.blocks)
            plan = Draft(horizon=ulid_at(world.clock.now_ms() + 1))
            rise = Planned(operation=Operation.HORIZON, commit=world.ids.ulid(), plan=plan)
            other.log.commit(rise)
            world.clock.sleep(1)
        return commit(change)

    monkeypatch.setattr(table.log, "commit", first_the_horizon)
    did = table.update({"n": pc.field("n") + 1})
    assert len(did.blocks) == 3
    assert not {block.ulid for block in given} & set(did.blocks)
    live = again(table).log.state.blocks.get_all(did.blocks)
    assert sorted(block.meta.sources for block in live.values()) == sorted(
        block.sources for block in given
    )
    assert sites(again(table))["y", 3] == 24
    check(table)


def test_all_streams_together_hold_no_more_than_the_buffer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = by_key()
    held: list[int] = []
    bound = streams.StreamChanges._bound

    def watched(self: streams.StreamChanges) -> None:
        bound(self)
        held.append(sum(writer.held_bytes for writer in self._writers.values()))

    for site in "abcdef":
        table.upsert(rows_of(*(row(key, key) for key in range(500))), labels={"site": site})
    monkeypatch.setattr(streams.StreamChanges, "_bound", watched)
    from blockstore.rows.attempts import Said
    from blockstore.rows.update import update

    did = update(table._access, {"n": pc.field("n") + 1}, None, Said(buffer_bytes=40_000))
    assert (did.updated, len(did.blocks)) == (3_000, 6)
    assert max(held) <= 40_000
    assert sum(n for n in sites(table).values()) == 6 * sum(range(1, 501))
