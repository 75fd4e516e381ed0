"""``restore``: the rows of an earlier version again, by references alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.format.marks import MarkReason
from blockstore.index.change import Tag
from blockstore.index.gc import collect
from blockstore.index.tags import TEMPORARY
from blockstore.lifecycle.mark import place_deletion
from blockstore.table import Table
from tests.blockstore.operations.lake import Lake, table_of
from tests.blockstore.operations.test_delete import contents
from tests.support.faulty import Call, FaultyBucket

A, B, C = ("a", 1, 0.1), ("b", 2, 0.2), ("c", 3, 0.3)


def tags(lake: Lake) -> dict[str, int]:
    return dict(lake.open().log.state.tags)


class TestWhatComesBack:
    def test_deleted_rows_of_whole_blocks_and_of_parts(self) -> None:
        lake = Lake()
        lake.append(A, B)
        lake.append(A)
        before = lake.rows()
        lake.open().delete("key = 'a'")
        done = lake.open().restore(version=3)
        assert lake.rows() == before
        assert (done.to, done.rows, len(done.brought_back), len(done.removed)) == (3, 2, 2, 1)
        lake.check()

    def test_replaced_rows(self) -> None:
        lake = Lake()
        lake.append(A)
        lake.open().overwrite(table_of([B]))
        lake.open().restore(version=2)
        assert lake.plain() == Counter([A])
        lake.open().restore(version=3)
        assert lake.plain() == Counter([B])

    def test_merged_blocks_as_they_were_and_as_merged(self, tmp_path: Path) -> None:
        lake = Lake()
        lake.append(A)
        lake.append(B)
        rows = lake.rows()
        lake.merge(tmp_path)
        lake.append(C)
        lake.open().restore(version=3)
        assert (lake.rows(), len(lake.live())) == (rows, 2)
        lake.open().restore(version=4)
        assert (lake.rows(), len(lake.live())) == (rows, 1)

    def test_reverted_writes_and_the_other_way_round(self, tmp_path: Path) -> None:
        lake = Lake()
        first = lake.source(A)
        lake.append(B)
        lake.merge(tmp_path)
        table = lake.open()
        shown = table.poll()
        table.revert(first)
        hidden = table.poll()
        done = lake.open().restore(version=shown)
        assert lake.plain() == Counter([A, B])
        assert done.rows is None, (
            "how many rows the hidden write has in the merged block only reading tells"
        )
        lake.open().restore(version=hidden)
        assert lake.plain() == Counter([B])
        lake.check()

    def test_the_version_and_the_row_ids_of_then(self) -> None:
        lake = Lake()
        lake.append(A)
        lake.append(B)
        before = {
            block.ulid: (block.version, block.first_row_id)
            for block in lake.open().log.state.blocks
        }
        lake.open().delete("true")
        lake.open().restore(version=3)
        assert {
            block.ulid: (block.version, block.first_row_id)
            for block in lake.open().log.state.blocks
        } == before

    def test_nothing_is_copied(self) -> None:
        lake = Lake()
        lake.append(A)
        lake.open().delete("true")
        blocks = {key for key in contents(lake) if not key.startswith(("index/", "gc/"))}
        lake.open().restore(version=2)
        assert {key for key in contents(lake) if not key.startswith(("index/", "gc/"))} == blocks

    def test_an_empty_table(self) -> None:
        lake = Lake()
        lake.append(A)
        lake.open().restore(version=1)
        assert lake.live() == []

    def test_the_definition_of_now_stays(self) -> None:
        lake = Lake()
        lake.append(A)
        table = lake.open()
        table.alter(add=[pa.field("note", pa.string())], properties={"sync_delay": "20m"})
        table.overwrite(table_of([B]).append_column("note", pa.array(["n"])))
        table.restore(version=2)
        assert table.definition.properties.sync_delay_s == 1200
        rows = lake.open().snapshot().scan().to_table().to_pylist()
        assert rows == [{"key": "a", "number": 1, "value": 0.1, "note": None}]

    def test_jobs_stay_done(self) -> None:
        lake = Lake()
        job = bs.Job("load", 1)
        lake.append(A, job=job)
        lake.open().restore(version=1)
        assert lake.append(A, job=job).already
        assert lake.plain() == Counter()

    def test_writes_that_were_only_accounted_for_stay_away(self) -> None:
        lake = Lake()
        lake.append(A, publish=False)
        lake.open().overwrite(table_of([B]))
        lake.open().restore(version=1)
        lake.world.clock.sleep(86_400)
        assert lake.rows(discovery="list") == Counter()

    def test_a_write_that_nobody_published_stays_what_it_is(self) -> None:
        lake = Lake()
        lake.append(A)
        lake.append(B)
        source = lake.append(C, publish=False).ulid
        lake.open().restore(version=2)
        assert lake.open().append(table_of([]), resume=source).published
        assert lake.plain() == Counter([A, C])


class TestHowTheVersionIsNamed:
    def test_by_a_tag(self) -> None:
        lake = Lake()
        lake.append(A)
        lake.open().tag("q3-close")
        lake.open().delete("true")
        assert lake.open().restore(tag="q3-close").to == 2
        assert lake.plain() == Counter([A])
        assert tags(lake) == {"q3-close": 2}

    def test_by_a_time(self) -> None:
        lake = Lake()
        lake.append(A)
        moment = lake.world.clock.now_ms()
        lake.world.clock.sleep(60)
        lake.append(B)
        assert lake.open().restore(as_of=moment).to == 2
        assert lake.plain() == Counter([A])

    @pytest.mark.parametrize(
        ("act", "error", "says"),
        [
            (lambda table: table.restore(), bs.Invalid, "exactly one"),
            (lambda table: table.restore(version=1, tag="t"), bs.Invalid, "exactly one"),
            (lambda table: table.restore(version=0), bs.Invalid, "version is 0"),
            (lambda table: table.restore(version=True), bs.Invalid, "version is True"),
            (lambda table: table.restore(version="2"), bs.Invalid, "version is '2'"),
            (lambda table: table.restore(version=99), bs.NotFound, "no version 99"),
            (lambda table: table.restore(tag="nobody"), bs.NotFound, "no tag 'nobody'"),
            (lambda table: table.restore(as_of="1999-01-01"), bs.NotFound, "newer"),
            (lambda table: table.restore(as_of="soon"), bs.Invalid, "ISO 8601"),
        ],
    )
    def test_a_wrong_name_changes_nothing(
        self, act: Callable[[Table], Any], error: type[Exception], says: str
    ) -> None:
        lake = Lake()
        lake.append(A)
        before = contents(lake)
        with pytest.raises(error, match=says):
            act(lake.open())
        assert contents(lake) == before


class TestSafety:
    @pytest.mark.parametrize("dry_run", [False, True])
    @pytest.mark.parametrize("harm", ["marked", "meta gone", "chunk gone"])
    def test_a_block_that_is_not_whole_is_named_and_nothing_is_changed(
        self, harm: str, dry_run: bool
    ) -> None:
        lake = Lake()
        ulid = lake.source(A)
        lake.open().delete("true")
        if harm == "marked":
            place_deletion(lake.bucket, lake.world, ulid, MarkReason.MANUAL)
        else:
            part = "meta.json" if harm == "meta gone" else "chunks"
            lake.bucket.delete([key for key in contents(lake) if key.startswith(f"{ulid}/{part}")])
        with pytest.raises(bs.NotFound, match=f"version 2 .* cannot be restored.*{ulid}"):
            lake.open().restore(version=2, dry_run=dry_run)
        assert (lake.live(), tags(lake)) == ([], {})

    def test_the_version_is_pinned_while_it_is_restored(self) -> None:
        lake = Lake()
        lake.append(A)
        lake.open().delete("true")
        faulty = FaultyBucket(lake.bucket)
        pinned: list[dict[str, int]] = []

        def look(call: Call) -> None:
            if call.writes and call.key.endswith("5.json"):
                pinned.append(tags(lake))

        faulty.before.append(look)
        lake.open(faulty).restore(version=2)
        ((name, version),) = pinned[0].items()
        assert (name.startswith(TEMPORARY), version) == (True, 2)
        assert tags(lake) == {}

    def test_a_restore_whose_pin_was_taken_away_pins_again(self) -> None:
        lake = Lake()
        lake.append(A)
        lake.open().delete("true")
        faulty = FaultyBucket(lake.bucket)

        def unpin(call: Call) -> None:
            if call.writes and call.key.endswith("5.json"):
                (name,) = tags(lake)
                lake.open().untag(name)

        faulty.before.append(unpin)
        lake.open(faulty).restore(version=2)
        assert (lake.plain(), tags(lake)) == (Counter([A]), {})
        done = [entry.operation for entry in lake.open().history()][3:]
        assert done == ["tag", "untag", "tag", "restore", "untag"]

    @pytest.mark.parametrize("finished", [True, False])
    def test_the_pin_of_a_restore_that_died_is_taken_away_by_the_next(self, finished: bool) -> None:
        lake = Lake()
        lake.append(A)
        lake.open().delete("true")
        if finished:
            lake.open().restore(version=2)
        left = Tag(
            commit=lake.world.ids.ulid(), name=f"{TEMPORARY}{lake.world.ids.ulid()}", version=2
        )
        lake.open().log.commit(left)
        lake.open().tag("mine", version=2)
        lake.open().restore(version=2)
        assert (lake.plain(), tags(lake)) == (Counter([A]), {"mine": 2})

    def test_a_person_s_tag_stays_whatever_its_name_begins_with(self) -> None:
        """Earlier releases let such names be taken."""
        lake = Lake()
        lake.append(A)
        lake.open().delete("true")
        for name in (f"{TEMPORARY}point", TEMPORARY, f"{TEMPORARY}{lake.world.ids.ulid()}x"):
            lake.open().log.commit(Tag(commit=lake.world.ids.ulid(), name=name, version=2))
        before = tags(lake)
        lake.open().restore(version=2)
        assert (lake.plain(), tags(lake)) == (Counter([A]), before)

    def test_the_name_of_a_pin_is_nobody_s_to_give(self) -> None:
        lake = Lake()
        lake.append(A)
        before = contents(lake)
        for name in (f"{TEMPORARY}point", f"{TEMPORARY}{lake.world.ids.ulid()}"):
            with pytest.raises(bs.Invalid, match=r"_restore_.*restores.*another name"):
                lake.open().tag(name)
        assert contents(lake) == before
        lake.open().tag("restore_point")
        left = Tag(
            commit=lake.world.ids.ulid(), name=f"{TEMPORARY}{lake.world.ids.ulid()}", version=2
        )
        lake.open().log.commit(left)
        lake.open().untag(left.name)
        assert tags(lake) == {"restore_point": 2}

    def test_a_version_that_only_a_young_tag_keeps_is_read_and_not_restored_yet(self) -> None:
        """A process that decided to delete before the tag was there may still be deleting, for half
        a ``delete_delay``."""
        lake = Lake()
        lake.append(A)
        lake.open().delete("true")
        lake.world.clock.sleep(49 * 3600)
        lake.open().tag("good", version=2)
        tagged_s = lake.world.clock.now_ms() // 1000
        collect(lake.open().log, lake.world)
        before = contents(lake)
        self.refused_until(lake, tagged_s + 24 * 3600, "on$")
        assert contents(lake) == before
        assert lake.plain(tag="good") == Counter([A])
        lake.world.clock.sleep(24 * 3600)
        assert lake.open().restore(tag="good", dry_run=True).brought_back
        lake.open().restore(tag="good")
        assert (lake.plain(), tags(lake)) == (Counter([A]), {"good": 2})

    def test_a_tag_whose_entry_was_collected_is_as_old_as_the_oldest_left(self) -> None:
        lake = Lake()
        lake.append(A)
        lake.open().alter(properties={"history_retention": "1h"})
        lake.open().tag("good", version=2)
        lake.open().delete("true")
        for _ in range(2):
            lake.world.clock.sleep(2 * 3600)
            lake.append(B)
            oldest_s = lake.world.clock.now_ms() // 1000 - 2 * 3600 - 1
            collect(lake.open().log, lake.world)
        self.refused_until(
            lake,
            oldest_s + 24 * 3600,
            "on, unless more of the history is collected .*history_retention",
        )

    def refused_until(self, lake: Lake, moment_s: int, end: str) -> None:
        moment = re.escape(datetime.fromtimestamp(moment_s, UTC).isoformat())
        says = rf"version 2 .*'good'.*can be read now.*restored from {moment} {end}"
        for dry_run in (True, False):
            with pytest.raises(bs.VersionExpired, match=says):
                lake.open().restore(tag="good", dry_run=dry_run)

    def test_a_dry_run_changes_nothing(self) -> None:
        lake = Lake()
        lake.append(A, A)
        lake.open().delete("true")
        before = contents(lake)
        planned = lake.open().restore(version=2, dry_run=True)
        assert contents(lake) == before
        assert (planned.rows, planned.version, len(planned.brought_back)) == (2, None, 1)

    def test_the_same_version_again_is_nothing_to_do(self) -> None:
        lake = Lake()
        lake.append(A)
        done = lake.open().restore(version=2)
        assert (done.nothing, done.version, lake.open().poll()) == (True, None, 2)


class TestTags:
    def test_a_snapshot_by_a_tag_shows_its_version(self) -> None:
        lake = Lake()
        lake.append(A)
        table = lake.open()
        assert table.tag("one") == 2
        table.append(table_of([B]))
        assert table.tag("two", version=4, message="the second") == 4
        assert (table.snapshot(tag="one").count(), lake.open().snapshot(tag="two").count()) == (
            1,
            2,
        )
        table.untag("one")
        with pytest.raises(bs.NotFound, match="no tag 'one'"):
            table.snapshot(tag="one")

    def test_a_snapshot_is_named_in_one_way(self) -> None:
        lake = Lake()
        lake.open().tag("one", version=1)
        with pytest.raises(bs.Invalid, match="one of version=, as_of= and tag="):
            lake.open().snapshot(tag="one", version=1)
