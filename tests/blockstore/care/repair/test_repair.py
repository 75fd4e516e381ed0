"""``repair``: what is mended from which bytes, what it costs, and that it may die anywhere and be
run again."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from blockstore.bucket.api import Bucket, ReadBucket
from blockstore.care.marks import Marker
from blockstore.care.repair import Done, RepairOptions, RepairPlan, StepKind, carry_out, plan_repair
from blockstore.care.repair.target import Target
from blockstore.errors import BlockstoreError, Conflict, Invalid, NotFound
from blockstore.format.definition import Definition
from blockstore.format.marks import MarkReason
from blockstore.format.meta import load_meta
from blockstore.ids import ulid_at
from blockstore.index.change import RaiseWatermarks
from blockstore.index.checkpoint_write import write_checkpoint
from blockstore.index.epochs import COMPACTOR, claim
from blockstore.lifecycle.mark import place_deletion
from blockstore.names import (
    checkpoint_key,
    deletion_mark_key,
    entry_key,
    meta_key,
    no_compact_mark_key,
    object_key,
)
from blockstore.operations.unindexed import Unindexed
from blockstore.table import Table
from tests.blockstore.care.scene import SCHEMA, Care, rows, rows_of, worn
from tests.support.faulty import Call, FaultyBucket, Killed, crash_points
from tests.support.tally import tally

pytestmark = pytest.mark.usefixtures("decoded_once")

ALL = rows_of("a", "b", "c", "d", "e")


def target(made: Care, bucket: Bucket | None = None) -> Target:
    own = bucket or made.bucket
    table = Table.open_bucket(own, made.world, discovery=None)
    return Target(
        bucket=own,
        world=made.world,
        log=table.log_or_none,
        definition=table.definition,
        catalog=table.catalog,
    )


def plan(made: Care, **wishes: object) -> RepairPlan:
    return plan_repair(made.bucket, made.world, target(made), RepairOptions(**wishes))  # type: ignore[arg-type]


def repair(
    made: Care, bucket: Bucket | None = None, *, wait: bool = False, **wishes: object
) -> list[Done]:
    own = bucket or made.bucket
    on = target(made, own)
    found = plan_repair(own, made.world, on, RepairOptions(**wishes))  # type: ignore[arg-type]
    return list(carry_out(own, on, found, wait=wait))


def damage(made: Care, ulid: str, number: int = 0) -> str:
    """Flip a byte in a chunk."""
    key = object_key(ulid, load_meta(made.bucket, ulid).chunks[number].path)
    made.edit(key, lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:])
    return key


def test_a_healthy_table_needs_nothing() -> None:
    assert plan(worn()).steps == ()
    (step,) = plan(worn(), blocks=(worn().blocks["d"],)).steps
    assert (step.kind, "nothing to repair" in step.what) == (StepKind.PERSON, True)


def test_a_damaged_block_is_only_told_of_where_nobody_has_its_bytes() -> None:
    made = worn()
    damage(made, made.merged())
    before = made.objects()
    (step,) = plan(made, deep=True).steps
    assert step.kind is StepKind.PERSON
    assert "--from URL" in step.what
    assert "6 of its 12 rows" in step.what
    assert repair(made, deep=True) == []
    assert made.objects() == before


@pytest.mark.parametrize("which", ["merged", "d"])
def test_a_damaged_live_block_is_replaced_from_a_replica(which: str) -> None:
    made = worn()
    replica = made.copy()
    ulid = made.merged() if which == "merged" else made.blocks[which]
    old = load_meta(made.bucket, ulid)
    damage(made, ulid)
    (done,) = repair(made, blocks=(ulid,), replica=replica.bucket)
    assert not done.failed
    assert done.step.rows_lost == 0
    assert "1 in the replica" in done.step.what
    assert made.found() == ALL
    new = made.open().log.state.blocks.get(done.ulid or "")
    assert new is not None
    assert (new.meta.sources, new.meta.revision) == (old.sources, old.revision + 1)
    assert made.is_sound()
    entry = next(iter(made.open().log.entries(done.version)))
    assert (str(entry.operation), entry.parameters) == ("rewrite", {"reason": "repair"})


def test_a_replica_that_is_damaged_as_well_is_not_believed() -> None:
    made = worn()
    replica = made.copy()
    damage(made, made.blocks["d"])
    damage(replica, made.blocks["d"])
    (step,) = plan(made, blocks=(made.blocks["d"],), replica=replica.bucket).steps
    assert step.kind is StepKind.PERSON


def test_rows_are_dropped_only_when_that_is_asked_for_and_said() -> None:
    made = worn()
    damage(made, made.merged(), 1)
    (step,) = plan(made, blocks=(made.merged(),), drop_damaged=True).steps
    assert (step.kind, step.rows_lost) == (StepKind.REWRITE, 6)
    assert "6 of its 12 rows are lost" in step.what
    repair(made, blocks=(made.merged(),), drop_damaged=True)
    assert not made.found() - ALL
    assert sum((ALL - made.found()).values()) == 6
    assert made.is_sound()


def test_a_block_of_which_nothing_is_left_leaves_the_table() -> None:
    made = worn()
    ulid = made.blocks["d"]
    made.bucket.delete([key for key in made.objects(ulid) if key.endswith(".parquet")])
    (done,) = repair(made, blocks=(ulid,), drop_damaged=True)
    assert (done.ulid, done.step.rows_lost) == (None, 4)
    assert made.found() == rows_of("a", "b", "c", "e")


def test_a_lost_or_changed_meta_json_of_a_live_block_is_mended_from_the_block_s_own_chunks() -> (
    None
):
    made = worn()
    made.bucket.delete([meta_key(made.blocks["d"])])
    made.edit(meta_key(made.blocks["e"]), lambda data: data[:60])
    done = repair(made)
    assert [one.step.kind for one in done] == [StepKind.REWRITE, StepKind.REWRITE]
    assert made.found() == ALL


def test_wrong_statistics_and_unsorted_rows_are_mended_from_the_same_bytes() -> None:
    made = worn()
    made.forge_statistics(
        made.blocks["d"], b'"row":{"min":1,"max":1,"nulls":0}', b'"row":{"min":9,"max":9,"nulls":0}'
    )
    assert [str(one.check) for one in made.verify(deep=True)] != []
    assert [one.step.kind for one in repair(made, deep=True)] == [StepKind.REWRITE]
    assert made.found() == ALL
    assert made.is_sound()


def test_rows_that_a_revert_hides_do_not_come_back_by_a_repair() -> None:
    made = worn()
    replica = made.copy()
    made.hide(made.blocks["b"])
    damage(made, made.merged())
    repair(made, blocks=(made.merged(),), replica=replica.bucket)
    assert made.found() == rows_of("a", "c", "d", "e")


def test_what_was_merged_meanwhile_is_told_and_the_others_are_mended() -> None:
    made = worn()
    replica = made.copy()
    damage(made, made.blocks["d"])
    damage(made, made.blocks["e"])
    on = target(made)
    found = plan_repair(
        made.bucket,
        made.world,
        on,
        RepairOptions(blocks=(made.blocks["d"], made.blocks["e"]), replica=replica.bucket),
    )
    made.expire(made.blocks["d"])
    first, second = carry_out(made.bucket, on, found)
    assert (first.failed, second.failed) == (True, False)
    assert "changed since" in first.summary
    assert made.found() == rows_of("a", "b", "c", "e")


def test_a_damaged_block_that_no_entry_names_is_uploaded_again_and_published() -> None:
    made = worn()
    replica = made.copy()
    ulid = made.blocks["f"]
    damage(made, ulid)
    (done,) = repair(made, blocks=(ulid,), replica=replica.bucket)
    assert done.version is not None
    assert made.found() == ALL + rows_of("f")
    block = made.open().log.state.blocks.get(done.ulid or "")
    assert block is not None
    assert (block.meta.sources, block.meta.revision) == ((ulid,), 1)


def test_a_block_whose_meta_json_nobody_can_read_is_the_person_s() -> None:
    made = worn()
    made.edit(meta_key(made.blocks["f"]), lambda data: b"{")
    made.world.clock.sleep(3600)
    (step,) = plan(made, blocks=(made.blocks["f"],)).steps
    assert "its meta.json is lost" in step.what
    replica = worn()
    (done,) = repair(made, blocks=(made.blocks["f"],), replica=replica.bucket)
    assert made.found() == ALL + rows_of("f")
    assert done.ulid


def test_a_garbage_checkpoint_is_written_again_also_where_the_table_cannot_be_opened() -> None:
    made = worn()
    good = made.bucket.get(checkpoint_key(5)).data
    made.bucket.put(checkpoint_key(5), b"garbage")
    assert made.found() == ALL, "readers begin below it"
    found = plan_repair(made.bucket, made.world, None, RepairOptions())
    assert [step.kind for step in found.steps] == [StepKind.CHECKPOINT]
    assert [one.failed for one in carry_out(made.bucket, None, found)] == [False]
    assert made.bucket.get(checkpoint_key(5)).data == good
    assert made.found() == ALL


def test_a_tag_s_checkpoint_above_the_boundary_is_written_again() -> None:
    made = worn()
    made.tag("close", 5)
    good = made.bucket.get(checkpoint_key(5)).data
    made.bucket.delete([checkpoint_key(5)])
    repair(made)
    assert made.bucket.get(checkpoint_key(5)).data == good


@pytest.mark.parametrize("readable", [True, False])
def test_a_tag_s_checkpoint_is_written_again_also_where_the_table_cannot_be_opened(
    readable: bool,
) -> None:
    made = worn()
    made.tag("close", 5)
    good = made.bucket.get(checkpoint_key(5)).data
    write_checkpoint(made.bucket, made.open().log.at(6))
    made.append("g")
    made.bucket.delete([checkpoint_key(5)])
    made.edit(entry_key(9), lambda data: b"{")
    if not readable:
        made.edit(entry_key(3), lambda data: b"{")
    with pytest.raises(BlockstoreError):
        made.open()
    found = plan_repair(made.bucket, made.world, None, RepairOptions())
    done = list(carry_out(made.bucket, None, found))
    assert [one.failed for one in done] == ([False] if readable else [])
    if readable:
        assert made.bucket.get(checkpoint_key(5)).data == good
    else:
        assert any("with untag" in step.what for step in found.steps)


def test_what_only_a_person_can_mend_is_told_with_the_command() -> None:
    made = worn()
    made.bucket.put("notes.txt", b"")
    made.append("d")
    told = {step.object: step.what for step in plan(made).steps}
    assert set(told) == {"notes.txt", made.blocks["d"]}
    assert "blockstore revert" in told[made.blocks["d"]]
    assert not plan(made).acts


def test_names_that_are_none_and_blocks_that_are_not_there_are_refused() -> None:
    made = worn()
    with pytest.raises(Invalid, match="not a block name"):
        RepairOptions(blocks=("../x",))
    with pytest.raises(NotFound, match="no block"):
        plan(made, blocks=(made.world.ids.ulid(),))


def test_what_a_tag_names_is_put_back_byte_for_byte() -> None:
    made = worn()
    made.open().tag("close")
    made.open().delete("writer = 'd' and row = 1")
    made.collect()
    replica, ulid = made.copy(), made.blocks["d"]
    whole = {key: made.bucket.get(key).data for key in made.objects(ulid)}
    damage(made, ulid)
    _, *others = made.objects(ulid)
    made.bucket.delete(others)
    for wishes in ({"deep": True}, {"blocks": (ulid,)}):
        (step,) = plan(made, **wishes).steps
        assert (step.kind, step.object) == (StepKind.PERSON, ulid)
        assert "untag memory:// close" in step.what
    bad = replica.copy()
    for number in range(2):
        damage(bad, ulid, number)
    (step,) = plan(made, blocks=(ulid,), replica=bad.bucket).steps
    assert "are lost" in step.what or "is lost" in step.what
    before = made.found()
    (done,) = repair(made, deep=True, replica=replica.bucket)
    assert (done.step.kind, done.failed) == (StepKind.PUT_BACK, False)
    assert {key: made.bucket.get(key).data for key in made.objects(ulid)} == whole
    assert made.found() == before
    assert made.open().snapshot(tag="close").scan().to_table().num_rows == 20
    assert made.is_sound()
    (step,) = plan(made, blocks=(ulid,), replica=replica.bucket).steps
    assert (step.kind, "nothing to repair" in step.what) == (StepKind.PERSON, True)


def test_what_a_tag_names_and_was_written_with_a_fault_is_the_person_s() -> None:
    made = worn()
    ulid = made.open().append(rows("long", 12)).ulid or ""
    path = load_meta(made.bucket, ulid).chunks[0].path
    made.forge_chunk(ulid, path, lambda table: table.take([*reversed(range(table.num_rows))]))
    made.open().tag("close")
    made.open().delete("writer = 'long'")
    made.collect()
    raise_floor(made)
    steps = [step for step in plan(made, deep=True).steps if step.object.startswith(ulid)]
    assert steps
    for step in steps:
        assert (step.kind, step.object) == (StepKind.PERSON, object_key(ulid, path))
        assert step.what.startswith("tag 'close' names the block, and a file of it ")
        assert step.what.endswith("or blockstore untag memory:// close")


def test_what_a_repair_leaves_behind_is_no_error_of_the_version_before_it() -> None:
    made = worn()
    damage(made, made.blocks["d"])
    repair(made, blocks=(made.blocks["d"],), drop_damaged=True)
    assert [(str(one.severity), str(one.check)) for one in made.verify(deep=True)] == [
        ("note", "version")
    ]
    assert plan(made, deep=True).steps == ()


# -- adopting


def late(made: Care) -> str:
    """A block that lies below the floor by the time it is looked at."""
    ulid = made.append("late", publish=False)
    raise_floor(made)
    return ulid


def raise_floor(made: Care) -> None:
    """Days go by, and the floor is above all that was written."""
    made.world.clock.sleep(40 * 24 * 3600)
    log = made.open().log
    held = claim(log, made.world, COMPACTOR)
    floor = ulid_at(made.world.clock.now_ms() - 30 * 24 * 3600 * 1000)
    for change in (
        RaiseWatermarks(commit=made.world.ids.ulid(), epoch=held.epoch, horizon=floor),
        RaiseWatermarks(commit=made.world.ids.ulid(), epoch=held.epoch, floor=floor),
    ):
        log.commit(change)


def test_a_block_below_the_floor_is_adopted_as_a_new_write_once() -> None:
    made = worn()
    ulid = late(made)
    assert (str(made.verify().findings[0].check), made.verify().findings[0].block) == (
        "quarantine",
        made.blocks["f"],
    )
    (done,) = repair(made, adopt=(ulid,))
    assert made.found() == ALL + rows_of("late")
    block = made.open().log.state.blocks.get(done.ulid or "")
    assert block is not None
    assert (block.meta.sources, block.meta.level) == ((done.ulid,), 1)
    (again,) = repair(made, adopt=(ulid,))
    assert "before" in again.summary
    assert made.found() == ALL + rows_of("late")


def test_only_rows_that_the_index_does_not_account_for_are_adopted() -> None:
    made = worn()
    strange = merge_of(made, made, (made.blocks["d"], made.blocks["f"]), revision=0)
    made.bucket.delete(made.objects(made.blocks["f"]))
    (step,) = plan(made, adopt=(strange,)).steps
    assert "without those of 1 of its sources" in step.what
    repair(made, adopt=(strange,))
    assert made.found() == ALL + rows_of("f")
    known = merge_of(made, made, (made.blocks["d"], made.blocks["e"]), revision=0)
    with pytest.raises(Invalid, match="no rows to adopt"):
        plan(made, adopt=(known,))


def test_a_block_of_an_unknown_schema_is_adopted_by_name_or_refused_before_a_mark() -> None:
    made = worn()
    turned = pa.schema(list(reversed(list(SCHEMA))))
    found = {}
    for name, schema in (("turned", turned), ("other", pa.schema([*SCHEMA, ("more", pa.int64())]))):
        definition = Definition.create(schema, sort_by=["writer", "row"], time_column="at")
        own = Table(made.bucket, made.world, Unindexed(definition, given=True))
        data = (
            rows(name) if name == "turned" else rows(name).append_column("more", pa.array([1] * 4))
        )
        found[name] = own.append(data).ulid or ""
    made.world.clock.sleep(3600)
    assert {one.block for one in made.verify() if str(one.check) == "quarantine"} == set(
        found.values()
    )
    (done,) = repair(made, adopt=(found["turned"],))
    assert not done.failed
    (refused,) = repair(made, adopt=(found["other"],))
    assert (refused.failed, "'more'" in refused.summary) == (True, True)
    assert made.found() == ALL + rows_of("turned")
    assert [key for key in made.objects() if key.endswith("-mark.json")] == [
        deletion_mark_key(found["turned"])
    ]


def test_a_damaged_block_below_the_floor_is_a_person_s_and_the_others_are_mended() -> None:
    made = worn()
    ulid = late(made)
    replica = made.copy()
    damage(made, ulid)
    damage(made, made.blocks["e"])
    before = {key.partition("/")[0] for key in made.objects()}
    steps = {step.object: step for step in plan(made, replica=replica.bucket, deep=True).steps}
    assert steps[ulid].kind is StepKind.PERSON
    assert f"blockstore repair memory:// --adopt {ulid} --from REPLICA" in steps[ulid].what
    (done,) = repair(made, replica=replica.bucket, deep=True)
    assert (done.step.object, done.failed) == (made.blocks["e"], False)
    assert {key.partition("/")[0] for key in made.objects()} - before == {done.ulid}
    repair(made, adopt=(ulid,), replica=replica.bucket)
    assert made.found() == ALL + rows_of("late")


def test_the_copies_of_one_write_are_adopted_once() -> None:
    made = worn()
    ulid = late(made)
    copies = [merge_of(made, made, (ulid,), revision=number) for number in (1, 2)]
    done = [repair(made, adopt=(one,))[0] for one in (*copies, ulid)]
    assert len({one.ulid for one in done}) == 1
    assert ["before" in one.summary for one in done] == [False, True, True]
    assert made.found() == ALL + rows_of("late")


def test_a_block_of_whose_rows_a_part_was_adopted_is_refused() -> None:
    made = worn()
    ulid = late(made)
    both = merge_of(made, made, (made.blocks["f"], ulid), revision=1)
    repair(made, adopt=(ulid,))
    (done,) = repair(made, adopt=(both,))
    assert done.failed
    assert f"block {ulid}" in done.summary
    assert made.found() == ALL + rows_of("late")
    assert deletion_mark_key(both) not in made.objects()


def test_a_block_that_a_person_marked_is_not_adopted_and_a_live_one_neither() -> None:
    made = worn()
    ulid = late(made)
    place_deletion(made.bucket, made.world, ulid, MarkReason.MANUAL, "junk")
    (done,) = repair(made, adopt=(ulid,))
    assert done.failed
    assert "withdraw the mark first" in done.summary
    with pytest.raises(Invalid, match="is live"):
        plan(made, adopt=(made.blocks["d"],))
    with pytest.raises(Invalid, match="without an index"):
        plan(worn().without_index(), adopt=(ulid,))


# -- without an index


def unindexed() -> Care:
    return worn().without_index()


BY_AGE = rows_of("a", "b", "c", "d", "e", "f")


def test_without_an_index_a_repair_marks_waits_and_then_replaces() -> None:
    made = unindexed()
    replica = made.copy()
    ulid = made.blocks["d"]
    damage(made, ulid)
    (first,) = repair(made, blocks=(ulid,), replica=replica.bucket)
    assert first.ulid is None
    assert first.ready_ms == made.bucket.head(no_compact_mark_key(ulid)).modified_ms + 15 * 60_000
    assert len([key for key in made.objects() if key.endswith("meta.json")]) == 6
    made.world.clock.sleep(14 * 60)
    assert repair(made, blocks=(ulid,), replica=replica.bucket)[0].ulid is None
    made.world.clock.sleep(60)
    (done,) = repair(made, blocks=(ulid,), replica=replica.bucket)
    meta = load_meta(made.bucket, done.ulid or "")
    assert (meta.sources, meta.revision, meta.ignore_delay) == ((ulid,), 1, True)
    assert done.ready_ms == made.world.clock.now_ms() + 24 * 3600_000
    assert made.listed_rows() == BY_AGE
    (again,) = repair(made, blocks=(ulid,), replica=replica.bucket)
    assert "nothing to do" in again.summary


def test_it_waits_by_itself_if_told_to() -> None:
    made = unindexed()
    replica = made.copy()
    damage(made, made.blocks["d"])
    (done,) = repair(made, blocks=(made.blocks["d"],), replica=replica.bucket, wait=True)
    assert done.ulid
    assert made.listed_rows() == BY_AGE


def test_a_merge_that_was_running_when_it_began_does_not_bring_the_old_rows_back() -> None:
    """The merge takes the block's rows and its neighbor's, and ends while the repair waits."""
    made = unindexed()
    ulid, neighbor = made.blocks["d"], made.blocks["f"]
    before = made.copy()
    made.forge_statistics(
        ulid, b'"row":{"min":1,"max":1,"nulls":0}', b'"row":{"min":9,"max":9,"nulls":0}'
    )
    (first,) = repair(made, blocks=(ulid,))
    assert first.ulid is None
    merge_of(made, before, (made.blocks["d"], neighbor), revision=3)
    made.world.clock.sleep(2 * 3600)
    (done,) = repair(made, blocks=(ulid,))
    assert "nothing to do" in done.summary
    assert made.listed_rows() == BY_AGE


def test_a_repair_that_the_cover_does_not_choose_is_uploaded_again_above_it() -> None:
    made = unindexed()
    replica = made.copy()
    ulid = made.blocks["d"]
    damage(made, ulid)
    (done,) = repair(made, blocks=(ulid,), replica=replica.bucket, wait=True)
    assert plan(made).steps == ()
    strange = merge_of(made, replica, (made.blocks["d"], made.blocks["f"]), revision=1)
    made.world.clock.sleep(25 * 3600)
    (step,) = [step for step in plan(made).steps if step.acts]
    assert (step.kind, step.object) == (StepKind.RAISE, done.ulid)
    (raised,) = repair(made)
    assert load_meta(made.bucket, raised.ulid or "").revision == 2
    assert made.listed_rows() == BY_AGE
    made.world.clock.sleep(25 * 3600)
    assert not plan(made).acts
    assert strange


def test_rows_that_a_person_hides_while_a_repair_stands_still_do_not_come_back() -> None:
    """Before each request of the repair in turn: its machine sleeps, and the block is hidden by
    somebody else."""
    ready = unindexed()
    replica = ready.copy()
    ulid = ready.blocks["d"]
    damage(ready, ulid)

    def waited() -> Care:
        made = ready.copy()
        assert repair(made, blocks=(ulid,), replica=replica.bucket)[0].ready_ms is not None
        made.world.clock.sleep(20 * 60)
        return made

    made = waited()
    counting = FaultyBucket(made.bucket)
    assert repair(made, counting, blocks=(ulid,), replica=replica.bucket)[0].ulid is not None
    hidden = refused = 0
    for number in range(1, len(counting.calls) + 1):
        made = waited()
        faulty = FaultyBucket(made.bucket)
        outcomes: list[bool] = []

        def sleep_and_hide(
            call: Call, made: Care = made, at: int = number, told: list[bool] = outcomes
        ) -> None:
            if call.number == at:
                made.world.clock.sleep(3600)
                told.append(hides(made, ulid))

        faulty.before.append(sleep_and_hide)
        repair(made, faulty, blocks=(ulid,), replica=replica.bucket)
        tally("crash points")
        (was_hidden,) = outcomes
        hidden, refused = hidden + was_hidden, refused + (not was_hidden)
        made.world.clock.sleep(25 * 3600)
        assert made.listed_rows() == (BY_AGE - rows_of("d") if was_hidden else BY_AGE), number
    assert hidden > 10
    assert refused > 1, (
        "the repair was complete, and whoever hides its rows is told to hide that block"
    )


def hides(made: Care, ulid: str) -> bool:
    """Whether a person's mark hides the block; not where another block holds its rows."""
    on = target(made)
    marker = Marker(
        bucket=on.bucket,
        world=on.world,
        log=None,
        properties=on.definition.properties,
        catalog=on.catalog,
    )
    try:
        marker.delete(ulid, "not ours")
    except Conflict:
        return False
    return True


def test_without_an_index_columns_are_known_by_their_names_whoever_numbered_them() -> None:
    """Two writers who never met wrote the same columns in another order."""
    made = unindexed()
    turned = Definition.create(
        pa.schema(list(reversed(list(SCHEMA)))), sort_by=["writer", "row"], time_column="at"
    )
    own = Table(made.bucket, made.world, Unindexed(turned, given=True))
    ulid = own.append(rows("turned")).ulid or ""
    made.world.clock.sleep(3600)
    replica = made.copy()
    made.world.clock.sleep(3600)
    assert made.listed_rows() == BY_AGE + rows_of("turned")
    damage(made, ulid)
    (done,) = repair(made, blocks=(ulid,), replica=replica.bucket, wait=True)
    assert done.ulid
    assert made.listed_rows() == BY_AGE + rows_of("turned")
    assert not made.verify(deep=True).errors


def merge_of(made: Care, rows_from: Care, blocks: tuple[str, ...], *, revision: int) -> str:
    """A merge of these blocks as a compactor's that read them elsewhere, before they were
    damaged."""
    ulid = made.world.ids.ulid()
    parts = [load_meta(rows_from.bucket, one) for one in blocks]
    return made.forge_merge(ulid, rows_from, parts, revision)


# -- wherever it dies


def scene_live() -> tuple[Care, ReadBucket, dict[str, object]]:
    made = worn()
    replica = made.copy()
    damage(made, made.merged())
    return made, replica.bucket, {"blocks": (made.merged(),), "replica": replica.bucket}


def scene_quarantined() -> tuple[Care, ReadBucket, dict[str, object]]:
    made = worn()
    replica = made.copy()
    damage(made, made.blocks["f"])
    return made, replica.bucket, {"blocks": (made.blocks["f"],), "replica": replica.bucket}


def scene_adopt() -> tuple[Care, ReadBucket, dict[str, object]]:
    made = worn()
    return made, made.bucket, {"adopt": (late(made),)}


def scene_checkpoint() -> tuple[Care, ReadBucket, dict[str, object]]:
    made = worn()
    made.tag("close", 5)
    made.bucket.delete([checkpoint_key(5)])
    return made, made.bucket, {}


INDEXED: dict[str, tuple[Callable[[], tuple[Care, ReadBucket, dict[str, object]]], object]] = {
    "live": (scene_live, ALL),
    "quarantined": (scene_quarantined, ALL + rows_of("f")),
    "adopt": (scene_adopt, ALL + rows_of("late")),
    "checkpoint": (scene_checkpoint, ALL),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", INDEXED)
def test_a_repair_that_dies_anywhere_and_is_run_again_leaves_each_row_once(name: str) -> None:
    prepare, expected = INDEXED[name]
    ready, _, wishes = prepare()
    whole = ready.copy()
    counting = FaultyBucket(whole.bucket)
    repair(whole, counting, **wishes)
    assert whole.found() == expected
    for fault, call in crash_points(counting.calls):
        made = ready.copy()
        tally("crash points")
        argument = {call.number} if fault == "lose_answer" else call.number
        try:
            repair(made, FaultyBucket(made.bucket, **{fault: argument}), **wishes)  # type: ignore[arg-type]
        except (Killed, BlockstoreError):
            pass
        point = f"{name}: {fault} {call}"
        readable_once(made, expected, point)
        try:
            repair(made, **wishes)
        except (NotFound, Conflict):
            pass  # it was replaced before: there is no such live block any more
        assert made.found() == expected, point
        assert not made.verify(deep=fault == "kill_after").errors, point


def readable_once(made: Care, expected: object, point: str) -> None:
    """Before it is run again a reader sees the rows once, or is told of the damage; never other
    rows."""
    try:
        found = made.found()
    except BlockstoreError:
        return
    assert not found - expected, point  # type: ignore[operator]


def test_without_an_index_a_repair_that_dies_anywhere_and_is_run_again_leaves_each_row_once() -> (
    None
):
    ready = unindexed()
    replica = ready.copy()
    damage(ready, ready.blocks["d"])
    wishes = {"blocks": (ready.blocks["d"],), "replica": replica.bucket}
    whole = ready.copy()
    counting = FaultyBucket(whole.bucket)
    repair(whole, counting, wait=True, **wishes)
    for fault, call in crash_points(counting.calls):
        made = ready.copy()
        made.world.clock.sleep(3600)
        tally("crash points")
        argument = {call.number} if fault == "lose_answer" else call.number
        try:
            repair(made, FaultyBucket(made.bucket, **{fault: argument}), wait=True, **wishes)  # type: ignore[arg-type]
        except (Killed, BlockstoreError):
            pass
        point = f"{fault} {call}"
        repair(made, wait=True, **wishes)
        assert made.listed_rows() == BY_AGE, point
