"""A checkpoint equals the fold, whoever wrote it, or is Corrupt."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blockstore.bucket.memory import MemoryBucket
from blockstore.clock import ManualClock
from blockstore.errors import Corrupt
from blockstore.index import checkpoint as module
from blockstore.index.change import Append
from blockstore.index.checkpoint import decode_checkpoint, encode_checkpoint, read_hint, write_checkpoint
from blockstore.index.fold import fold
from blockstore.index.state import State
from blockstore.names import HINT, checkpoint_key
from tests.support.index_data import block, created, follow, history, ulid


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.data())
def test_a_fold_equals_the_fold_from_a_checkpoint(seed: int, data: st.DataObject) -> None:
    entries = history(seed, 25)
    at = data.draw(st.integers(1, len(entries)))
    state = loaded = State.EMPTY
    for one in entries:
        state, loaded = fold(state, one), fold(loaded, one)
        if one.id == at:
            loaded = decode_checkpoint(encode_checkpoint(state), version=at)
            assert loaded == state
    assert loaded == state
    assert encode_checkpoint(loaded) == encode_checkpoint(state), (
        "the content is a function of the version alone"
    )


def test_blocks_of_several_row_groups_are_taken_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_GROUP_ROWS", 4)
    state = follow(created(), Append(commit=ulid(1), blocks=tuple(block(n) for n in range(10, 33))))
    loaded = decode_checkpoint(encode_checkpoint(state), version=2)
    assert [one.ulid for one in loaded.blocks.take([22, 0, 9, 8])] == [ulid(n) for n in (32, 10, 19, 18)]
    assert loaded == state


def test_every_damaged_byte_is_corrupt_or_harmless() -> None:
    """Pages carry checksums, and nothing is believed: damage is found, or it hit a byte that says nothing."""
    state = follow(created(), Append(commit=ulid(1), blocks=(block(11), block(12))))
    data = encode_checkpoint(state)
    refused = 0
    for at in range(0, len(data), 7):
        damaged = data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]
        try:
            assert decode_checkpoint(damaged, version=2) == state
        except Corrupt as error:
            refused += "checkpoint" in str(error)
    assert refused > len(data) / 14


@pytest.mark.parametrize("data", [b"", b"PAR1", b"garbage" * 100], ids=["empty", "magic", "garbage"])
def test_garbage_is_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt, match=r"checkpoint 2 \(index/checkpoints/0+2\.parquet\)"):
        decode_checkpoint(data, version=2)


def test_a_parquet_file_of_another_kind_is_corrupt() -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": [1]}), sink)
    with pytest.raises(Corrupt, match="checkpoint 2"):
        decode_checkpoint(sink.getvalue().to_pybytes(), version=2)


def test_a_checkpoint_under_another_name_is_corrupt() -> None:
    with pytest.raises(Corrupt, match=r"checkpoint 3 .*version"):
        decode_checkpoint(encode_checkpoint(created()), version=3)


def test_it_is_written_once_and_the_hint_points_at_it() -> None:
    bucket = MemoryBucket(ManualClock())
    assert read_hint(bucket) == 0
    write_checkpoint(bucket, created())
    first = bucket.head(checkpoint_key(1))
    write_checkpoint(bucket, created())
    assert bucket.head(checkpoint_key(1)) == first
    assert read_hint(bucket) == 1


@pytest.mark.parametrize("data", [b"", b"7", b'{"checkpoint":-1}', b'{"checkpoint":"7"}', b"\xff"])
def test_a_garbled_hint_is_no_hint(data: bytes) -> None:
    bucket = MemoryBucket(ManualClock())
    bucket.put(HINT, data)
    assert read_hint(bucket) == 0
