"""What a person may mark, what that comes to, and that it may die anywhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from blockstore.care.marks.hiding import Wait
from blockstore.care.marks.marker import Marked, Marker, MarkKind
from blockstore.clock import ManualClock
from blockstore.errors import BlockstoreError, Conflict, Invalid, NotFound
from blockstore.format.marks import MarkReason, decode_deletion_mark, decode_no_compact_mark
from blockstore.format.properties import Properties
from blockstore.names import deletion_mark_key, meta_key, no_compact_mark_key
from blockstore.table import Table
from tests.blockstore.care.scene import Care, rows_of, worn
from tests.support.faulty import FaultyBucket, Killed
from tests.support.tally import tally


def marker(made: Care, bucket: FaultyBucket | None = None) -> Marker:
    table = made.open(bucket)
    return Marker(
        bucket=table.bucket,
        world=table.world,
        log=table.log,
        properties=table.definition.properties,
        catalog=table.catalog,
    )


def listed(made: Care) -> Marker:
    table = Table.open_bucket(made.bucket, made.world, discovery="list")
    return Marker(
        bucket=table.bucket,
        world=table.world,
        log=None,
        properties=Properties(),
        catalog=table.catalog,
    )


def marks(made: Care) -> list[str]:
    return [key for key in made.objects() if key.endswith("-mark.json")]


def test_a_live_block_is_taken_out_by_an_entry_and_gets_no_mark() -> None:
    made = worn()
    before = made.found()
    done = marker(made).delete(made.blocks["d"], "wrong day")
    assert done.changed
    assert done.version == made.open().log.state.version
    assert "48h" in done.summary
    assert marks(made) == []
    assert made.found() == before - rows_of("d")
    entry = next(iter(made.open().log.entries(done.version)))
    assert (str(entry.operation), entry.parameters["details"]) == ("expire", "wrong day")


def test_a_block_that_only_versions_name_is_refused_with_the_version() -> None:
    made = worn()
    marker(made).delete(made.blocks["d"])
    with pytest.raises(Conflict, match="needed by version 7"):
        marker(made).delete(made.blocks["d"])
    assert marks(made) == []


def test_a_block_that_a_tag_names_is_refused_with_the_tag() -> None:
    made = worn()
    made.tag("close", 5)
    version = marker(made).delete(made.merged()).version
    assert version is not None
    made.collect()
    with pytest.raises(Conflict, match="needed by tag 'close'"):
        marker(made).delete(made.merged())


def test_what_nobody_names_any_more_is_marked_and_twice_is_a_no_op_that_says_so() -> None:
    made = worn()
    marker(made).delete(made.blocks["d"])
    made.collect()
    first = marker(made).delete(made.blocks["d"], "really")
    assert first.changed
    mark = decode_deletion_mark(
        made.bucket.get(deletion_mark_key(made.blocks["d"])).data, ulid=made.blocks["d"]
    )
    assert (mark.reason, mark.details) == (MarkReason.MANUAL, "really")
    second = marker(made).delete(made.blocks["d"], "again")
    assert not second.changed
    assert "manual: really" in second.summary


def test_a_block_that_only_a_listing_shows_is_marked() -> None:
    made = worn()
    assert marker(made).delete(made.blocks["f"]).changed
    assert marks(made) == [deletion_mark_key(made.blocks["f"])]


def test_without_an_index_the_mark_hides_the_block_and_its_withdrawal_brings_it_back() -> None:
    made = worn().without_index()
    before = made.listed_rows()
    seen = []
    done = listed(made).delete(made.blocks["d"], on_wait=lambda _: seen.append(made.listed_rows()))
    assert seen == [before, before - rows_of("d")]
    assert done.changed
    assert made.listed_rows() == before - rows_of("d")
    assert listed(made).withdraw(made.blocks["d"], MarkKind.DELETION).changed
    assert made.listed_rows() == before


def test_each_wait_is_told_once_where_the_store_s_clock_goes_slower_than_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = worn().without_index()
    clock = made.world.clock
    monkeypatch.setattr(
        clock, "sleep", lambda seconds: ManualClock.sleep(clock, max(seconds * 0.7, 0.001))
    )
    waited: list[Wait] = []
    listed(made).delete(made.blocks["d"], on_wait=waited.append)
    assert [one.what.split(";")[0] for one in waited] == [
        "it is kept out of merges",
        "it is hidden",
    ]


def test_a_withdrawn_mark_on_a_block_whose_removal_had_begun_says_so() -> None:
    made = worn().without_index()
    listed(made).delete(made.blocks["d"])
    made.bucket.delete([meta_key(made.blocks["d"])])
    assert "removal had begun" in listed(made).withdraw(made.blocks["d"], MarkKind.DELETION).summary


def test_without_an_index_what_readers_do_not_see_is_marked_at_once() -> None:
    made = worn().without_index()
    made.bucket.put(meta_key(made.blocks["d"]), b"garbage")
    waited: list[Wait] = []
    assert listed(made).delete(made.blocks["d"], on_wait=waited.append).changed
    assert waited == []
    assert marks(made) == [deletion_mark_key(made.blocks["d"])]


def test_what_a_merge_could_show_again_is_not_removed_at_once() -> None:
    made = worn().without_index()
    found = listed(made).hindrance(made.blocks["d"])
    assert found is not None
    assert f"{made.blocks['d']} --no-compact" in found
    listed(made).keep_from_merges(made.blocks["d"])
    assert listed(made).hindrance(made.blocks["d"]) == found
    made.world.clock.sleep(15 * 60)
    assert listed(made).hindrance(made.blocks["d"]) is None


def test_no_compact_is_placed_once_and_withdrawn() -> None:
    made = worn()
    ulid = made.blocks["d"]
    assert marker(made).keep_from_merges(ulid, "under examination").changed
    mark = decode_no_compact_mark(made.bucket.get(no_compact_mark_key(ulid)).data, ulid=ulid)
    assert mark.details == "under examination"
    assert not marker(made).keep_from_merges(ulid).changed
    assert marker(made).withdraw(ulid, MarkKind.NO_COMPACT).changed
    assert not marker(made).withdraw(ulid, MarkKind.NO_COMPACT).changed
    assert marks(made) == []


def test_an_unknown_block_is_refused_and_so_is_a_name_that_is_none() -> None:
    made = worn()
    unknown = made.world.ids.ulid()
    for act in (
        lambda: marker(made).delete(unknown),
        lambda: marker(made).keep_from_merges(unknown),
        lambda: marker(made).withdraw(unknown, MarkKind.DELETION),
    ):
        with pytest.raises(NotFound, match="there is no block"):
            act()
    with pytest.raises(Invalid, match="not a block name"):
        marker(made).delete("../secret")
    with pytest.raises(Invalid, match="details"):
        marker(made).delete(made.blocks["d"], "x" * 2_000)
    assert marks(made) == []


ACTS: dict[str, Callable[[Care, FaultyBucket | None], Marked]] = {
    "expire": lambda made, bucket: marker(made, bucket).delete(made.blocks["d"]),
    "mark": lambda made, bucket: marker(made, bucket).delete(made.blocks["f"]),
    "no-compact": lambda made, bucket: marker(made, bucket).keep_from_merges(made.blocks["d"]),
    "withdraw": lambda made, bucket: marker(made, bucket).withdraw(
        made.blocks["e"], MarkKind.NO_COMPACT
    ),
}


@pytest.mark.parametrize("name", ACTS)
def test_a_mark_that_dies_anywhere_is_there_or_not_and_done_again_ends_the_same(name: str) -> None:
    act = ACTS[name]
    ready = worn()
    marker(ready).keep_from_merges(ready.blocks["e"])
    whole = ready.copy()
    counting = FaultyBucket(whole.bucket)
    act(whole, counting)
    outcome = (whole.found(), marks(whole))
    before = (ready.found(), marks(ready))
    for number in range(1, len(counting.calls) + 1):
        for fault in ("kill_after", "lose_answer") if number > 1 else ("kill_before", "kill_after"):
            made = ready.copy()
            tally("crash points")
            argument = {number} if fault == "lose_answer" else number
            try:
                act(made, FaultyBucket(made.bucket, **{fault: argument}))  # type: ignore[arg-type]
            except (Killed, BlockstoreError):
                pass
            point = f"{fault} {number}"
            assert (made.found(), marks(made)) in (before, outcome), point
            try:
                act(made, None)
            except Conflict:
                assert name == "expire", (
                    point
                )  # the first try was applied: the version before still names the block
            assert (made.found(), marks(made)) == outcome, point
