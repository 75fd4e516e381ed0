"""The index of format version 1 stays readable for ever: its entries, its checkpoint, and the state
they make."""

from __future__ import annotations

from pathlib import Path

import pytest

from blockstore.bucket.local import LocalBucket
from blockstore.format import Job
from blockstore.format.meta import load_meta
from blockstore.index.checkpoint import decode_checkpoint, encode_checkpoint
from blockstore.index.checkpoint_name import NamedCheckpoint, read_hint
from blockstore.index.entry import decode_entry, encode_entry
from blockstore.index.fold import fold
from blockstore.index.log import Log
from blockstore.index.state import State
from blockstore.names import checkpoint_key, entry_key
from blockstore.world import World

WORLD = World.manual()
BUCKET = LocalBucket(Path(__file__).parent / "v1", WORLD.clock, durable=False)
OPERATIONS = [
    "create",
    "append",
    "append",
    "compact",
    "rewrite",
    "revert",
    "tag",
    "epoch",
    "horizon",
]


@pytest.fixture
def log() -> Log:
    return Log(BUCKET, WORLD)


def test_the_history_reads_as_it_was_written(log: Log) -> None:
    entries = list(log.entries())
    assert [entry.operation for entry in entries] == OPERATIONS
    assert [entry.time for entry in entries] == [1_700_000_000_000 + 1_000 * at for at in range(9)]
    assert entries[1].job == Job(app="nightly", batch=17)
    assert entries[1].message == "the first load"
    assert entries[2].add[0].sources is not None, (
        "it was uploaded again: its source is not its own name"
    )
    assert entries[3].add[0].sources is None, "the union over its parents"
    assert len(entries[4].add[0].meta.sources) == 1_001
    assert entries[4].parameters == {"why": "adopted"}
    assert {entry.by for entry in entries} == {"golden, blockstore, 0.1.0"}


def test_the_state_is_what_the_operations_made(log: Log) -> None:
    state = log.state
    assert state.version == 9
    blocks = {block.meta.level: block for block in state.blocks}
    merged, many = blocks[2], blocks[3]
    assert len(state.blocks) == 2
    assert load_meta(BUCKET, merged.ulid).sources == merged.meta.sources
    assert load_meta(BUCKET, many.ulid).sources == many.meta.sources
    assert merged.excepted == {log.at(2).blocks.ulids()[0]}
    assert (merged.version, merged.first_row_id, many.version) == (4, 7, 5)
    assert state.tags == {"before": 4}
    assert state.epochs["compactor"][0] == 1
    assert state.horizon == state.floor == "01HF0000000000000000000000"
    assert state.committed(Job(app="nightly", batch=17))
    assert "01HE0000000000000000000000" not in state.accounted, "the floor has passed it"
    assert all(source in state.accounted for source in (*merged.meta.sources, *many.meta.sources))


def test_the_checkpoint_equals_the_fold(log: Log) -> None:
    assert read_hint(BUCKET) == NamedCheckpoint(id=4)
    stored = decode_checkpoint(BUCKET.get(checkpoint_key(4)).data, version=4)
    folded = State.EMPTY
    for entry in log.entries():
        folded = fold(folded, entry)
        if entry.id == 4:
            assert stored == folded
            assert decode_checkpoint(encode_checkpoint(folded), version=4) == stored
    assert folded == log.state


def test_entries_are_written_today_as_they_were_then() -> None:
    """The bytes of version 1 are fixed: other programs may compare them."""
    for number in range(1, 10):
        data = BUCKET.get(entry_key(number)).data
        assert encode_entry(decode_entry(data, entry_id=number)) == data
