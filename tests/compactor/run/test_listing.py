"""Merges on a table without an index: by age, once, and no row twice or lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from blockstore.compactor.run.once import plan_table
from blockstore.compactor.run.report import Outcome
from blockstore.errors import BlockstoreError
from blockstore.format.block import VisibleBy
from blockstore.format.marks import MarkReason, NoCompactReason
from blockstore.lifecycle.mark import place_deletion, place_no_compact, withdraw_deletion
from blockstore.lifecycle.upload import finish_upload, upload_again
from blockstore.names import meta_key
from blockstore.operations.unindexed import declare
from blockstore.reader.query import Engine
from tests.compactor.plain import DEFINITION, SYNC_S, Plain, Rows, overlapping, plain
from tests.compactor.scene import small_chunks
from tests.support.faulty import Call, FaultyBucket, Killed
from tests.support.tally import tally


@pytest.fixture(autouse=True)
def blocks_of_two_chunks() -> Iterator[None]:
    with small_chunks():
        yield


def by_duckdb(made: Plain) -> Rows:
    with Engine({"t": made.open().snapshot()}) as engine:
        found = engine.query("SELECT writer, row FROM t").read_all()
    return Counter(zip(found["writer"].to_pylist(), found["row"].to_pylist(), strict=True))


class TestMerge:
    def test_rows_are_read_once_before_while_and_after_the_merge_ages(self, tmp_path: Path) -> None:
        made = plain(tmp_path, "a", "b", "c")
        sources = tuple(made.metas())
        report = made.compact()
        assert [(result.outcome, result.version) for result in report.results] == [
            (Outcome.UPLOADED, None)
        ]
        [merge] = made.merges()
        assert merge.ulid == report.results[0].block
        assert (merge.sources, merge.level, merge.visible_by) == (sources, 2, VisibleBy.AGE)
        assert [parent.ulid for parent in merge.parents] == list(sources)
        assert {block.meta.ulid for block in made.open().snapshot().blocks} == set(sources)
        for _ in range(3):
            assert made.found() == by_duckdb(made) == made.expected
            made.age(SYNC_S / 2)
        assert {block.meta.ulid for block in made.open().snapshot().blocks} == {merge.ulid}

    def test_many_passes_within_sync_delay_make_one_merge(self, tmp_path: Path) -> None:
        made = plain(tmp_path, "a", "b", "c")
        made.compact()
        for number in range(8):
            made.age(SYNC_S / 10)
            assert made.compact(seed=number).results == ()
        assert len(made.merges()) == 1
        made.age()
        assert made.compact().results == ()

    def test_what_comes_later_is_merged_with_what_was_merged(self, tmp_path: Path) -> None:
        made = plain(tmp_path, "a", "b", "c")
        made.compact()
        made.append("d")
        made.age()
        made.compact()
        made.age()
        assert [len(meta.sources) for meta in made.merges()] == [3, 4]
        assert [len(block.meta.sources) for block in made.open().snapshot().blocks] == [4]
        assert made.found() == by_duckdb(made) == made.expected

    def test_without_a_wait_one_run_continues_until_nothing_is_left(self, tmp_path: Path) -> None:
        made = Plain(tmp_path)
        for writer in "abc":
            made.append(writer)
        table = made.open()
        table.alter(properties={"sync_delay": "0s"})
        from blockstore.compactor.run.once import compact_once

        report = compact_once(table, made.settings())
        assert [result.outcome for result in report.results] == [Outcome.UPLOADED]
        assert made.open().snapshot().count() == 0
        assert len(table.snapshot().blocks) == 1

    def test_fresh_blocks_are_no_inputs(self, tmp_path: Path) -> None:
        made = plain(tmp_path, "a")
        made.append("b")
        assert plan_table(made.open(), made.settings()) == ()

    def test_the_revision_is_the_highest_of_the_inputs(self, tmp_path: Path) -> None:
        made = plain(tmp_path, "a", "b")
        refused = next(iter(made.metas().values()))
        finish_upload(made.bucket, made.world, upload_again(made.bucket, made.world, refused))
        made.age()
        made.compact()
        [merge] = made.merges()
        assert (merge.revision, len(merge.sources)) == (1, 2)
        made.age()
        assert made.found() == made.expected

    def test_streams_never_meet_and_skipped_ones_are_left_alone(self, tmp_path: Path) -> None:
        made = Plain(tmp_path)
        for cluster in ("eu", "us"):
            for number in range(2):
                made.append(f"{cluster}{number}", labels={"cluster": cluster})
        made.age()
        [job] = plan_table(made.open(), made.settings(skip=(("cluster", "us"),)))
        assert dict(job.stream.labels) == {"cluster": "eu"}
        made.compact()
        assert sorted(meta.labels["cluster"] for meta in made.merges()) == ["eu", "us"]
        made.age()
        assert made.found() == made.expected

    def test_a_block_that_only_declares_the_table_is_left_alone(self, tmp_path: Path) -> None:
        made = plain(tmp_path, "a", "b")
        declared = declare(made.bucket, made.world, DEFINITION)
        made.age()
        made.compact()
        made.age()
        [merge] = made.merges()
        assert declared.ulid not in merge.sources
        assert made.compact().results == ()


class TestWhatIsLeftOut:
    def test_a_no_compact_mark_keeps_a_block_out(self, tmp_path: Path) -> None:
        made = plain(tmp_path, "a", "b", "c")
        kept = next(iter(made.metas()))
        place_no_compact(made.bucket, made.world, kept, NoCompactReason.MANUAL, "mine")
        made.compact()
        [merge] = made.merges()
        assert kept not in merge.sources
        made.age()
        assert made.found() == made.expected

    @pytest.mark.parametrize("reason", list(MarkReason))
    def test_a_deletion_mark_of_whatever_reason_keeps_a_block_out(
        self, tmp_path: Path, reason: MarkReason
    ) -> None:
        made = plain(tmp_path, "a", "b", "c")
        marked = next(iter(made.metas()))
        place_deletion(made.bucket, made.world, marked, reason)
        made.compact()
        assert all(marked not in meta.sources for meta in made.merges())
        made.age()
        withdraw_deletion(made.bucket, made.world, marked)
        assert made.found() == made.expected

    @pytest.mark.parametrize("mark", ["no-compact", "manual", "superseded"])
    def test_a_mark_that_is_placed_while_a_merge_runs_drops_it(
        self, tmp_path: Path, mark: str
    ) -> None:
        """So a person who marks and waits sync_delay before reading finds no merge with old rows
        later."""
        made = plain(tmp_path, "a", "b", "c")
        victim = next(iter(made.metas()))
        faulty = FaultyBucket(made.bucket)
        waiting = [True]

        def place(call: Call) -> None:
            if call.method == "writer" and waiting:
                waiting.clear()
                if mark == "no-compact":
                    place_no_compact(made.bucket, made.world, victim, NoCompactReason.MANUAL, "")
                else:
                    place_deletion(made.bucket, made.world, victim, MarkReason(mark))

        faulty.after.append(place)
        report = made.compact(faulty)
        assert [result.outcome for result in report.results] == [Outcome.CONFLICT, Outcome.UPLOADED]
        assert all(victim not in meta.sources for meta in made.merges())

    def test_a_merge_that_another_has_done_meanwhile_is_dropped(self, tmp_path: Path) -> None:
        made = plain(tmp_path, "a", "b", "c")
        faulty = FaultyBucket(made.bucket)
        waiting = [True]

        def overtake(call: Call) -> None:
            if call.method == "writer" and waiting:
                waiting.clear()
                made.compact(seed=7)

        faulty.after.append(overtake)
        report = made.compact(faulty)
        assert [result.outcome for result in report.results] == [Outcome.CONFLICT]
        assert len(made.merges()) == 1

    def test_a_block_whose_schema_contradicts_is_not_merged_and_keeps_no_other_out(
        self, tmp_path: Path
    ) -> None:
        made = plain(tmp_path, "a", "b")
        other = made.open()
        other.alter(add=[pa.field("note", pa.string())])
        other.append(pa.table({"writer": ["c"], "row": [0], "note": ["x"]}))
        name = made.world.ids.ulid()
        strange = replace(
            next(iter(made.metas().values())),
            ulid=name,
            sources=(name,),
            schema=bytes(pa.schema([("row", pa.string())]).serialize()),
            sort_by=(),
            files=(),
            rows=0,
        )
        finish_upload(made.bucket, made.world, strange)
        made.age()
        made.compact()
        [merge] = made.merges()
        assert len(merge.sources) == 3
        made.age()
        found = made.open().snapshot()
        assert set(found.left_out) == {strange.ulid}
        assert found.count() == 9

    def test_a_damaged_block_is_left_out_and_named_and_the_rest_is_merged(
        self, tmp_path: Path
    ) -> None:
        made = plain(tmp_path, "a", "b", "c")
        bad = next(iter(made.metas().values()))
        key = f"{bad.ulid}/{bad.files[0].path}"
        data = made.bucket.get(key).data
        made.bucket.put(key, data[:-1] + b"!")
        report = made.compact()
        assert [result.outcome for result in report.results] == [Outcome.DAMAGED, Outcome.UPLOADED]
        assert list(report.left_out) == [bad.ulid]
        assert all(bad.ulid not in meta.sources for meta in made.merges())

    def test_a_malformed_block_keeps_no_other_out(self, tmp_path: Path) -> None:
        made = plain(tmp_path, "a", "b", "c")
        bad = next(iter(made.metas()))
        made.bucket.put(meta_key(bad), b"{")
        made.compact()
        [merge] = made.merges()
        assert len(merge.sources) == 2


class TestOverlaps:
    """Two compactors that saw different listings."""

    def test_a_block_of_which_another_holds_a_part_is_read_for_the_rest_alone(
        self, tmp_path: Path
    ) -> None:
        made = overlapping(tmp_path)
        snapshot = made.open().snapshot()
        [partial] = [
            chosen for chosen in snapshot.snapshot.listed if chosen.only_sources is not None
        ]
        assert len(partial.only_sources or ()) == 1
        assert made.found() == by_duckdb(made) == made.expected
        assert snapshot.count() == len(made.expected)

    def test_a_merge_of_it_accounts_for_what_was_read_alone(self, tmp_path: Path) -> None:
        made = overlapping(tmp_path)
        for writer in "de":
            made.append(writer)
        made.age()
        partial = next(
            chosen
            for chosen in made.open().snapshot().snapshot.listed
            if chosen.only_sources is not None
        )
        other = next(
            ulid for ulid in sorted(made.metas(), reverse=True) if made.metas()[ulid].level == 1
        )
        result = made.merge([partial.meta.ulid, other])
        assert result.outcome is Outcome.UPLOADED
        merged = made.metas()[str(result.block)]
        assert set(merged.sources) == {*(partial.only_sources or ()), other}
        assert result.dropped_rows == 4
        made.age()
        assert made.found() == by_duckdb(made) == made.expected
        made.compact()
        made.age()
        assert len(made.open().snapshot().blocks) == 1
        assert made.found() == by_duckdb(made) == made.expected


def test_rows_are_exact_wherever_the_compactor_dies_or_a_response_is_lost(tmp_path: Path) -> None:
    origin = plain(tmp_path, "a", "b", "c")
    while_merging = "late"

    def meanwhile(made: Plain, faulty: FaultyBucket) -> None:
        waiting = [True]

        def append(call: Call) -> None:
            if call.method == "writer" and waiting:
                waiting.clear()
                made.append(while_merging)

        faulty.before.append(append)

    made = origin.copy()
    counting = FaultyBucket(made.bucket)
    meanwhile(made, counting)
    made.compact(counting)
    assert len(counting.calls) >= 15
    for number in range(1, len(counting.calls) + 1):
        for fault in ("kill_before", "kill_after", "lose_answer"):
            tally("crash points")
            made = origin.copy()
            argument = {number} if fault == "lose_answer" else number
            faulty = FaultyBucket(made.bucket, **{fault: argument})  # type: ignore[arg-type]
            meanwhile(made, faulty)
            before = made.expected.copy()
            try:
                made.compact(faulty)
            except (Killed, BlockstoreError):
                pass
            assert made.found() == before, (fault, number)
            made.age()
            assert made.found() == made.expected, (fault, number)
            made.compact(seed=9)
            assert made.found() == made.expected, (fault, number)
            made.age()
            assert made.found() == made.expected, (fault, number)
            made.compact(seed=10)
            made.age()
            assert made.found() == made.expected, (fault, number)
            assert len(made.open().snapshot().blocks) <= 2, (fault, number)
