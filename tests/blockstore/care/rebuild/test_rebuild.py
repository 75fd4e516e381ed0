"""A lost index is brought back: what is certain without a word, what nobody can know by the
person's word, and whatever the loss and wherever the rebuild dies each row is read once and no old
process forks the history."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable

import pyarrow as pa
import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.care.rebuild import RebuildPlan, Rebuilt, plan_rebuild, rebuild
from blockstore.care.rebuild.decide import Verdict
from blockstore.care.rebuild.plan import Way
from blockstore.errors import (
    BlockCondemned,
    BlockstoreError,
    Conflict,
    Fenced,
    Invalid,
    NewerFormat,
    NotFound,
)
from blockstore.format import Job
from blockstore.format.block import VisibleBy
from blockstore.format.column import column
from blockstore.format.definition import Definition
from blockstore.format.features import COLUMNS
from blockstore.format.marks import MarkReason
from blockstore.format.meta import encode, load_meta
from blockstore.ids import ulid_at
from blockstore.index import log as index_log
from blockstore.index.change import Append
from blockstore.index.checkpoint import decode_checkpoint
from blockstore.index.checkpoint_write import write_checkpoint
from blockstore.index.epochs import COMPACTOR, claim
from blockstore.index.gc import collect
from blockstore.index.log import Log
from blockstore.lifecycle.mark import place_deletion
from blockstore.names import BOUNDARY, HINT, checkpoint_key, entry_key, meta_key, object_key
from blockstore.table import Table
from blockstore.world import World
from tests.blockstore.care.scene import SCHEMA, Care, Rows, rows, rows_of, worn
from tests.support.faulty import FaultyBucket, Killed, crash_points
from tests.support.index_data import block, ulid
from tests.support.tally import tally

pytestmark = pytest.mark.usefixtures("decoded_once")

ALL = rows_of("a", "b", "c", "d", "e")
WITH_LISTED = ALL + rows_of("f")
JUMP = 1_000_000


def plan(made: Care, *leave_out: str) -> RebuildPlan:
    return plan_rebuild(made.bucket, made.world, leave_out=frozenset(leave_out))


def bring_back(made: Care, *leave_out: str) -> Rebuilt:
    return rebuild(made.bucket, made.world, plan(made, *leave_out))


def lose(made: Care, *, boundary: bool = True) -> Care:
    """Lose the index; the boundary with it unless said otherwise."""
    made.bucket.delete([*made.objects("index/"), *([BOUNDARY] if boundary else [])])
    return made


def damaged_entry(made: Care) -> Care:
    made.bucket.put(entry_key(6), b"garbage")
    return made


def hole(made: Care) -> Care:
    made.bucket.delete([entry_key(6)])
    return made


def unreadable(made: Care) -> bool:
    try:
        made.open()
    except BlockstoreError:
        return True
    return False


def verdicts(made: Care, *leave_out: str) -> dict[str, tuple[str, bool]]:
    """By writer (or ULID): what becomes of its block, and whether that is certain."""
    names = {ulid: writer for writer, ulid in made.blocks.items()} | {made.merged_ulid: "merged"}
    return {
        names.get(one.ulid, one.ulid): (str(one.verdict), one.sure)
        for one in plan(made, *leave_out).judged
    }


# -- what can be followed to its end is only mended


def test_an_index_that_can_be_read_is_not_rebuilt() -> None:
    made = worn()
    before = made.objects()
    with pytest.raises(Conflict, match="can be read"):
        plan(made)
    assert made.objects() == before


@pytest.mark.parametrize("data", [None, b"", b"seven", b"99999999999999999999999"])
def test_a_lost_boundary_comes_back_and_nothing_else_changes(data: bytes | None) -> None:
    made = worn()
    before = made.open().log.state
    if data is None:
        made.bucket.delete([BOUNDARY])
    else:
        made.bucket.put(BOUNDARY, data)
    assert unreadable(made)
    found = plan(made)
    assert (found.way, found.judged) == (Way.FILL_IN, ())
    assert rebuild(made.bucket, made.world, found) == Rebuilt(version=7, boundary=5, blocks=3)
    assert made.open().log.state == before
    assert made.found() == ALL
    assert made.verify(deep=True).findings == ()


def test_a_boundary_lost_before_there_was_a_checkpoint_is_0_again() -> None:
    made = worn()
    made.bucket.delete([BOUNDARY, checkpoint_key(5), HINT])
    assert bring_back(made).boundary == 0
    assert made.found() == ALL
    assert made.verify().findings == ()


def test_a_boundary_lost_at_the_only_checkpoint_gets_an_entry_above_it() -> None:
    made = worn()
    state = made.open().log.poll()
    write_checkpoint(made.bucket, state)
    made.bucket.delete([BOUNDARY, checkpoint_key(5)])
    assert bring_back(made) == Rebuilt(version=8, boundary=7, blocks=3)
    assert made.found() == ALL
    assert made.verify().findings == ()


def test_a_garbage_checkpoint_that_the_entries_tell_is_written_again_with_the_boundary() -> None:
    made = worn()
    good = made.bucket.get(checkpoint_key(5)).data
    write_checkpoint(made.bucket, made.open().log.poll())
    newest = made.bucket.get(checkpoint_key(7)).data
    made.bucket.put(checkpoint_key(7), b"garbage")
    made.bucket.delete([BOUNDARY])
    assert bring_back(made).version == 7
    assert made.bucket.get(checkpoint_key(7)).data == newest
    assert made.bucket.get(checkpoint_key(5)).data == good
    assert made.verify().findings == ()


def test_where_every_entry_can_be_followed_no_block_is_left_out_by_a_rebuild() -> None:
    made = worn()
    made.bucket.delete([BOUNDARY])
    with pytest.raises(Invalid, match="drop --leave-out"):
        plan(made, made.blocks["d"])


# -- what is lost is told by the blocks


@pytest.mark.parametrize("boundary", [True, False])
def test_a_lost_index_comes_back_from_the_blocks_alone(boundary: bool) -> None:
    made = lose(worn(), boundary=boundary)
    assert unreadable(made)
    found = plan(made)
    assert found.way is Way.RENEW
    assert {one.ulid for one in found.taken} == {
        made.merged(),
        *(made.blocks[one] for one in "def"),
    }
    assert (found.unsure, found.stops) == ((), ())
    done = rebuild(made.bucket, made.world, found)
    assert (done.version, done.boundary, done.blocks) == (JUMP + 1, JUMP, 4)
    assert made.found() == WITH_LISTED
    assert made.verify(deep=True).findings == ()
    definition = made.open().definition
    assert (definition.sort_by, definition.time_column) == (("writer", "row"), "at")
    assert definition.schema.equals(worn().open().definition.schema, check_metadata=True)


def test_what_the_definition_requires_the_rebuilt_table_requires() -> None:
    """An older release must not write what it does not check."""
    world = World.manual()
    bucket = MemoryBucket(world.clock)
    checked = pa.schema([column("n", pa.int64(), check="n > 0")])
    made = Table(bucket, world, index_log.create(bucket, world, Definition.create(checked)))
    made.append(pa.table({"n": [1]}))
    assert COLUMNS in made.log.state.requires
    bucket.delete([one.key for one in bucket.list("index/")] + [BOUNDARY])
    world.clock.sleep(24 * 3600)
    rebuild(bucket, world, plan_rebuild(bucket, world))
    again = Table.open_bucket(bucket, world)
    assert COLUMNS in again.log.state.requires
    with pytest.raises(Invalid, match="n > 0"):
        again.append(pa.table({"n": [0]}))


@pytest.mark.parametrize("damage", [hole, damaged_entry])
def test_behind_a_gap_the_readable_entries_and_the_blocks_tell_the_rest(
    damage: Callable[[Care], Care],
) -> None:
    made = damage(worn())
    assert unreadable(made)
    assert verdicts(made) == {
        "a": ("leave", True),
        "b": ("leave", True),
        "c": ("leave", True),
        "d": ("take", True),
        "e": ("take", True),
        "f": ("take", True),
        "merged": ("take", True),
    }
    bring_back(made)
    assert made.found() == WITH_LISTED
    state = made.open().log.state
    assert state.blocks.get(made.blocks["e"]).version == 7  # type: ignore[union-attr]
    assert made.verify(deep=True).findings == ()


def test_a_rebuilt_table_goes_on_as_any_other() -> None:
    made = lose(worn())
    bring_back(made)
    made.append("g")
    made.world.clock.sleep(49 * 3600)
    made.open().delete("writer = 'd'")
    made.open().alter(add=[pa.field("note", pa.string())])
    made.world.clock.sleep(49 * 3600)
    made.open().append(rows("h").append_column("note", pa.array(["x"] * 4)))
    collect(made.open().log, made.world)
    assert made.found() == rows_of("a", "b", "c", "e", "f", "g", "h")
    assert not made.verify(deep=True).errors
    assert made.objects("index/0")[0] > entry_key(JUMP)


def test_rows_that_a_revert_hid_stay_hidden() -> None:
    made = worn()
    made.hide(made.blocks["b"])
    write_checkpoint(made.bucket, made.open().log.poll())
    made.append("g")
    made.append("h")
    made.bucket.delete([entry_key(9)])
    bring_back(made)
    assert made.found() == WITH_LISTED + rows_of("g", "h") - rows_of("b")


def test_blocks_that_were_marked_stay_out_and_discovery_does_not_bring_them_back() -> None:
    made = worn()
    for writer in ("d", "f"):
        place_deletion(made.bucket, made.world, made.blocks[writer], MarkReason.SUPERSEDED)
    lose(made)
    assert verdicts(made)["d"] == ("leave", True)
    bring_back(made)
    assert made.found() == rows_of("a", "b", "c", "e")
    state = made.open().log.state
    assert set(state.accounted.held([made.blocks["d"], made.blocks["f"]])) == {
        made.blocks["d"],
        made.blocks["f"],
    }


def test_a_mark_that_is_older_than_the_last_version_is_left_over_and_does_not_count() -> None:
    made = worn()
    place_deletion(made.bucket, made.world, made.blocks["d"], MarkReason.SUPERSEDED)
    made.world.clock.sleep(60)
    made.append("g")
    write_checkpoint(made.bucket, made.open().log.poll())
    made.append("h")
    made.append("i")
    made.bucket.delete([entry_key(9)])
    assert verdicts(made)["d"] == ("take", True)


def test_what_a_readable_entry_took_out_stays_out() -> None:
    made = worn()
    made.append("g")
    made.expire(made.blocks["d"])
    made.bucket.delete([entry_key(8)])
    bring_back(made)
    assert made.found() == WITH_LISTED + rows_of("g") - rows_of("d")


def test_a_merge_whose_inputs_are_gone_was_committed() -> None:
    made = lose(worn())
    for writer in "abc":
        made.bucket.delete(made.objects(made.blocks[writer]))
    assert verdicts(made)["merged"] == ("take", True)
    bring_back(made)
    assert made.found() == WITH_LISTED


def test_an_overwrite_nobody_can_know_of_is_told_and_can_be_left_out() -> None:
    made = worn()
    done = made.open().overwrite(rows("new"), where="writer in ('d', 'new')")
    (new,) = done.added
    lose(made)
    assert verdicts(made)[new] == ("take", False)
    first = made.copy()
    assert [one.ulid for one in plan(first).unsure] == [new]
    bring_back(first)
    assert first.found() == WITH_LISTED + rows_of("new") - rows_of("d")
    bring_back(made, new)
    assert made.found() == WITH_LISTED


def test_a_transaction_that_was_complete_long_before_the_last_version_was_never_committed() -> None:
    made = worn()
    ulid = made.world.ids.ulid()
    copy_block(made, made.blocks["f"], ulid, visible_by=VisibleBy.INDEX, sources=(ulid,))
    made.world.clock.sleep(2 * 3600)
    made.append("g")
    write_checkpoint(made.bucket, made.open().log.poll())
    made.append("h")
    made.append("i")
    made.bucket.delete([entry_key(9)])
    assert verdicts(made)[ulid] == ("leave", True)
    young = made.world.ids.ulid()
    copy_block(made, made.blocks["g"], young, visible_by=VisibleBy.INDEX, sources=(young,))
    assert verdicts(made)[young] == ("take", False)


def test_of_two_blocks_of_one_job_one_is_taken_the_one_that_is_known() -> None:
    made = worn()
    job = Job(app="nightly", batch=1)
    made.append("g", job=job)
    made.world.clock.sleep(1)
    twin = made.world.ids.ulid()
    copy_block(made, made.blocks["g"], twin, sources=(twin,))
    lose(made)
    found = verdicts(made)
    assert (found["g"], found[twin]) == (("take", False), ("leave", False))
    bring_back(made)
    assert made.found() == WITH_LISTED + rows_of("g")
    assert made.open().append(rows("g"), job=job).already
    assert made.found() == WITH_LISTED + rows_of("g")


def test_a_block_that_cannot_be_read_stops_the_rebuild_until_a_person_decides() -> None:
    made = lose(worn())
    made.bucket.delete(
        [object_key(made.blocks["d"], load_meta(made.bucket, made.blocks["d"]).chunks[0].path)]
    )
    found = plan(made)
    assert [one.ulid for one in found.stops] == [made.blocks["d"]]
    before = made.objects()
    with pytest.raises(Conflict, match="a person must decide first"):
        rebuild(made.bucket, made.world, found)
    assert made.objects() == before
    bring_back(made, made.blocks["d"])
    assert made.found() == WITH_LISTED - rows_of("d")


def test_a_damaged_block_that_entries_name_stays_so_that_nobody_reads_less_without_a_word() -> None:
    made = hole(worn())
    made.bucket.delete(
        [object_key(made.merged(), load_meta(made.bucket, made.merged()).chunks[0].path)]
    )
    assert verdicts(made)["merged"] == ("take", True)
    bring_back(made)
    with pytest.raises(BlockstoreError, match=made.merged()):
        made.found()


def test_a_named_block_of_which_nothing_is_left_is_told_with_its_rows() -> None:
    made = hole(worn())
    made.bucket.delete(made.objects(made.merged()))
    for writer in "abc":
        made.bucket.delete(made.objects(made.blocks[writer]))
    found = plan(made)
    (one,) = found.unsure
    assert (one.ulid, one.rows, one.verdict) == (made.merged(), 12, Verdict.LEAVE)
    bring_back(made)
    assert made.found() == rows_of("d", "e", "f")


def test_blocks_of_which_one_could_only_be_read_in_part_are_the_person_s() -> None:
    made = lose(worn())
    newer = made.world.ids.ulid()
    sources = (made.blocks["a"],)
    copy_block(
        made,
        made.merged(),
        newer,
        sources=sources,
        revision=1,
        visible_by=VisibleBy.INDEX,
        parents=(),
    )
    for writer in "abc":
        made.bucket.delete(made.objects(made.blocks[writer]))
    (stop,) = plan(made).stops
    assert stop.ulid == made.merged()
    assert newer in stop.why
    bring_back(made, newer)
    assert made.found() == WITH_LISTED


def test_uploads_that_have_not_ended_are_left_alone() -> None:
    made = lose(worn())
    ulid = made.world.ids.ulid()
    made.bucket.put(object_key(ulid, "chunks/000001.parquet"), b"x")
    assert verdicts(made)[ulid] == ("leave", True)
    bring_back(made)
    assert made.bucket.get(object_key(ulid, "chunks/000001.parquet")).data == b"x"


def test_a_lost_alter_is_told_by_the_blocks_that_were_written_after_it() -> None:
    made = worn()
    made.open().alter(add=[pa.field("note", pa.string())])
    wider = rows("g").append_column("note", pa.array(["x"] * 4))
    made.open().append(wider)
    lose(made)
    found = plan(made)
    assert any("is derived from the blocks" in line for line in found.notes)
    bring_back(made)
    table = made.open().snapshot().scan(columns=["writer", "note"]).to_table().to_pylist()
    assert {row["writer"]: row["note"] for row in table if row["writer"] in "ag"} == {
        "a": None,
        "g": "x",
    }
    assert made.open().definition.schema.names == [*SCHEMA.names, "note"]


def test_a_lost_rename_is_told_by_the_blocks_that_were_written_after_it() -> None:
    made = worn()
    made.open().alter(
        rename={"at": "a_time", "writer": "who"}, columns={"row": {"check": '"row" < 100'}}
    )
    made.world.clock.sleep(1)
    named = rows("g").rename_columns({"writer": "who", "at": "a_time"})
    made.open().append(named)
    before = made.open().definition
    lose(made)
    bring_back(made)
    after = made.open().definition
    assert after.schema.equals(before.schema, check_metadata=True)
    assert (after.time_column, after.sort_by) == ("a_time", ("who", "row"))
    assert after.requires == before.requires == ("columns/0.2",)
    found = made.open().snapshot().scan(columns=["who"]).to_table()["who"].to_pylist()
    assert set(found) == {*"abcdefg"}
    assert made.verify(deep=True).findings == ()


def test_a_table_without_any_block_or_entry_cannot_be_told() -> None:
    made = worn()
    made.bucket.delete([key for key in made.objects() if not key.startswith("gc/")])
    made.bucket.put(BOUNDARY, b"7")
    found = plan(made)
    assert any("has the table's columns" in line for line in found.notes)
    with pytest.raises(Conflict, match="nothing was written"):
        rebuild(made.bucket, made.world, found)
    made.bucket.delete([BOUNDARY])
    with pytest.raises(NotFound):
        plan(made)


def test_an_index_of_a_newer_release_is_not_lost() -> None:
    made = worn()
    made.edit(entry_key(7), lambda data: data.replace(b'"format":1', b'"format":2'))
    with pytest.raises(NewerFormat):
        plan(made)


def test_a_block_that_is_not_there_cannot_be_left_out() -> None:
    made = lose(worn())
    with pytest.raises(Invalid, match="there is no block"):
        plan(made, made.world.ids.ulid())


def test_tags_that_can_be_read_stay_and_others_are_dropped_with_a_word() -> None:
    made = worn()
    made.tag("kept", 5)
    write_checkpoint(made.bucket, made.open().log.poll())
    made.tag("lost", 8)
    made.append("g")
    made.append("h")
    made.bucket.delete([entry_key(10), checkpoint_key(8)])
    found = plan(made)
    assert any("'lost' is dropped" in line for line in found.notes)
    rebuild(made.bucket, made.world, found)
    assert made.open().log.state.tags == {"kept": 5}
    assert len(made.open().log.at(5).blocks) == 1


# -- old processes


def test_a_process_that_held_the_old_index_starts_over_and_its_rows_count_once() -> None:
    made = worn()
    old = made.open()
    old.poll()
    lose(made)
    bring_back(made)
    assert old.append(rows("g")).version == JUMP + 2
    assert made.found() == WITH_LISTED + rows_of("g")
    reader = made.open()
    assert reader.log.state.version == JUMP + 2


def test_a_payload_that_was_on_its_way_is_refused_and_its_block_comes_in_above() -> None:
    """The writer has created its entry in the old index when the rebuild happens, before it looks
    at the boundary."""
    made = damaged_entry(worn())
    made.bucket.put(entry_key(6), made_entry6(worn()))
    faulty = FaultyBucket(made.bucket)
    table = made.open(faulty)

    def strike(call: object) -> None:
        if getattr(call, "method", "") == "put_if_absent" and "index/0" in getattr(call, "key", ""):
            faulty.after.clear()
            made.bucket.put(entry_key(6), b"garbage")
            bring_back(made)

    faulty.after.append(strike)
    answer = table.append(rows("g"))
    assert answer.published
    assert made.found() == WITH_LISTED + rows_of("g")


def made_entry6(made: Care) -> bytes:
    return made.bucket.get(entry_key(6)).data


def test_who_held_a_role_is_fenced() -> None:
    made = worn()
    log = made.open().log
    held = claim(log, made.world, COMPACTOR)
    write_checkpoint(made.bucket, log.state)
    made.append("g")
    made.append("h")
    made.bucket.delete([entry_key(9)])
    bring_back(made)
    change = Append(commit=ulid(77), blocks=(dataclasses.replace(block(77), time_column="at"),))
    change.role, change.epoch = COMPACTOR, held.epoch
    with pytest.raises(Fenced):
        log.commit(change)


def test_a_writer_that_stalled_commits_nothing_that_a_cleaner_of_before_may_be_removing() -> None:
    """The horizon is lost with the index: a cleaner that knew it goes on, and asks no index again
    before it removes."""
    made = worn()
    stalled = made.world.ids.ulid()
    copy_block(made, made.blocks["f"], stalled, visible_by=VisibleBy.INDEX, sources=(stalled,))
    made.world.clock.sleep(72 * 3600)
    young = made.world.ids.ulid()
    copy_block(made, made.blocks["f"], young, visible_by=VisibleBy.INDEX, sources=(young,))
    lose(made)
    bring_back(made, stalled, young)
    log = made.open().log
    assert log.poll().horizon == ulid_at(made.bucket.now_ms() - 48 * 3600 * 1000)
    with pytest.raises(BlockCondemned):
        log.commit(Append(commit=made.world.ids.ulid(), blocks=(load_meta(made.bucket, stalled),)))
    log.commit(Append(commit=made.world.ids.ulid(), blocks=(load_meta(made.bucket, young),)))
    assert log.poll().blocks.ulids().count(young) == 1


def test_two_rebuilds_at_once_make_one_index() -> None:
    made = lose(worn())
    first, second = plan(made), plan(made)
    rebuild(made.bucket, made.world, first)
    with pytest.raises(Conflict, match="another process is rebuilding"):
        rebuild(made.bucket, made.world, second)
    assert made.found() == WITH_LISTED


# -- wherever it dies


def lost_boundary(made: Care) -> Care:
    made.bucket.delete([BOUNDARY])
    return made


def lost_with_boundary_kept(made: Care) -> Care:
    return lose(made, boundary=False)


LOSSES: dict[str, tuple[Callable[[Care], Care], Rows]] = {
    "boundary": (lost_boundary, ALL),
    "entry": (damaged_entry, WITH_LISTED),
    "index": (lost_with_boundary_kept, WITH_LISTED),
    "everything": (lose, WITH_LISTED),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_rebuild_that_dies_anywhere_is_carried_on_and_each_row_is_read_once(name: str) -> None:
    damage, expected = LOSSES[name]
    ready = damage(worn())
    whole = ready.copy()
    counting = FaultyBucket(whole.bucket)
    rebuild(counting, whole.world, plan_rebuild(counting, whole.world))
    assert whole.found() == expected
    for fault, call in crash_points(counting.calls):
        made = ready.copy()
        tally("crash points")
        argument = {call.number} if fault == "lose_answer" else call.number
        faulty = FaultyBucket(made.bucket, **{fault: argument})  # type: ignore[arg-type]
        point = f"{name}: {fault} {call}"
        try:
            rebuild(faulty, made.world, plan_rebuild(faulty, made.world))
        except (Killed, BlockstoreError):
            pass
        if not unreadable(made):
            assert made.found() == expected, point
        if not is_complete(made):
            bring_back(made)
        assert made.found() == expected, point
        assert made.verify().findings == (), point
        made.append("after")
        assert made.found() == expected + rows_of("after"), point


def test_planted_the_boundary_before_the_state_loses_what_the_state_knew() -> None:
    """Why the checkpoint comes first: a process that died between the two would leave a boundary
    above all evidence."""
    made = worn()
    made.hide(made.blocks["b"])
    made.append("g")
    made.append("h")
    made.bucket.delete([entry_key(9)])
    kept = made.copy()
    bring_back(kept)
    assert kept.found() == WITH_LISTED + rows_of("g", "h") - rows_of("b")
    made.bucket.put(BOUNDARY, str(JUMP).encode())
    bring_back(made)
    assert made.found() == WITH_LISTED + rows_of("g", "h")


def is_complete(made: Care) -> bool:
    """Whether the rebuild had come to its end."""
    return not unreadable(made) and not made.verify().errors


def copy_block(made: Care, source: str, ulid: str, **changes: object) -> None:
    meta = load_meta(made.bucket, source)
    for file in meta.files:
        made.bucket.put(
            object_key(ulid, file.path), made.bucket.get(object_key(source, file.path)).data
        )
    made.bucket.put(meta_key(ulid), encode(dataclasses.replace(meta, ulid=ulid, **changes)))  # type: ignore[arg-type]


def test_the_state_that_it_begins_with_remembers_no_commit_and_knows_every_write() -> None:
    made = lose(worn())
    bring_back(made)
    state = decode_checkpoint(made.bucket.get(checkpoint_key(JUMP)).data, version=JUMP)
    assert len(state.commits) == 0
    assert set(state.accounted.held(made.blocks.values())) == set(made.blocks.values())
    assert Log(made.bucket, World.manual()).poll().version == JUMP + 1


# -- whatever happened before


@pytest.mark.parametrize("seed", range(12))
def test_after_any_history_of_appends_jobs_and_merges_every_row_comes_back_once(seed: int) -> None:
    """Aborted uploads, merges that lost their race, jobs, checkpoints and entries lost at random:
    nothing is lost or doubled."""
    draw = random.Random(seed)
    made = worn()
    expected = made.found()
    for number in range(draw.randint(4, 9)):
        act = draw.choice(
            ["append", "job", "aged", "merge", "stale merge", "aborted", "checkpoint"]
        )
        name = f"w{number}"
        if act == "append":
            made.append(name)
            expected += rows_of(name)
        elif act == "job":
            made.append(name, job=Job(app="nightly", batch=number))
            expected += rows_of(name)
        elif act == "aged":
            made.append(name, publish=False)
        elif act == "merge":
            made.compact()
        elif act == "stale merge":
            stale_merge(made)
        elif act == "aborted":
            made.bucket.put(object_key(made.world.ids.ulid(), "chunks/000001.parquet"), b"x")
        else:
            write_checkpoint(made.bucket, made.open().log.poll())
        made.world.clock.sleep(draw.choice([1, 600, 7200]))
    aged = {writer for writer in made.blocks if writer not in {name for name, _ in expected}}
    latest = made.open().log.poll().version
    loss = draw.choice(["everything", "index", "hole", "garbage", "boundary"])
    if loss in ("hole", "garbage"):
        entry = draw.randint(2, latest)
        made.bucket.put(entry_key(entry), b"{") if loss == "garbage" else made.bucket.delete(
            [entry_key(entry)]
        )
    else:
        {"everything": lose, "index": lost_with_boundary_kept, "boundary": lost_boundary}[loss](
            made
        )
    if not unreadable(made):
        return  # a checkpoint bridges the gap, or the latest entry left no trace
    found = plan(made)
    assert found.stops == (), (seed, loss)
    rebuild(made.bucket, made.world, found)
    rebuilt = made.found()
    assert rebuilt in (expected, expected + rows_of(*sorted(aged))), (seed, loss)
    assert not made.verify(deep=True).errors, (seed, loss)


def stale_merge(made: Care) -> None:
    """A merge that is complete when its inputs have been merged by another: debris that looks like
    a merge."""
    live = [block.meta for block in made.open().log.poll().blocks if not block.meta.labels][:2]
    if len(live) == 2:
        made.forge_merge(made.world.ids.ulid(), made, live, 0, visible_by=VisibleBy.INDEX)
        made.compact()
