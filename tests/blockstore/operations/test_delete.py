"""``delete``: which rows go, what is read for it, what is written, and what is refused."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import blockstore as bs
from blockstore.bucket.memory import MemoryBucket
from blockstore.format.definition import Definition
from blockstore.format.marks import MarkReason
from blockstore.format.meta import load_meta
from blockstore.ids import ulid_at
from blockstore.index import log as index_log
from blockstore.index.change import Draft
from blockstore.index.entry import Operation
from blockstore.lifecycle.mark import place_deletion
from blockstore.names import object_key
from blockstore.table import Table
from blockstore.world import World
from tests.blockstore.operations.lake import SCHEMA, Lake, small_chunks, table_of
from tests.support.faulty import FaultyBucket
from tests.support.index_data import NOW, Planned

NAN = float("nan")


def contents(lake: Lake) -> dict[str, bytes]:
    return {found.key: lake.bucket.get(found.key).data for found in lake.bucket.list()}


def read_chunks(faulty: FaultyBucket) -> set[str]:
    """The blocks of which a chunk was read."""
    return {
        call.key.partition("/")[0]
        for call in faulty.calls
        if "/chunks/" in call.key and call.method in {"get", "get_range"}
    }


@contextmanager
def few_sources_inline() -> Iterator[None]:
    """Three sources are in meta.json, more in a file."""
    with ExitStack() as patched:
        for module in ("format.sources", "format.meta", "index.added"):
            patched.enter_context(mock.patch(f"blockstore.{module}.INLINE", 3))
        yield


class TestWhichRows:
    @pytest.mark.parametrize(
        ("where", "stay"),
        [
            ("number = 2", ["one", "three", "none"]),
            ("number <> 2", ["two", "none"]),
            ("NOT (number = 2)", ["two", "none"]),
            ("number IS NULL", ["one", "two", "three"]),
            ("number = NULL", ["one", "two", "three", "none"]),
            ("number < 3 OR number IS NULL", ["three"]),
            ("number = 2 AND key = 'two'", ["one", "three", "none"]),
            ("key LIKE 't%'", ["one", "none"]),
            ("number IN (1, 3)", ["two", "none"]),
            ("true", []),
            ("false", ["one", "two", "three", "none"]),
        ],
    )
    def test_only_those_for_which_the_condition_is_true(self, where: str, stay: list[str]) -> None:
        lake = Lake()
        lake.append(("one", 1, None), ("two", 2, None), ("three", 3, None), ("none", None, None))
        lake.open().delete(where)
        assert sorted(key or "" for key, _, _ in lake.plain().elements()) == sorted(stay)

    def test_nan_is_greater_than_every_number_as_in_sql(self) -> None:
        lake = Lake()
        lake.append(("a", 1, NAN), ("b", 2, 5.0), ("c", 3, None), ("d", 4, math.inf))
        lake.open().delete("value > 7")
        assert sorted(key or "" for key, _, _ in lake.plain()) == ["b", "c"]

    def test_nan_stays_where_only_small_numbers_go(self) -> None:
        lake = Lake()
        lake.append(("a", 1, NAN), ("b", 2, 5.0))
        lake.open().delete("value <= 7")
        assert [key for key, _, _ in lake.plain()] == ["a"]

    def test_a_pyarrow_expression_and_its_nulls(self) -> None:
        lake = Lake()
        lake.append(("a", 1, None), ("b", None, None), ("c", 3, None))
        lake.open().delete(pc.field("number") > 2)
        assert sorted(key or "" for key, _, _ in lake.plain()) == ["a", "b"]

    def test_by_the_write_that_rows_came_from(self, tmp_path: Path) -> None:
        lake = Lake()
        first = lake.source(("a", 1, None))
        lake.append(("a", 2, None))
        lake.merge(tmp_path)
        lake.open().delete(f"_source = '{first}'")
        assert [number for _, number, _ in lake.plain()] == [2]

    def test_by_label(self) -> None:
        lake = Lake()
        lake.append(("a", 1, None), site="x")
        lake.append(("a", 2, None), site="y")
        lake.append(("a", 3, None))
        lake.open().delete("site = 'x'")
        lake.open().delete("site IS NULL")
        assert [number for _, number, _ in lake.plain()] == [2]

    def test_by_a_label_of_the_tables_own_which_no_row_has_any_more(self) -> None:
        """So that a delete whose response was lost may be run again."""
        table = bs.create(
            "memory://own-label", schema=SCHEMA, labels={"site": "x"}, world=World.manual(seed=7)
        )
        table.append(table_of([("a", 1, None)]))
        assert table.delete("site = 'x'").rows_removed == 1
        again = table.delete("site = 'x'")
        assert (again.rows_removed, again.version) == (0, None)
        with pytest.raises(bs.Invalid, match="no column 'place'"):
            table.delete("place = 'x'")

    def test_rows_of_reverted_writes_stay_hidden_when_their_block_is_rewritten(
        self, tmp_path: Path
    ) -> None:
        lake = Lake()
        first = lake.source(("a", 1, None), ("b", 1, None))
        lake.append(("a", 2, None), ("b", 2, None))
        lake.merge(tmp_path)
        table = lake.open()
        table.revert(first)
        assert table.delete("key = 'a'").rows_removed == 1
        assert lake.plain() == Counter([("b", 2, None)])

    def test_a_block_whose_last_rows_in_view_go_is_removed(self, tmp_path: Path) -> None:
        lake = Lake()
        first = lake.source(("a", 1, None), ("c", 1, None))
        lake.append(("b", 2, None))
        merged = lake.merge(tmp_path)
        table = lake.open()
        table.revert(first)
        planned = table.delete("key = 'b'", dry_run=True)
        done = table.delete("key = 'b'")
        assert (planned.removed, dict(planned.rewritten)) == ((merged,), {})
        assert (done.removed, dict(done.rewritten)) == ((merged,), {})
        assert lake.live() == []


class TestWhatIsRead:
    def lake(self) -> tuple[Lake, list[str]]:
        lake = Lake()
        ulids = [
            lake.source(*((key, number, None) for number in range(start, start + 4)), **labels)
            for key, start, labels in [
                ("a", 0, {}),
                ("b", 10, {}),
                ("c", 20, {"site": "x"}),
                ("d", 30, {"site": "y"}),
            ]
        ]
        return lake, ulids

    @pytest.mark.parametrize(
        ("where", "read", "removed", "rewritten"),
        [
            ("number >= 12 AND number < 14", [1], [], [1]),
            ("key = 'b'", [], [1], []),
            ("number < 20", [], [0, 1], []),
            ("number < 12", [1], [0], [1]),
            ("site = 'x'", [], [2], []),
            ("site = 'x' AND number = 21", [2], [], [2]),
            ("site = 'x' AND number = 5", [], [], []),
            ("site = 'nowhere'", [], [], []),
            ("number > 1000", [], [], []),
            ("number = 12 OR site = 'y'", [1], [3], [1]),
        ],
    )
    def test_only_blocks_that_statistics_leave_open(
        self, where: str, read: list[int], removed: list[int], rewritten: list[int]
    ) -> None:
        lake, ulids = self.lake()
        for dry_run in (True, False):
            faulty = FaultyBucket(lake.bucket)
            done = lake.open(faulty).delete(where, dry_run=dry_run)
            assert read_chunks(faulty) == {ulids[place] for place in read}
            assert list(done.removed) == [ulids[place] for place in removed]
            assert list(done.rewritten) == [ulids[place] for place in rewritten]

    def test_of_a_chunk_only_the_columns_of_the_condition_until_it_is_rewritten(self) -> None:
        lake = Lake()
        lake.append(*((f"{number:06}", number % 7, number / 3) for number in range(20_000)))
        faulty = FaultyBucket(lake.bucket)
        assert lake.open(faulty).delete("number = 9").version is None
        assert not faulty.writes

    def test_a_missing_chunk_fails_by_name_and_changes_nothing(self) -> None:
        lake = Lake()
        lake.append(("a", 1, None), ("b", 2, None))
        (ulid,) = lake.live()
        lake.bucket.delete([key for key in contents(lake) if key.startswith(f"{ulid}/chunks/")])
        before = contents(lake)
        with pytest.raises(bs.ObjectMissing, match=ulid):
            lake.open().delete("key = 'a'")
        assert contents(lake) == before

    def test_a_damaged_chunk_never_gets_a_fresh_hash(self, tmp_path: Path) -> None:
        """One whose bytes differ and still parse: only the hash shows it."""
        lake = Lake()
        lake.append(("a", 1, 0.5), ("b", 2, 0.5))
        (ulid,) = lake.live()
        meta = load_meta(lake.bucket, ulid)
        (file,) = meta.files
        key = object_key(ulid, file.path)
        data = bytearray(lake.bucket.get(key).data)
        data[-30] ^= 1
        lake.bucket.put(key, bytes(data))
        version = lake.open().poll()
        with pytest.raises(bs.Corrupt, match=ulid):
            lake.open().delete("key = 'a'")
        assert lake.open().poll() == version


class TestWhatIsWritten:
    def test_a_rewrite_keeps_sources_and_order_and_goes_one_revision_up(self) -> None:
        lake = Lake()
        with small_chunks():
            source = lake.source(*((key, number, None) for number in range(3) for key in "cab"))
            lake.open().delete("number = 1")
        (block,) = lake.open().log.state.blocks
        meta = block.meta
        assert (meta.sources, meta.revision, meta.level, meta.own) == ((source,), 1, 2, False)
        assert meta.visible_by == "index"
        assert [parent.ulid for parent in meta.parents] == [source]
        assert meta.rows == 6
        assert lake.rows() == Counter(
            ((key, number, None), source) for number in (0, 2) for key in "abc"
        )
        lake.check()
        lake.open().delete("number = 2")
        (block,) = lake.open().log.state.blocks
        assert (block.meta.sources, block.meta.revision, block.meta.level) == ((source,), 2, 2)

    def test_a_chunk_of_a_merged_block_of_which_nothing_goes_is_copied_as_it_is(
        self, tmp_path: Path
    ) -> None:
        lake = Lake()
        with small_chunks():
            for start in (0, 3, 6):
                lake.append(*((f"k{number}", number, None) for number in range(start, start + 3)))
            merged = lake.merge(tmp_path)
            assert merged is not None
            before = {file.sha256 for file in load_meta(lake.bucket, merged).files}
            lake.open().delete("number = 4")
        (block,) = lake.open().log.state.blocks
        after = {file.sha256 for file in block.meta.files}
        assert len(before) > 2
        assert len(before & after) == len(before) - 1
        lake.open().delete("number = 7")
        assert sorted(number or 0 for _, number, _ in lake.plain()) == [0, 1, 2, 3, 5, 6, 8]
        lake.check()

    def test_times_narrow_to_the_rows_that_stay(self, tmp_path: Path) -> None:
        world = World.manual()
        bucket = MemoryBucket(world.clock)
        schema = pa.schema([("time", pa.timestamp("ms", "UTC")), ("n", pa.int64())])
        index_log.create(
            bucket, world, Definition.create(schema, time_column="time", sort_by=["time"])
        )
        table = Table.open_bucket(bucket, world)
        table.append(
            pa.table({"time": [NOW + n for n in range(10)], "n": list(range(10))}, schema=schema)
        )
        table.delete("n < 3 OR n > 6")
        (block,) = table.snapshot().blocks
        assert (block.meta.min_time, block.meta.max_time) == (NOW + 3, NOW + 7)

    def test_old_blocks_come_under_the_definition_of_now(self) -> None:
        lake = Lake()
        lake.append(("a", 1, None), ("b", 2, None))
        table = lake.open()
        table.alter(add=[pa.field("note", pa.string())])
        table.delete("note IS NULL AND key = 'a'")
        assert table.snapshot().scan().to_table().to_pylist() == [
            {"key": "b", "number": 2, "value": None, "note": None}
        ]
        (block,) = table.snapshot().blocks
        assert block.meta.schema_id == 2

    def test_the_labels_of_the_block_stay(self) -> None:
        lake = Lake()
        lake.append(("a", 1, None), ("b", 2, None), site="x")
        lake.open().delete("number = 1")
        (block,) = lake.open().log.state.blocks
        assert dict(block.meta.labels) == {"site": "x"}

    def test_sources_too_many_for_meta_json_stand_in_a_file_of_the_rewrite(
        self, tmp_path: Path
    ) -> None:
        lake = Lake()
        with few_sources_inline():
            for number in range(5):
                lake.append(("a", number, None))
            lake.merge(tmp_path)
            lake.open().delete("number < 2")
            (block,) = lake.open().log.state.blocks
            assert "sources.parquet" in [file.path for file in block.meta.files]
            assert len(load_meta(lake.bucket, block.ulid).sources) == len(block.meta.sources) == 5
            assert lake.plain().total() == 3
            lake.open().overwrite(table_of([("b", 9, None)]))
            (block,) = lake.open().log.state.blocks
            assert len(load_meta(lake.bucket, block.ulid).sources) == len(block.meta.sources) == 6
            lake.open().restore(version=7)
            assert lake.plain().total() == 5
            lake.check()

    def test_one_entry_says_everything(self) -> None:
        lake = Lake()
        first, second = lake.source(("a", 1, None), ("b", 1, None)), lake.source(("a", 2, None))
        done = lake.open().delete("key = 'a'", message="no more a")
        (entry,) = lake.open().log.entries(done.version, done.version)
        assert (entry.operation, entry.message) == ("delete", "no more a")
        assert set(entry.remove) == {first, second}
        assert dict(entry.parameters) == {"where": "key = 'a'"}
        assert entry.read_version == 3

    def test_deleted_writes_stay_accounted(self) -> None:
        lake = Lake()
        source = lake.source(("a", 1, None))
        table = lake.open()
        table.delete("true")
        assert source in table.log.state.accounted
        answer = table.append(table_of([("a", 1, None)]), resume=source)
        assert answer.already
        assert lake.plain() == Counter()


class TestUnpublishedWrites:
    def test_replaced_whole_they_are_accounted_for_and_never_seen(self) -> None:
        lake = Lake()
        lake.append(("a", 1, None))
        source = lake.append(("a", 2, None), publish=False).ulid
        done = lake.open().delete("key = 'a'")
        assert done.accounted == (source,)
        lake.world.clock.sleep(86_400)
        assert lake.rows(discovery="list") == Counter()

    def test_in_part_they_are_published_first(self) -> None:
        lake = Lake()
        source = lake.append(("a", 1, None), ("b", 1, None), publish=False).ulid
        assert source is not None
        done = lake.open().delete("key = 'a'")
        assert list(done.rewritten) == [source]
        assert [entry.operation for entry in lake.open().history()] == [
            "create",
            "append",
            "delete",
        ]
        assert lake.rows() == Counter({(("b", 1, None), source): 1})

    def test_not_at_all_they_are_left_alone(self) -> None:
        lake = Lake()
        lake.append(("b", 1, None), publish=False)
        before = contents(lake)
        assert lake.open().delete("key = 'a'").version is None
        assert contents(lake) == before

    def test_a_dry_run_publishes_nothing(self) -> None:
        lake = Lake()
        source = lake.append(("a", 1, None), ("b", 1, None), publish=False).ulid
        before = contents(lake)
        planned = lake.open().delete("key = 'a'", dry_run=True)
        assert list(planned.rewritten) == [source]
        assert contents(lake) == before

    def test_under_a_mark_a_part_waits_until_the_mark_is_withdrawn(self) -> None:
        """The compactor took the upload for an aborted one: whether it is complete is for it to
        see."""
        lake = Lake()
        source = lake.append(("a", 1, None), ("b", 1, None), publish=False).ulid
        assert source is not None
        place_deletion(lake.bucket, lake.world, source, MarkReason.PARTIAL)
        with pytest.raises(bs.Conflict, match=f"block {source} .* is marked for deletion"):
            lake.open().delete("key = 'a'")
        assert [entry.operation for entry in lake.open().history()] == ["create"]
        assert lake.open().delete("number = 1").accounted == (source,), "whole it goes at once"

    def test_that_a_person_marked_count_for_nothing(self) -> None:
        lake = Lake()
        source = lake.append(("a", 1, None), publish=False).ulid
        assert source is not None
        place_deletion(lake.bucket, lake.world, source, MarkReason.MANUAL)
        assert lake.open().delete("true").nothing

    def test_at_or_below_the_horizon_a_part_waits_for_discovery(self) -> None:
        lake = Lake()
        source = lake.append(("a", 1, None), ("b", 1, None), publish=False).ulid
        lake.world.clock.sleep(3 * 86_400)
        horizon = ulid_at(lake.world.clock.now_ms() - 2 * 86_400_000)
        lake.open().log.commit(
            Planned(
                operation=Operation.HORIZON,
                commit=lake.world.ids.ulid(),
                plan=Draft(horizon=horizon),
            )
        )
        with pytest.raises(
            bs.Conflict, match=f"block {source} .* once the compactor has discovered it"
        ):
            lake.open().delete("key = 'a'")
        assert lake.open().delete("number = 1").accounted == (source,), "whole it goes at once"


class TestAnswers:
    def test_a_dry_run_says_what_would_happen_and_changes_nothing(self) -> None:
        lake = Lake()
        lake.append(("a", 1, None), ("b", 1, None))
        lake.append(("a", 2, None))
        before = contents(lake)
        planned = lake.open().delete("key = 'a'", dry_run=True)
        assert contents(lake) == before
        done = lake.open().delete("key = 'a'")
        assert (
            planned.rows_removed,
            planned.removed,
            list(planned.rewritten),
            planned.bytes_removed,
        ) == (
            done.rows_removed,
            done.removed,
            list(done.rewritten),
            done.bytes_removed,
        )
        assert (planned.version, planned.dry_run, done.version, done.dry_run) == (
            None,
            True,
            4,
            False,
        )

    def test_nothing_to_do_is_no_version(self) -> None:
        lake = Lake()
        lake.append(("a", 1, None))
        done = lake.open().delete("key = 'q'")
        assert done.nothing
        assert lake.open().poll() == 2

    @pytest.mark.parametrize(
        ("act", "says"),
        [
            (lambda table: table.delete(None), "needs a condition"),
            (lambda table: table.delete("nowhere = 1"), "nowhere"),
            (lambda table: table.delete("number = 'x'"), "number"),
            (lambda table: table.delete("number ="), "cannot read the condition"),
            (lambda table: table.delete("random() < 1"), "cannot use the condition"),
            (
                lambda table: table.delete("key = 'a'", isolation="read-committed"),
                "'write-serializable'",
            ),
            (lambda table: table.delete("key = 'a'", message="x" * 20_000), "message"),
            (lambda table: table.delete(3), "int"),
        ],
    )
    def test_a_wrong_call_changes_nothing(self, act: Callable[[Table], Any], says: str) -> None:
        lake = Lake()
        lake.append(("a", 1, None))
        before = contents(lake)
        with pytest.raises(bs.Invalid, match=says):
            act(lake.open())
        assert contents(lake) == before

    def test_a_table_without_an_index_says_that_it_needs_one(self, tmp_path: Path) -> None:
        table = bs.create(f"{tmp_path}/t", schema=pa.schema([("n", pa.int64())]), index=False)
        acts: list[Callable[[], object]] = [
            lambda: table.delete("n = 1"),
            lambda: table.overwrite([]),
            lambda: table.revert("01HF7YAT00TTTTTTTTTTTTTTTT"),
            lambda: table.restore(version=1),
            lambda: table.tag("t"),
            lambda: table.untag("t"),
        ]
        for act in acts:
            with pytest.raises(bs.Invalid, match="has no index"):
                act()
