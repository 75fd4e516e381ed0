"""``overwrite``: what is replaced, what new rows must be, exactly once, and the block that they
become."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.format.marks import MarkReason
from blockstore.format.meta import load_meta
from blockstore.format.properties import UPLOAD_TIMEOUT_S
from blockstore.lifecycle.mark import place_deletion
from blockstore.table import Table
from tests.blockstore.operations.lake import SCHEMA, Lake, Row, small_chunks, table_of
from tests.blockstore.operations.test_delete import contents, read_chunks
from tests.support.faulty import Call, FaultyBucket

A, B, C, D = ("a", 1, 0.1), ("b", 2, 0.2), ("c", 3, 0.3), ("d", 4, 0.4)
JOB = bs.Job("nightly", 7)


def seen(*rows: Row) -> Counter[Row]:
    return Counter(rows)


class TestWhatIsReplaced:
    def test_everything_without_a_condition_and_nothing_is_read(self) -> None:
        lake = Lake()
        lake.append(A, B)
        lake.append(C, site="x")
        faulty = FaultyBucket(lake.bucket)
        done = lake.open(faulty).overwrite(table_of([D, D]))
        assert lake.plain() == seen(D, D)
        assert (done.rows_added, done.rows_removed, len(done.removed)) == (2, 3, 2)
        assert read_chunks(faulty) == set()

    def test_the_rows_that_match(self) -> None:
        lake = Lake()
        lake.append(A, B)
        lake.append(C)
        done = lake.open().overwrite(table_of([("a", 9, None)] * 2), where="key = 'a'")
        assert lake.plain() == seen(("a", 9, None), ("a", 9, None), B, C)
        assert (done.rows_added, done.rows_removed, len(done.rewritten)) == (2, 1, 1)

    def test_no_rows_in_the_place_of_some_are_a_delete(self) -> None:
        lake = Lake()
        lake.append(A, B)
        done = lake.open().overwrite(table_of([]), where="key = 'a'")
        assert lake.plain() == seen(B)
        assert (done.added, done.rows_added) == ((), 0)

    def test_no_rows_in_the_place_of_all_empty_the_table(self) -> None:
        lake = Lake()
        lake.append(A, B)
        lake.open().overwrite(table_of([]))
        assert (lake.plain(), lake.live()) == (seen(), [])

    def test_nothing_by_nothing_is_no_version(self) -> None:
        lake = Lake()
        assert lake.open().overwrite(table_of([])).nothing
        lake.append(A)
        assert lake.open().overwrite(table_of([]), where="key = 'q'").nothing
        assert lake.open().poll() == 2

    def test_some_rows_where_none_matched_are_an_append(self) -> None:
        lake = Lake()
        lake.append(A)
        lake.open().overwrite(table_of([B]), where="key = 'b'")
        assert lake.plain() == seen(A, B)

    def test_an_empty_table_can_be_overwritten(self) -> None:
        lake = Lake()
        lake.open().overwrite(table_of([A]))
        assert lake.plain() == seen(A)

    def test_the_rows_of_one_label(self) -> None:
        lake = Lake()
        lake.append(A, site="x")
        lake.append(B, site="y")
        lake.open().overwrite(table_of([C]), where="site = 'x'", labels={"site": "x"})
        assert lake.plain() == seen(B, C)
        streams = {
            dict(block.meta.labels)["site"]: block.meta.rows
            for block in lake.open().log.state.blocks
        }
        assert streams == {"x": 1, "y": 1}

    def test_of_a_label_that_no_block_had_before(self) -> None:
        lake = Lake()
        lake.append(A, ("q", 1, None))
        lake.open().overwrite(table_of([C]), where="site = 'x' OR key = 'q'", labels={"site": "x"})
        assert lake.plain() == seen(A, C)

    def test_hidden_rows_of_a_replaced_block_never_come_back(self, tmp_path: Path) -> None:
        lake = Lake()
        first = lake.source(A)
        lake.append(B)
        lake.merge(tmp_path)
        table = lake.open()
        table.revert(first)
        done = table.overwrite(table_of([C]))
        assert lake.plain() == seen(C)
        assert done.rows_removed is None, (
            "how many of the block's rows were in view only reading tells"
        )

    def test_writes_that_nobody_published_are_replaced_too(self) -> None:
        lake = Lake()
        source = lake.append(A, publish=False).ulid
        done = lake.open().overwrite(table_of([B]))
        assert done.accounted == (source,)
        lake.world.clock.sleep(86_400)
        assert Counter(row for row, _ in lake.rows(discovery="list").elements()) == seen(B)


class TestNewRows:
    @pytest.mark.parametrize(
        ("rows", "where", "says"),
        [
            (
                [A, B],
                "key = 'a'",
                r"row 1 \(from 0\) .* has key = 'b', and .* for which key = 'a' is true",
            ),
            ([("a", None, None)], "number > 0", "number = null"),
            ([("a", 3, None)], "key = 'a' AND number < 3", "key = 'a', number = 3"),
            ([A], "site = 'x'", "site = null"),
        ],
    )
    def test_must_meet_the_condition(self, rows: list[Row], where: str, says: str) -> None:
        lake = Lake()
        lake.append(C, site="x")
        before = lake.plain(), lake.open().poll()
        with pytest.raises(bs.Invalid, match=says):
            lake.open().overwrite(table_of(rows), where=where)
        with pytest.raises(bs.Invalid, match=says):
            lake.open().overwrite(table_of(rows), where=where, dry_run=True)
        assert (lake.plain(), lake.open().poll()) == before

    def test_the_first_that_does_not_is_counted_over_all_batches(self) -> None:
        lake = Lake()
        batches = [table_of([A] * 10), table_of([A] * 5 + [B])]
        with pytest.raises(bs.Invalid, match=r"row 15 \(from 0\)"):
            lake.open().overwrite(iter(batches), where="key = 'a'")

    @pytest.mark.parametrize(
        ("act", "says"),
        [
            (lambda table: table.overwrite(pa.table({"key": ["a"]})), "lacks column"),
            (
                lambda table: table.overwrite(
                    pa.table({"key": [1], "number": [1], "value": [1.0]})
                ),
                "'key'",
            ),
            (lambda table: table.overwrite("rows"), "str"),
            (lambda table: table.overwrite(table_of([A]), where="_source = 'x'"), "names _source"),
            (lambda table: table.overwrite(table_of([A]), where="nowhere = 1"), "nowhere"),
            (lambda table: table.overwrite(table_of([A]), labels={"_source": "x"}), "reserved"),
            (lambda table: table.overwrite(table_of([A]), job="nightly"), "Job"),
            (lambda table: table.overwrite(table_of([A]), isolation="none"), "isolation"),
        ],
    )
    def test_a_wrong_call_shows_nothing(self, act: Callable[[Table], Any], says: str) -> None:
        lake = Lake()
        lake.append(B)
        version = lake.open().poll()
        with pytest.raises(bs.Invalid, match=says):
            act(lake.open())
        assert (lake.open().poll(), lake.plain()) == (version, seen(B))

    def test_may_be_a_stream_of_batches_in_any_number(self) -> None:
        lake = Lake()
        lake.append(B)
        with small_chunks():
            done = lake.open().overwrite(
                batch for _ in range(20) for batch in table_of([A, C]).to_batches()
            )
        assert done.rows_added == 40
        assert lake.plain() == Counter({A: 20, C: 20})
        lake.check()

    def test_a_dry_run_takes_them_all_and_writes_none(self) -> None:
        lake = Lake()
        lake.append(A, B)
        lake.append(A)
        before = contents(lake)
        planned = lake.open().overwrite(table_of([A, A]), where="key = 'a'", dry_run=True)
        assert contents(lake) == before
        assert (
            planned.rows_added,
            planned.rows_removed,
            len(planned.removed),
            len(planned.rewritten),
        ) == (
            2,
            2,
            1,
            1,
        )
        assert (planned.version, planned.dry_run, planned.added) == (None, True, ())


class TestTheBlockOfTheNewRows:
    def test_accounts_for_itself_and_for_what_it_replaced_whole(self, tmp_path: Path) -> None:
        lake = Lake()
        sources = [lake.source(A), lake.source(A)]
        lake.merge(tmp_path)
        alone = lake.source(A)
        stays = lake.source(A, B)
        (added,) = lake.open().overwrite(table_of([A]), where="key = 'a'").added
        meta = load_meta(lake.bucket, added)
        assert meta.sources == tuple(sorted([*sources, alone, added]))
        assert (meta.own, meta.level, meta.visible_by, meta.revision) == (True, 2, "index", 0)
        assert lake.rows() == Counter({(A, added): 1, (B, stays): 1})
        lake.check()

    def test_its_entry_leaves_out_what_the_state_knows(self) -> None:
        lake = Lake()
        for _ in range(50):
            lake.append(A)
        version = lake.open().overwrite(table_of([B])).version
        (entry,) = lake.open().log.entries(version, version)
        assert entry.add[0].sources is None

    def test_its_rows_can_be_reverted_and_what_it_replaced_stays_away(self, tmp_path: Path) -> None:
        lake = Lake()
        lake.append(A)
        (added,) = lake.open().overwrite(table_of([B, B])).added
        lake.append(C)
        for _ in range(2):
            lake.merge(tmp_path)
        lake.open().revert(added)
        assert lake.plain() == seen(C)

    def test_a_mark_that_is_placed_before_its_entry_takes_no_row_away(self) -> None:
        lake = Lake()
        lake.append(A)
        faulty = FaultyBucket(lake.bucket)
        marked: list[str] = []

        def mark(call: Call) -> None:
            if call.writes and call.key.endswith("meta.json") and not marked:
                marked.append(call.key.partition("/")[0])
                place_deletion(lake.bucket, lake.world, marked[0], MarkReason.MANUAL)

        faulty.after.append(mark)
        (added,) = lake.open(faulty).overwrite(table_of([B])).added
        assert lake.plain() == seen(B)
        (source,) = {source for _, source in lake.rows()}
        assert marked == [source] == [added]
        lake.check()

    def test_an_upload_that_took_longer_than_a_day_goes_on_under_a_new_name(self) -> None:
        lake = Lake()

        def slowly() -> Any:
            yield table_of([A])
            lake.world.clock.sleep(UPLOAD_TIMEOUT_S + 60)
            yield table_of([B])

        (added,) = lake.open().overwrite(slowly()).added
        (source,) = {source for _, source in lake.rows()}
        assert added > source
        assert lake.plain() == seen(A, B)


class TestExactlyOnce:
    def test_a_job_is_done_once(self) -> None:
        lake = Lake()
        lake.append(A)
        first = lake.open().overwrite(table_of([B]), job=JOB)
        lake.append(C)
        again = lake.open().overwrite(table_of([B]), job=JOB)
        assert (again.already, again.version, again.nothing) == (True, first.version, False)
        assert lake.plain() == seen(B, C)

    def test_also_where_there_was_nothing_to_do(self) -> None:
        lake = Lake()
        first = lake.open().overwrite(table_of([]), where="key = 'a'", job=JOB)
        lake.append(A)
        again = lake.open().overwrite(table_of([]), where="key = 'a'", job=JOB)
        assert (first.already, again.already) == (False, True)
        assert lake.plain() == seen(A), "the batch was done before these rows came"

    def test_two_processes_with_one_job_do_it_once(self) -> None:
        lake = Lake()
        lake.append(A)
        faulty = FaultyBucket(lake.bucket)
        left = [lambda: lake.open().overwrite(table_of([B]), job=JOB), lambda: lake.append(C)]

        def interfere(call: Call) -> None:
            if call.writes and call.key.startswith("index/0"):
                while left:
                    left.pop(0)()

        faulty.before.append(interfere)
        done = lake.open(faulty).overwrite(table_of([B]), job=JOB)
        assert (done.already, done.version) == (True, 3)
        assert lake.plain() == seen(B, C)

    def test_a_lower_batch_is_refused(self) -> None:
        lake = Lake()
        lake.open().overwrite(table_of([B]), job=JOB)
        with pytest.raises(bs.Invalid, match="batch 7"):
            lake.open().overwrite(table_of([C]), job=bs.Job("nightly", 6))
        assert lake.plain() == seen(B)

    def test_an_append_and_an_overwrite_share_the_batches_of_an_app(self) -> None:
        lake = Lake()
        lake.append(A, job=JOB)
        assert lake.open().overwrite(table_of([B]), job=JOB).already
        assert lake.plain() == seen(A)

    def test_without_a_job_the_same_call_again_leaves_the_same_rows(self) -> None:
        lake = Lake()
        lake.append(A, B)
        for _ in range(3):
            lake.open().overwrite(table_of([("a", 9, None)]), where="key = 'a'")
        assert lake.plain() == seen(("a", 9, None), B)


def test_a_column_added_while_rows_were_uploaded_is_null_in_them() -> None:
    lake = Lake()
    lake.append(A)

    def rows() -> Any:
        yield table_of([B])
        lake.open().alter(add=[pa.field("note", pa.string())])

    lake.open().overwrite(rows())
    assert lake.open().snapshot().scan(columns=["key", "note"]).to_table().to_pylist() == [
        {"key": "b", "note": None}
    ]


def test_pandas_and_record_batches_are_rows_too() -> None:
    lake = Lake()
    lake.open().overwrite(table_of([A]).to_pandas())
    assert lake.plain() == seen(A)
    lake.open().overwrite(pa.record_batch([["b"], [2], [0.2]], schema=SCHEMA))
    assert lake.plain() == seen(B)
