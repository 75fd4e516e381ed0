"""An overwrite that is begun here, written there and ended later: what came in between is judged,
all of it."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import blockstore as bs
from blockstore.format.block_writer import BlockWriter
from blockstore.format.new_block import WrittenChunks
from blockstore.index import log as index_log
from blockstore.operations.access import Access
from blockstore.operations.distributed_overwrite import (
    Begun,
    begin,
    begin_anew,
    begun_on,
    end,
    rows_of,
)
from blockstore.operations.results import Changed
from tests.blockstore.operations.lake import Lake, Row, table_of
from tests.support.faulty import FaultyBucket, Killed

A, B, C, D = ("a", 1, 0.1), ("b", 2, 0.2), ("c", 3, 0.3), ("d", 4, 0.4)
NEW: Row = ("a", 9, 0.9)


def access(lake: Lake) -> Access:
    lake.world.clock.sleep(1)
    table = lake.open()
    return Access.of(table.bucket, table.world, table.log)


def write(lake: Lake, begun: Begun, *parts: list[Row]) -> WrittenChunks:
    """Each part by a writer of its own, which knows the pickle and nothing else."""
    written = []
    for number, rows in enumerate(parts):
        mine = pickle.loads(pickle.dumps(begun))
        with BlockWriter(
            lake.bucket,
            lake.world,
            mine.source,
            mine.definition,
            labels=mine.own_labels,
            producer="test",
            token=str(number),
            extra_columns=("_source",),
        ) as writer:
            for batch in rows_of(mine, table_of(rows)):
                writer.write(batch)
            written.append(writer.finish())
    return WrittenChunks.together(written)


def finish(lake: Lake, begun: Begun, written: WrittenChunks | None) -> Changed:
    return end(access(lake), pickle.loads(pickle.dumps(begun)), written)


def seen(*rows: Row) -> Counter[Row]:
    return Counter(rows)


def test_all_rows_are_replaced_by_those_of_every_writer_in_one_version() -> None:
    lake = Lake()
    lake.append(A, B)
    lake.append(C)
    begun = begin(access(lake))
    done = finish(lake, begun, write(lake, begun, [D, D], [NEW]))
    assert lake.plain() == seen(D, D, NEW)
    assert (done.version, done.rows_added, done.rows_removed, len(done.removed)) == (4, 3, 3, 2)
    lake.check()


def test_only_rows_that_meet_the_condition_go_and_all_that_come_meet_it() -> None:
    lake = Lake()
    lake.append(A, B)
    begun = begin(access(lake), where="key = 'a'")
    with pytest.raises(bs.Invalid, match="key = 'b'"):
        write(lake, begun, [NEW], [B])
    finish(lake, begun, write(lake, begun, [NEW]))
    assert lake.plain() == seen(NEW, B)
    lake.check()


def test_no_rows_are_a_delete() -> None:
    lake = Lake()
    lake.append(A, B)
    begun = begin(access(lake), where="key = 'a'")
    finish(lake, begun, None)
    assert lake.plain() == seen(B)


def test_a_condition_that_new_rows_cannot_be_judged_by_is_refused_at_the_beginning() -> None:
    lake = Lake()
    with pytest.raises(bs.Invalid, match="_source"):
        begin(access(lake), where="_source = 'x'")
    with pytest.raises(bs.Invalid, match="nobody"):
        begin(access(lake), where="nobody = 1")
    with pytest.raises(bs.Invalid, match="isolation"):
        begin(access(lake), isolation="none")


class TestWhatCameInBetween:
    @pytest.fixture
    def lake(self) -> Lake:
        lake = Lake()
        lake.append(A, B)
        return lake

    @pytest.mark.parametrize("publish", [True, False], ids=["appended", "uploaded"])
    def test_what_was_written_stands_after_the_overwrite(self, lake: Lake, publish: bool) -> None:
        begun = begin(access(lake))
        lake.append(C, publish=publish)
        finish(lake, begun, write(lake, begun, [NEW]))
        lake.world.clock.sleep(86_400)
        assert Counter(row for row, _ in lake.rows(discovery="list").elements()) == seen(NEW, C)

    def test_what_was_appended_and_merged_stands_after_the_overwrite(
        self, lake: Lake, tmp_path: Path
    ) -> None:
        begun = begin(access(lake))
        later = [lake.source(C), lake.source(D)]
        lake.merge(tmp_path, later)
        finish(lake, begun, write(lake, begun, [NEW]))
        assert lake.plain() == seen(NEW, C, D)
        lake.check()

    def test_serializable_refuses_what_was_appended(self, lake: Lake) -> None:
        begun = begin(access(lake), isolation="serializable")
        lake.append(C)
        with pytest.raises(bs.Conflict, match="appended block"):
            finish(lake, begun, write(lake, begun, [NEW]))
        assert lake.plain() == seen(A, B, C)

    def test_serializable_lets_pass_what_the_condition_excludes(self, lake: Lake) -> None:
        begun = begin(access(lake), where="key = 'a'", isolation="serializable")
        lake.append(C)
        finish(lake, begun, write(lake, begun, [NEW]))
        assert lake.plain() == seen(NEW, B, C)

    def test_a_merge_of_what_is_replaced_is_planned_on(self, lake: Lake, tmp_path: Path) -> None:
        lake.append(D)
        begun = begin(access(lake), where="key in ('a', 'd')")
        lake.merge(tmp_path)
        finish(lake, begun, write(lake, begun, [NEW]))
        assert lake.plain() == seen(NEW, B)
        lake.check()

    def test_a_merge_of_what_is_replaced_with_what_came_later_conflicts(
        self, lake: Lake, tmp_path: Path
    ) -> None:
        begun = begin(access(lake))
        lake.append(C)
        lake.merge(tmp_path)
        with pytest.raises(
            bs.Conflict, match="together with rows that were written after version 2"
        ):
            finish(lake, begun, write(lake, begun, [NEW]))
        assert lake.plain() == seen(A, B, C)

    def test_such_a_merge_passes_where_it_holds_no_row_of_the_condition(
        self, lake: Lake, tmp_path: Path
    ) -> None:
        begun = begin(access(lake), where="key = 'z'")
        lake.append(C)
        lake.merge(tmp_path)
        finish(lake, begun, write(lake, begun, [("z", 1, None)]))
        assert lake.plain() == seen(A, B, C, ("z", 1, None))

    @pytest.mark.parametrize(
        "other",
        [
            lambda lake: lake.open().overwrite(table_of([D]), where="key in ('a', 'd')"),
            lambda lake: lake.open().restore(version=2),
        ],
        ids=["overwrite", "restore"],
    )
    def test_rows_that_others_put_there_conflict(
        self, lake: Lake, other: Callable[[Lake], object]
    ) -> None:
        lake.open().delete("key = 'a'")
        begun = begin(access(lake))
        other(lake)
        before = lake.plain()
        with pytest.raises(bs.Conflict, match="brought block"):
            finish(lake, begun, write(lake, begun, [NEW]))
        assert lake.plain() == before

    def test_rows_that_others_deleted_or_reverted_are_no_matter(self, lake: Lake) -> None:
        source = lake.source(C)
        begun = begin(access(lake))
        lake.open().delete("key = 'a'")
        lake.open().revert(source)
        finish(lake, begun, write(lake, begun, [NEW]))
        assert lake.plain() == seen(NEW)

    def test_a_write_that_was_discovered_meanwhile_is_replaced_once(self, lake: Lake) -> None:
        ulid = lake.append(C, publish=False).ulid
        begun = begin(access(lake))
        assert ulid in begun.seen
        lake.open().append(table_of([C]), resume=ulid)
        finish(lake, begun, write(lake, begun, [NEW]))
        lake.world.clock.sleep(86_400)
        assert Counter(row for row, _ in lake.rows(discovery="list").elements()) == seen(NEW)

    def test_a_column_that_was_added_meanwhile_reads_as_null(self, lake: Lake) -> None:
        import pyarrow as pa

        begun = begin(access(lake), where="key = 'a'")
        lake.open().alter(add=[pa.field("more", pa.string())])
        finish(lake, begun, write(lake, begun, [NEW]))
        assert lake.plain() == seen(NEW, B)

    @pytest.mark.parametrize("versions", [1, 2, 5])
    def test_a_table_made_anew_under_the_name_is_never_touched(
        self, lake: Lake, versions: int
    ) -> None:
        begun = begin(access(lake))
        written = write(lake, begun, [NEW])
        definition = lake.open().definition
        lake.bucket.delete(
            [found.key for found in lake.bucket.list() if begun.source not in found.key]
        )
        index_log.create(lake.bucket, lake.world, definition)
        for number in range(versions - 1):
            lake.append(("n", number, None))
        before = lake.plain()
        with pytest.raises(bs.Conflict, match="created again"):
            finish(lake, begun, written)
        assert lake.plain() == before

    def test_a_table_that_is_gone_is_not_found(self, lake: Lake) -> None:
        begun = begin(access(lake))
        written = write(lake, begun, [NEW])
        lake.bucket.delete(
            [found.key for found in lake.bucket.list() if begun.source not in found.key]
        )
        with pytest.raises(bs.NotFound):
            finish(lake, begun, written)


def test_a_job_happens_once() -> None:
    lake = Lake()
    lake.append(A)
    job = bs.Job("nightly", 1)
    first, second = begin(access(lake), job=job), begin(access(lake), job=job)
    done = finish(lake, first, write(lake, first, [NEW]))
    again = finish(lake, second, write(lake, second, [NEW]))
    assert (again.already, again.version) == (True, done.version)
    assert lake.plain() == seen(NEW)


def test_an_end_that_is_killed_at_any_call_leaves_all_or_nothing_and_can_be_repeated() -> None:
    job = bs.Job("nightly", 1)

    def prepared() -> tuple[Lake, Begun, WrittenChunks]:
        lake = Lake()
        lake.append(A, B)
        lake.append(C)
        begun = begin(access(lake), where="key in ('a', 'c')", job=job)
        written = write(lake, begun, [NEW])
        lake.append(("a", 5, None))
        return lake, begun, written

    after = seen(NEW, B, ("a", 5, None))
    call, over = 1, False
    while not over:
        for when in ("kill_before", "kill_after") if call == 1 else ("kill_after",):
            lake, begun, written = prepared()
            before = lake.plain()
            faulty = FaultyBucket(lake.bucket, **{when: call})
            try:
                table = lake.open(faulty)
                end(Access.of(table.bucket, table.world, table.log), begun, written)
            except Killed:
                pass
            over = len(faulty.calls) < call
            if call > 1 and not over and not faulty.calls[-1].writes:
                continue  # it left what the last write left
            assert lake.plain() in (before, after)
            again = begin(access(lake), where="key in ('a', 'c')", job=job)
            if lake.plain() == before:
                # What was appended before the second beginning is the second's to replace.
                finish(lake, again, write(lake, again, [NEW]))
                assert lake.plain() == seen(NEW, B)
            else:
                assert finish(lake, again, write(lake, again, [NEW])).already
                assert lake.plain() == after
            lake.check()
        call += 1
    assert call > 12


def test_an_overwrite_is_begun_before_its_table_is_created() -> None:
    lake = Lake()
    definition = lake.open().definition
    asked = Begun(
        source=lake.world.ids.ulid(),
        definition=definition,
        where="key = 'a'",
        job=bs.Job("nightly", 1),
    )
    begun = begin_anew(asked)
    with pytest.raises(bs.Invalid, match="key = 'b'"):
        write(lake, begun, [B])
    written = write(lake, begun, [NEW])
    finish(lake, begun_on(access(lake), begun), written)
    assert lake.plain() == seen(NEW)


def test_batches_of_a_backfill_come_in_any_order() -> None:
    lake = Lake()
    for batch in (3, 1, 2, 1):
        begun = begin(
            access(lake), where=f"number = {batch}", job=bs.Job("backfill", batch), ordered=False
        )
        finish(lake, begun, write(lake, begun, [("k", batch, None)]))
    assert lake.plain() == seen(("k", 1, None), ("k", 2, None), ("k", 3, None))
    begun = begin(access(lake), where="number = 0", job=bs.Job("backfill", 0))
    with pytest.raises(bs.Invalid, match="ordered=False"):
        finish(lake, begun, write(lake, begun, [("k", 0, None)]))
