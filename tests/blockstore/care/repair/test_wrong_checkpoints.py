"""A checkpoint that can be read and holds fewer blocks than were live: nobody believes it, and it
is made again while it can be.

Its pages are whole and its JSON is the one that was written: what a flipped bit in the footer makes
of it.
"""

from __future__ import annotations

import logging

import pytest

from blockstore.care.repair.plan import plan_repair
from blockstore.care.repair.run import carry_out
from blockstore.care.repair.step import RepairOptions, StepKind
from blockstore.errors import Corrupt
from blockstore.index.checkpoint import decode_checkpoint, encode_checkpoint
from blockstore.index.checkpoint_name import name_of, read_hint
from blockstore.index.checkpoint_write import write_checkpoint
from blockstore.index.gc import collect
from blockstore.index.tags import tag
from blockstore.names import BOUNDARY, checkpoint_key, deletion_mark_key, entry_key
from tests.blockstore.care.scene import Care, worn
from tests.support.lying import lie


def collected() -> Care:
    """A table whose entries up to the boundary are gone, and two entries above it."""
    made = worn()
    made.collect()
    assert int(made.bucket.get(BOUNDARY).data) == 6
    assert made.objects("index/0") == [entry_key(7), entry_key(8)]
    return made


def test_no_reader_takes_its_rows_for_the_table() -> None:
    made = collected()
    lie(made.bucket, 6)
    with pytest.raises(Corrupt, match=r"checkpoint 6 .*blockstore repair .*index rebuild"):
        made.found()


def test_a_reader_begins_below_it_while_the_entries_are_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = worn()
    whole = made.found()
    write_checkpoint(made.bucket, made.open().log.poll())
    lie(made.bucket, 7)
    with caplog.at_level(logging.WARNING):
        assert made.found() == whole
    assert "checkpoint 7" in caplog.text
    lie(made.bucket, 5)
    assert made.found() == whole, "from the first entry on"


def test_verify_finds_it_after_the_entries_were_collected() -> None:
    made = collected()
    write_checkpoint(made.bucket, made.open().log.at(8))
    assert not made.verify().errors
    lie(made.bucket, 6)
    for deep in (False, True):
        (found,) = made.verify(deep=deep).errors
        assert (found.object, str(found.check)) == (checkpoint_key(6), "checkpoint")


def test_a_repair_makes_it_again_from_the_entries_and_the_hint_names_its_bytes() -> None:
    made = worn()
    write_checkpoint(made.bucket, made.open().log.poll())
    good = made.bucket.get(checkpoint_key(7)).data
    lie(made.bucket, 7)
    found = plan_repair(made.bucket, made.world, None, RepairOptions())
    assert [step.kind for step in found.steps] == [StepKind.CHECKPOINT]
    assert [one.failed for one in carry_out(made.bucket, None, found)] == [False]
    assert decode_checkpoint(
        made.bucket.get(checkpoint_key(7)).data, version=7
    ) == decode_checkpoint(good, version=7)
    assert read_hint(made.bucket) == name_of(7, made.bucket.get(checkpoint_key(7)).data)
    assert not made.verify().errors


def test_the_collector_compares_it_with_its_own_fold_and_deletes_nothing() -> None:
    made = worn()
    made.world.clock.sleep(49 * 3600)
    made.append("latest")
    state = made.open().log.at(6)
    made.bucket.put(checkpoint_key(6), encode_checkpoint(state))
    lie(made.bucket, 6)
    before = made.objects()
    with pytest.raises(Corrupt, match="checkpoint 6"):
        collect(made.open().log, made.world)
    assert made.objects() == before
    assert int(made.bucket.get(BOUNDARY).data) == 0


def test_the_collector_goes_on_past_one_at_the_boundary_once_a_newer_one_is_whole() -> None:
    made = collected()
    whole = made.found()
    write_checkpoint(made.bucket, made.open().log.poll())
    lie(made.bucket, 6)
    assert made.found() == whole
    for writer in ("g", "h", "i"):
        made.append(writer)
        made.world.clock.sleep(49 * 3600)
    done = collect(made.open().log, made.world)
    assert (done.before, done.boundary, done.checkpoints) == (6, 10, 2)
    assert not made.verify().errors


def test_no_tag_is_set_upon_it() -> None:
    """Once the entries are collected it would be all that is left of the version."""
    made = worn()
    lie(made.bucket, 5)
    with pytest.raises(Corrupt, match="checkpoint 5"):
        tag(made.open().log, made.world, "close", 5)
    assert made.open().log.poll().tags == {}


def test_a_tagged_version_is_not_read_from_it() -> None:
    made = worn()
    tag(made.open().log, made.world, "close", 5)
    made.collect()
    assert made.open().snapshot(tag="close").version == 5
    lie(made.bucket, 5)
    with pytest.raises(Corrupt, match="checkpoint 5"):
        made.open().snapshot(tag="close")
    (found,) = made.verify().errors
    assert str(found.check) == "tag"


def test_no_merge_is_made_on_its_word() -> None:
    made = collected()
    lie(made.bucket, 6)
    before = made.objects()
    with pytest.raises(Corrupt):
        made.compact()
    assert made.objects() == before
    assert deletion_mark_key(made.blocks["d"]) not in before
