"""The quarantine's mark goes once the block is whole, and never a mark that a person placed."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from blockstore.care.finding import Report
from blockstore.care.marks import marker as marking
from blockstore.care.repair import RepairOptions, StepKind, carry_out, plan_repair
from blockstore.compactor.plan.observe import observe
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.run.quarantine import DamageMarks
from blockstore.compactor.settings import Settings
from blockstore.format.marks import MarkReason, NoCompactReason, decode_no_compact_mark
from blockstore.format.meta import load_meta
from blockstore.ids import ulid_at
from blockstore.lifecycle.mark import place_deletion, place_no_compact
from blockstore.names import no_compact_mark_key, object_key
from tests.blockstore.care.marks.test_marker import listed, marker
from tests.blockstore.care.repair.test_repair import damage, plan, repair, target
from tests.blockstore.care.scene import Care, worn
from tests.compactor.scene import small_chunks
from tests.support.faulty import FaultyBucket, Killed

TABLES = {"indexed": worn, "by listing": lambda: worn().without_index()}


@pytest.fixture(params=TABLES)
def made(request: pytest.FixtureRequest) -> Care:
    return TABLES[request.param]()


def quarantine(made: Care, ulid: str, reason: NoCompactReason = NoCompactReason.MALFORMED) -> None:
    assert place_no_compact(
        made.bucket, made.world, ulid, reason, f"block {ulid}: torn: restore it from a copy"
    )


def is_marked(made: Care, ulid: str) -> bool:
    return no_compact_mark_key(ulid) in made.objects()


def waiting(made: Care) -> set[str]:
    """The blocks that the compactor's page and its metric show as quarantined."""
    seen = observe(made.open_any())
    marked = {block.ulid for block in seen.candidates if block.no_compact}
    return set(DamageMarks(made.bucket).look(marked, seen.damaged, "lake/t"))


def marks(report: Report) -> list[tuple[str, str, str]]:
    return [
        (str(one.severity), one.block or "", one.fix) for one in report if str(one.check) == "mark"
    ]


def foreign(table: pa.Table) -> pa.Table:
    """The same rows, as if another write had brought them."""
    place = table.schema.get_field_index("_source")
    named = pa.array([ulid_at(1)] * table.num_rows).cast(table.schema.field(place).type)
    return table.set_column(place, table.schema.field(place), named)


def put_back(made: Care, replica: Care, key: str) -> None:
    """As an operator copies a file."""
    made.bucket.put(key, replica.bucket.get(key).data)


def test_a_block_that_was_mended_by_hand_is_released_by_the_repair_that_finds_it_whole(
    made: Care,
) -> None:
    replica, ulid = made.copy(), made.blocks["d"]
    key = damage(made, ulid)
    quarantine(made, ulid)
    assert waiting(made) == {ulid}
    (step,) = plan(made, blocks=(ulid,)).steps
    assert step.kind is StepKind.PERSON
    put_back(made, replica, key)
    (step,) = plan(made, blocks=(ulid,)).steps
    assert step.kind is StepKind.UNMARK
    assert "torn" in step.what
    assert is_marked(made, ulid), "a plan changes nothing"
    (done,) = repair(made, blocks=(ulid,))
    assert (done.failed, done.ulid) == (False, ulid)
    assert not is_marked(made, ulid)
    assert waiting(made) == set()
    (step,) = plan(made, blocks=(ulid,)).steps
    assert (step.kind, "nothing to repair" in step.what) == (StepKind.PERSON, True)


@pytest.mark.parametrize("reason", [NoCompactReason.MANUAL, NoCompactReason.SIZE])
def test_a_mark_with_another_reason_stays(made: Care, reason: NoCompactReason) -> None:
    ulid = made.blocks["d"]
    quarantine(made, ulid, reason)
    for wishes in ({"blocks": (ulid,)}, {"deep": True}):
        assert not any(step.acts for step in plan(made, **wishes).steps)
        assert repair(made, **wishes) == []
    assert is_marked(made, ulid)
    assert marks(made.verify(deep=True)) == []


def test_a_mark_that_a_person_places_between_the_look_and_the_deed_stays() -> None:
    made = worn()
    ulid = made.blocks["d"]
    quarantine(made, ulid)
    on = target(made)
    found = plan_repair(made.bucket, made.world, on, RepairOptions(blocks=(ulid,)))
    made.bucket.delete([no_compact_mark_key(ulid)])
    quarantine(made, ulid, NoCompactReason.MANUAL)
    (done,) = carry_out(made.bucket, on, found)
    assert "nothing to do" in done.summary
    mark = decode_no_compact_mark(made.bucket.get(no_compact_mark_key(ulid)).data, ulid=ulid)
    assert mark.reason is NoCompactReason.MANUAL


def test_a_mark_that_cannot_be_read_is_the_person_s_with_the_command() -> None:
    made = worn()
    ulid = made.blocks["d"]
    made.bucket.put(no_compact_mark_key(ulid), b"{")
    (step,) = plan(made, blocks=(ulid,)).steps
    assert step.kind is StepKind.PERSON
    assert f"blockstore mark memory:// {ulid} --no-compact --remove" in step.what
    assert is_marked(made, ulid)


def test_a_block_with_rows_of_a_foreign_source_keeps_its_mark() -> None:
    made = worn()
    ulid = made.merged()
    made.forge_chunk(ulid, load_meta(made.bucket, ulid).chunks[0].path, foreign)
    quarantine(made, ulid)
    (step,) = plan(made, blocks=(ulid,)).steps
    assert step.kind is StepKind.PERSON
    assert is_marked(made, ulid)


@pytest.mark.parametrize("named", [True, False])
def test_after_a_repair_that_writes_the_rows_anew_nothing_waits_any_more(
    made: Care, named: bool
) -> None:
    replica, ulid = made.copy(), made.blocks["d"]
    damage(made, ulid)
    quarantine(made, ulid)
    made.world.clock.sleep(3600)
    wishes = {"blocks": (ulid,)} if named else {"deep": True}
    (done,) = repair(made, replica=replica.bucket, wait=True, **wishes)
    assert done.ulid not in (None, ulid)
    assert not is_marked(made, str(done.ulid))
    assert waiting(made) == set()
    assert marks(made.verify()) == []


def test_what_is_put_back_of_a_tag_s_block_is_released_for_the_day_it_is_restored() -> None:
    made = worn()
    made.open().tag("close")
    made.open().delete("writer = 'd' and row = 1")
    made.collect()
    replica, ulid = made.copy(), made.blocks["d"]
    key = damage(made, ulid)
    quarantine(made, ulid)
    other = object_key(ulid, load_meta(made.bucket, ulid).chunks[1].path)
    lacking = replica.copy()
    damage(made, ulid, 1)
    damage(lacking, ulid, 1)
    repair(made, blocks=(ulid,), replica=lacking.bucket)
    assert is_marked(made, ulid), "a part of it is lost still"
    assert made.bucket.get(key).data == replica.bucket.get(key).data
    repair(made, blocks=(ulid,), replica=replica.bucket)
    assert made.bucket.get(other).data == replica.bucket.get(other).data
    assert not is_marked(made, ulid)
    quarantine(made, ulid)
    repair(made, blocks=(ulid,))
    assert not is_marked(made, ulid)


def test_a_deep_look_names_what_is_whole_and_marked_and_a_deep_repair_releases_it(
    made: Care,
) -> None:
    ulid = made.blocks["d"]
    assert marks(made.verify(deep=True)) == []
    quarantine(made, ulid)
    expected = [("warning", ulid, f"blockstore repair memory:// --block {ulid}")]
    assert marks(made.verify(deep=True)) == expected
    (step,) = [one for one in plan(made, deep=True).steps if one.object == ulid]
    assert step.kind is StepKind.UNMARK
    repair(made, deep=True)
    assert not is_marked(made, ulid)
    assert marks(made.verify(deep=True)) == []


def test_a_fast_look_names_it_too_and_leaves_the_bytes_to_the_repair(made: Care) -> None:
    ulid = made.blocks["d"]
    quarantine(made, ulid)
    assert marks(made.verify()) == [
        ("warning", ulid, f"blockstore repair memory:// --block {ulid}")
    ]
    assert not any(step.acts for step in plan(made).steps)


def test_where_the_damage_itself_is_told_the_mark_is_not(made: Care) -> None:
    ulid = made.blocks["d"]
    damage(made, ulid)
    quarantine(made, ulid)
    assert marks(made.verify(deep=True)) == []
    made.bucket.delete([object_key(ulid, load_meta(made.bucket, ulid).chunks[0].path)])
    assert marks(made.verify()) == marks(made.verify(deep=True)) == []


def test_a_block_that_was_merged_since_is_not_named() -> None:
    made = worn()
    quarantine(made, made.blocks["a"])
    assert marks(made.verify(deep=True)) == []


def test_a_release_that_dies_anywhere_is_run_again() -> None:
    made = worn()
    ulid = made.blocks["d"]
    quarantine(made, ulid)
    counting = FaultyBucket(made.copy().bucket)
    repair(made.copy(), counting, blocks=(ulid,))
    for number in range(1, len(counting.calls) + 1):
        for fault in ("kill_before", "kill_after"):
            one = made.copy()
            with suppress(Killed):
                repair(one, FaultyBucket(one.bucket, **{fault: number}), blocks=(ulid,))  # type: ignore[arg-type]
            repair(one, blocks=(ulid,))
            assert not is_marked(one, ulid), (fault, number)


def test_a_released_block_is_merged_again() -> None:
    made = worn()
    ulid = made.blocks["d"]
    made.append("g")
    quarantine(made, ulid)
    made.compact()
    assert ulid in made.open().log.state.blocks
    repair(made, blocks=(ulid,))
    made.append("h")
    made.compact()
    assert ulid not in made.open().log.state.blocks


def test_a_person_who_wants_a_quarantined_block_kept_from_merges_takes_the_mark_over(
    made: Care,
) -> None:
    ulid = made.blocks["d"]
    quarantine(made, ulid)
    before = marked_ms(made, ulid)
    made.world.clock.sleep(7200)
    keeper = marker(made) if made.open_any().indexed else listed(made)
    taken = keeper.keep_from_merges(ulid, "I am looking at it")
    assert (taken.changed, keeper.keep_from_merges(ulid).changed) == (True, False)
    mark = decode_no_compact_mark(made.bucket.get(no_compact_mark_key(ulid)).data, ulid=ulid)
    assert mark.reason is NoCompactReason.MANUAL
    assert mark.details.startswith("I am looking at it; a merge had found it damaged: ")
    assert "torn" in mark.details
    assert marked_ms(made, ulid) >= before + 7_200_000, (
        "whoever waits by the mark waits from now on"
    )
    repair(made, blocks=(ulid,))
    assert is_marked(made, ulid)
    assert waiting(made) == set()


def test_a_block_hidden_while_it_was_quarantined_is_not_released_beneath_the_hiding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a merge could take it between the wait for merges and the mark that hides it."""
    made = worn().without_index()
    ulid = made.blocks["d"]
    quarantine(made, ulid)
    made.world.clock.sleep(7200)
    hide, stalls = marking.place_deletion, []

    def stalled(*args: object, **options: object) -> object:
        stalls.append(repair(made, blocks=(ulid,)))
        with small_chunks():
            compact_once(made.open_any(), Settings(tier_blocks=2, work_dir=tmp_path))
        return hide(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(marking, "place_deletion", stalled)
    for _ in range(3):
        listed(made).delete(ulid, "gone")
        made.world.clock.sleep(7200)
    assert len(stalls) == 1
    assert [one for one in made.listed_rows() if one[0] == "d"] == []


def test_a_marked_block_whose_bytes_no_deep_look_reads_is_not_called_whole() -> None:
    made = worn().without_index()
    ulid = made.blocks["d"]
    damage(made, ulid)
    quarantine(made, ulid)
    place_deletion(made.bucket, made.world, ulid, MarkReason.SUPERSEDED, "by another compactor")
    assert marks(made.verify(deep=True)) == []
    repair(made, deep=True)
    assert is_marked(made, ulid)


def marked_ms(made: Care, ulid: str) -> int:
    return made.bucket.head(no_compact_mark_key(ulid)).modified_ms
