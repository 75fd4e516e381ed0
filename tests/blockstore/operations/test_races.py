"""Transactions while others change the table: between the look and the commit, everything that may
come in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.format.block import VisibleBy
from blockstore.format.meta import load_meta
from blockstore.format.properties import Properties
from blockstore.ids import ulid_at
from blockstore.index.added import AddedBlock
from blockstore.index.change import Draft
from blockstore.index.entry import Operation
from blockstore.operations.access import Access
from blockstore.operations.expire import expire
from blockstore.operations.rewrite import rewrite
from blockstore.table import Table
from tests.blockstore.operations.lake import Lake, Row, table_of
from tests.support.faulty import Call, FaultyBucket
from tests.support.index_data import Planned

A, B, C, D = ("a", 1, 0.1), ("b", 2, 0.2), ("c", 3, 0.3), ("d", 4, 0.4)


def racing(lake: Lake, *meanwhile: Callable[[], object], at: str = "index/0") -> Table:
    """A handle; each of ``meanwhile`` happens just before one of its first tries to write an index
    entry (or another object with ``at`` in its name)."""
    faulty = FaultyBucket(lake.bucket)
    left = list(meanwhile)

    def interfere(call: Call) -> None:
        if call.writes and at in call.key and left:
            left.pop(0)()

    faulty.before.append(interfere)
    return lake.open(faulty)


def seen(*rows: Row) -> Counter[Row]:
    return Counter(rows)


class TestAppendsInBetween:
    def test_stand_after_a_delete(self) -> None:
        lake = Lake()
        lake.append(A, B)
        done = racing(lake, lambda: lake.append(B)).delete("key = 'b'")
        assert done.rows_removed == 1
        assert lake.plain() == seen(A, B)

    def test_stand_after_an_overwrite(self) -> None:
        lake = Lake()
        lake.append(A)
        racing(lake, lambda: lake.append(B)).overwrite(table_of([C]))
        assert lake.plain() == seen(B, C)

    def test_also_those_that_came_while_the_new_rows_were_uploaded(self) -> None:
        lake = Lake()
        lake.append(A)

        def rows() -> object:
            yield table_of([C])
            lake.append(B)
            yield table_of([D])

        lake.open().overwrite(rows())
        assert lake.plain() == seen(B, C, D)

    def test_stand_after_a_restore(self) -> None:
        lake = Lake()
        lake.append(A)
        lake.append(B)
        # Two entries of its own come first: the tag, and the restore itself is the second.
        racing(lake, lambda: None, lambda: lake.append(D)).restore(version=2)
        assert lake.plain() == seen(A, D)

    @pytest.mark.parametrize("by", ["call", "property"])
    def test_conflict_where_the_isolation_is_serializable(self, by: str) -> None:
        strict = {"isolation": "serializable"}
        lake = Lake(properties=Properties.parse(strict if by == "property" else {}))
        lake.append(A, B)
        table = racing(lake, lambda: lake.append(B))
        with pytest.raises(bs.Conflict, match=r"version 3 appended block .* 'write-serializable'"):
            table.delete("key = 'b'", **({} if by == "property" else strict))
        assert lake.plain() == seen(A, B, B)

    def test_do_not_conflict_where_they_cannot_match(self) -> None:
        lake = Lake()
        lake.append(A, B)
        racing(lake, lambda: lake.append(C)).delete("key = 'b'", isolation="serializable")
        assert lake.plain() == seen(A, C)

    def test_conflict_when_serializable_though_a_merge_has_carried_them_on(
        self, tmp_path: Path
    ) -> None:
        lake = Lake()
        lake.append(A, B)
        lake.append(C)

        def meanwhile() -> None:
            lake.append(B)
            lake.merge(tmp_path)

        with pytest.raises(bs.Conflict, match="version 4 appended"):
            racing(lake, meanwhile).delete("key = 'b'", isolation="serializable")
        assert lake.plain() == seen(A, B, B, C)

    def test_a_loosened_call_overrides_a_strict_table(self) -> None:
        lake = Lake(properties=Properties.parse({"isolation": "serializable"}))
        lake.append(A)
        racing(lake, lambda: lake.append(A)).delete("key = 'a'", isolation="write-serializable")
        assert lake.plain() == seen(A)


class TestMergesInBetween:
    @pytest.mark.parametrize("where", ["key = 'b'", "number >= 2", "true"])
    def test_are_planned_on_anew(self, tmp_path: Path, where: str) -> None:
        lake = Lake()
        for row in (A, B, C):
            lake.append(row, row)
        alone = lake.copy()
        alone.open().delete(where)
        racing(lake, lambda: lake.merge(tmp_path)).delete(where)
        assert lake.rows() == alone.rows()

    def test_several_times(self, tmp_path: Path) -> None:
        lake = Lake()
        lake.append(A, B)

        def meanwhile() -> None:
            lake.append(C)
            lake.merge(tmp_path)

        racing(lake, *[meanwhile] * 5).delete("key = 'b'")
        assert lake.plain() == seen(A, *[C] * 5)

    def test_of_everything_that_an_overwrite_replaces_need_no_second_upload(
        self, tmp_path: Path
    ) -> None:
        lake = Lake()
        lake.append(A)
        lake.append(B)
        table = racing(lake, lambda: lake.merge(tmp_path))
        faulty = table.bucket
        assert isinstance(faulty, FaultyBucket)
        (added,) = table.overwrite(table_of([C])).added
        assert lake.plain() == seen(C)
        chunks = {
            call.key.partition("/")[0]
            for call in faulty.calls
            if call.writes and "/chunks/" in call.key
        }
        assert chunks == {added}

    def test_with_an_append_in_one_block_make_an_overwrite_upload_its_rows_again(
        self, tmp_path: Path
    ) -> None:
        """The merged block holds a write that the overwrite did not know: it must account for that
        as well."""
        lake = Lake()
        lake.append(A)

        def meanwhile() -> None:
            lake.append(B)
            lake.merge(tmp_path)

        done = racing(lake, meanwhile).overwrite(table_of([C]))
        assert lake.plain() == seen(C)
        lake.check()
        (source,) = {source for _, source in lake.rows()}
        assert done.added != (source,), (
            "its rows still say under which name they were written first"
        )
        lake.open().revert(source)
        assert lake.plain() == seen()

    def test_that_leave_no_row_are_followed(self, tmp_path: Path) -> None:
        lake = Lake()
        source = lake.source(A)
        lake.append(B)

        def meanwhile() -> None:
            lake.open().revert(source)
            lake.merge(tmp_path)

        racing(lake, meanwhile).delete("key = 'a'")
        assert lake.plain() == seen(B)

    def test_do_not_disturb_a_revert(self, tmp_path: Path) -> None:
        lake = Lake()
        source = lake.source(A)
        lake.append(B)
        done = racing(lake, lambda: lake.merge(tmp_path)).revert(source)
        assert list(done.hidden) == [source]
        assert lake.plain() == seen(B)

    def test_do_not_disturb_a_restore(self, tmp_path: Path) -> None:
        lake = Lake()
        lake.append(A)
        lake.append(B)

        def meanwhile() -> None:
            lake.append(C)
            lake.merge(tmp_path)

        racing(lake, lambda: None, meanwhile).restore(version=2)
        assert lake.plain() in (seen(A), seen(A, C))
        lake.check()

    def test_make_a_rewrite_conflict(self, tmp_path: Path) -> None:
        lake = Lake()
        lake.append(A)
        (ulid,) = lake.live()
        lake.append(B)
        table = racing(lake, lambda: lake.merge(tmp_path))
        with pytest.raises(bs.Conflict, match=ulid):
            rewrite(Access.of(table.bucket, table.world, table.log), [ulid])
        assert lake.plain() == seen(A, B)


class TestTransactionsInBetween:
    def test_two_deletes_race_and_both_are_done(self) -> None:
        lake = Lake()
        lake.append(A, B, C)
        racing(lake, lambda: lake.open().delete("key = 'a'")).delete("key = 'b'")
        assert lake.plain() == seen(C)

    def test_the_same_delete_twice_deletes_once(self) -> None:
        lake = Lake()
        lake.append(A, B)
        done = racing(lake, lambda: lake.open().delete("key = 'a'")).delete("key = 'a'")
        assert (done.version, done.rows_removed) == (None, 0)
        assert lake.plain() == seen(B)

    def test_two_overwrites_of_everything_conflict(self) -> None:
        lake = Lake()
        lake.append(A)
        table = racing(lake, lambda: lake.open().overwrite(table_of([B])))
        with pytest.raises(bs.Conflict, match=r"version 3 \(overwrite\) brought block"):
            table.overwrite(table_of([C]))
        assert lake.plain() == seen(B)

    def test_overwrites_of_different_rows_of_one_block_are_both_done(self) -> None:
        lake = Lake()
        lake.append(A, B, C)
        mine, others = ("a", 9, 0.9), ("b", 9, 0.9)
        racing(
            lake, lambda: lake.open().overwrite(table_of([others]), where="key = 'b'")
        ).overwrite(table_of([mine]), where="key = 'a'")
        assert lake.plain() == seen(mine, others, C)

    def test_overwrites_of_the_same_rows_conflict(self) -> None:
        lake = Lake()
        lake.append(A, B)
        table = racing(
            lake, lambda: lake.open().overwrite(table_of([("a", 7, None)]), where="key = 'a'")
        )
        with pytest.raises(bs.Conflict, match="look at the table and decide again"):
            table.overwrite(table_of([("a", 8, None)]), where="key = 'a'")
        assert lake.plain() == seen(("a", 7, None), B)

    def test_a_delete_conflicts_with_new_rows_that_match(self) -> None:
        lake = Lake()
        lake.append(A, B)
        table = racing(lake, lambda: lake.open().overwrite(table_of([A, A]), where="key = 'a'"))
        with pytest.raises(bs.Conflict, match="overwrite"):
            table.delete("key = 'a'")
        assert lake.plain() == seen(A, A, B)

    def test_also_where_a_merge_has_carried_them_on(self, tmp_path: Path) -> None:
        lake = Lake()
        lake.append(A, B)
        lake.append(C)

        def meanwhile() -> None:
            lake.open().overwrite(table_of([A, A]), where="key = 'a'")
            lake.merge(tmp_path)

        with pytest.raises(bs.Conflict, match="overwrite"):
            racing(lake, meanwhile).delete("key = 'a'")
        assert lake.plain() == seen(A, A, B, C)

    def test_a_delete_conflicts_with_rows_that_a_restore_brings_back(self) -> None:
        lake = Lake()
        lake.append(A)
        lake.open().delete("key = 'a'")
        lake.append(("a", 9, 0.9))
        table = racing(lake, lambda: lake.open().restore(version=2))
        with pytest.raises(bs.Conflict, match="restore"):
            table.delete("key = 'a'")
        assert lake.plain() == seen(A)

    def test_a_delete_conflicts_with_a_revert_undone_by_a_restore(self, tmp_path: Path) -> None:
        """The block is live before and after; it only shows more than when it was read."""
        lake = Lake()
        first, second = lake.source(A), lake.source(B)
        lake.merge(tmp_path, [first, second])
        lake.append(("a", 9, 0.9))
        version = lake.open().poll()
        lake.open().revert(first)
        table = racing(lake, lambda: lake.open().restore(version=version))
        with pytest.raises(bs.Conflict, match="restore"):
            table.delete("key = 'a'")
        assert lake.plain() == seen(A, B, ("a", 9, 0.9))

    def test_a_revert_in_between_is_planned_on_anew(self, tmp_path: Path) -> None:
        lake = Lake()
        first = lake.source(A, B)
        lake.append(B, C)
        lake.merge(tmp_path)
        racing(lake, lambda: lake.open().revert(first)).delete("key = 'b'")
        assert lake.plain() == seen(C)

    def test_two_reverts_of_one_merged_block(self, tmp_path: Path) -> None:
        lake = Lake()
        first, second = lake.source(A), lake.source(B)
        lake.append(C)
        lake.merge(tmp_path)
        racing(lake, lambda: lake.open().revert(first)).revert(second)
        assert lake.plain() == seen(C)

    def test_the_last_sources_of_a_block_reverted_by_two(self, tmp_path: Path) -> None:
        lake = Lake()
        first, second = lake.source(A), lake.source(B)
        lake.merge(tmp_path)
        racing(lake, lambda: lake.open().revert(first)).revert(second)
        assert lake.live() == []

    def test_a_restore_conflicts_with_nobody_for_good(self) -> None:
        lake = Lake()
        lake.append(A)
        lake.append(B)
        racing(lake, lambda: None, lambda: lake.open().overwrite(table_of([C]))).restore(version=2)
        assert lake.plain() == seen(A)

    def test_an_expire_in_between_is_followed(self) -> None:
        lake = Lake()
        lake.append(A)
        gone = lake.source(A)

        def meanwhile() -> None:
            expire(lake.open().log, lake.world, [gone], "retention")

        racing(lake, meanwhile).delete("key = 'a'")
        assert lake.live() == []

    def test_an_operation_of_a_later_release_conflicts_where_its_rows_match(self) -> None:
        lake = Lake()
        lake.append(A)
        lake.append(C)
        live = lake.open().log.state.blocks

        def upsert() -> None:
            block = lake.open().append(table_of([B]), publish=False)
            assert block.ulid is not None
            meta = load_meta(lake.bucket, block.ulid)
            change = Planned(
                operation="upsert",  # type: ignore[arg-type]
                commit=lake.world.ids.ulid(),
                plan=Draft(add=(AddedBlock(meta=meta),), remove=(live.ulids()[1],)),
            )
            lake.open().log.commit(change)

        table = racing(lake, upsert)
        table.delete("key = 'a'")
        assert lake.plain() == seen(B)

    def test_a_column_added_in_between_is_null_in_what_was_written_before(self) -> None:
        lake = Lake()
        lake.append(A, B)
        racing(lake, lambda: lake.open().alter(add=[pa.field("note", pa.string())])).delete(
            "key = 'a'"
        )
        table = lake.open().snapshot().scan(columns=["key", "note"]).to_table()
        assert table.to_pydict() == {"key": ["b"], "note": [None]}


class TestCondemned:
    def raised(self, lake: Lake) -> Callable[[], None]:
        """The compactor raises the horizon above everything that was uploaded by now."""

        def act() -> None:
            lake.world.clock.sleep(3 * 86_400)
            change = Planned(
                operation=Operation.HORIZON,
                commit=lake.world.ids.ulid(),
                plan=Draft(horizon=ulid_at(lake.world.clock.now_ms() - 2 * 86_400_000)),
            )
            lake.open().log.commit(change)

        return act

    def test_outputs_are_uploaded_again_and_keep_their_sources(self) -> None:
        lake = Lake()
        first = lake.source(A, B)
        table = racing(lake, lambda: None, self.raised(lake), at="meta.json")
        done = table.overwrite(table_of([C]), where="key IN ('a', 'c')")
        assert lake.plain() == seen(B, C)
        lake.check()
        blocks = {block.ulid: block for block in lake.open().log.state.blocks}
        assert {*done.added, *done.rewritten.values()} == set(blocks)
        rewritten = next(block for block in blocks.values() if first in block.meta.sources)
        assert (rewritten.meta.sources, rewritten.meta.revision) == ((first,), 2)
        assert rewritten.meta.visible_by is VisibleBy.INDEX

    def test_a_rewrite_too(self) -> None:
        lake = Lake()
        lake.append(A, B)
        table = racing(lake, self.raised(lake), at="meta.json")
        rewrite(Access.of(table.bucket, table.world, table.log), lake.live())
        assert lake.plain() == seen(A, B)

    def test_not_without_end(self) -> None:
        lake = Lake()
        lake.append(A, B)

        def act() -> None:
            horizon = ulid_at(lake.world.clock.now_ms() + 30 * 86_400_000)
            change = Planned(
                operation=Operation.HORIZON,
                commit=lake.world.ids.ulid(),
                plan=Draft(horizon=horizon),
            )
            lake.open().log.commit(change)

        with pytest.raises(bs.Conflict):
            racing(lake, act).delete("key = 'a'")
        assert lake.plain() == seen(A, B)


def test_writers_of_different_rows_and_a_compactor_side_by_side(tmp_path: Path) -> None:
    """Threads on one bucket, each with a handle and a key of its own: whatever meets what, none is
    refused, and every key ends as if its writer had been alone."""
    lake = Lake()
    wrote: dict[str, Counter[Row]] = {}

    def write(key: str) -> None:
        own = lake.copy_handle(seed=ord(key))
        table, model = own.open(), Counter[Row]()
        for step in range(8):
            rows = [(key, number, float(step)) for number in range(3)]
            table.append(table_of(rows))
            model.update(rows)
            if step % 3 == 1:
                table.delete(f"key = '{key}' AND number = 1")
                model = Counter({row: n for row, n in model.items() if row[1] != 1})
            if step % 4 == 3:
                table.overwrite(table_of(rows[:1]), where=f"key = '{key}' AND value <= {step}")
                model = Counter({row: n for row, n in model.items() if (row[2] or 0) > step})
                model.update(rows[:1])
        wrote[key] = model

    def compact() -> None:
        own = lake.copy_handle(seed=1)
        for _ in range(6):
            with suppress(bs.Conflict):
                own.merge(tmp_path)

    with ThreadPoolExecutor(5) as pool:
        done = [pool.submit(write, key) for key in "abcd"] + [pool.submit(compact)]
    for one in done:
        one.result()
    assert lake.plain() == sum(wrote.values(), Counter())
    lake.check()
