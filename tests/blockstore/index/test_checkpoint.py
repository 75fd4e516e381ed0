"""A checkpoint equals the fold, by any writer, or is Corrupt."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
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
from blockstore.index.checkpoint import decode_checkpoint, encode_checkpoint
from blockstore.index.checkpoint_name import NamedCheckpoint, every, name_of, names_of, read_hint
from blockstore.index.checkpoint_write import write_checkpoint
from blockstore.index.content import content_of
from blockstore.index.fold import fold
from blockstore.index.rows import BULK, FRAME, LiveBlock
from blockstore.index.state import State
from blockstore.names import HINT, checkpoint_key
from tests.support.examples import few
from tests.support.index_data import block, created, follow, history, ulid
from tests.support.lying import lying


@settings(max_examples=few(40), deadline=None)
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
    assert [one.ulid for one in loaded.blocks.take([22, 0, 9, 8])] == [
        ulid(n) for n in (32, 10, 19, 18)
    ]
    assert loaded == state


@pytest.mark.parametrize(
    ("blocks", "entries"),
    [(0, 64), (131_071, 64), (131_072, 128), (262_144, 256), (524_288, 512), (10**8, 512)],
)
def test_a_checkpoint_of_a_large_table_is_due_less_often(blocks: int, entries: int) -> None:
    assert every(blocks) == entries


def test_few_row_groups_stay_decompressed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_GROUP_ROWS", 3)
    monkeypatch.setattr(module, "_GROUPS_KEPT", 2)
    state = of_blocks(20)
    found = decode_checkpoint(encode_checkpoint(state), version=state.version)
    rows = found.blocks.rows()
    bulk = rows._bulk
    assert isinstance(bulk, module._StoredBulk)
    for place in (0, 19, 7, 0, 1, 12, 7):
        assert rows.take([place])[0].ulid == ulid(10 + place)
        assert len(bulk._groups) <= 2
    kept = dict(bulk._groups)
    for asked in (range(20), range(0, 20, 4), range(5, 7), ()):
        places = np.array(asked, dtype=np.int64)
        assert [one.ulid for one in rows.each(places)] == [ulid(10 + place) for place in asked]
        assert bulk._groups == kept


def test_every_damaged_byte_is_corrupt_or_harmless() -> None:
    """Pages carry checksums, and nothing is believed: damage is found, or it hit a byte that says
    nothing."""
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


@pytest.mark.parametrize(
    "data", [b"", b"PAR1", b"garbage" * 100], ids=["empty", "magic", "garbage"]
)
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
    assert read_hint(bucket) is None
    write_checkpoint(bucket, created())
    first = bucket.head(checkpoint_key(1))
    write_checkpoint(bucket, created())
    assert bucket.head(checkpoint_key(1)) == first
    assert read_hint(bucket) == name_of(1, bucket.get(checkpoint_key(1)).data)


@pytest.mark.parametrize("data", [b"", b"7", b'{"checkpoint":-1}', b'{"checkpoint":"7"}', b"\xff"])
def test_a_garbled_hint_is_no_hint(data: bytes) -> None:
    bucket = MemoryBucket(ManualClock())
    bucket.put(HINT, data)
    assert read_hint(bucket) is None


def of_blocks(count: int) -> State:
    return follow(
        created(), Append(commit=ulid(1), blocks=tuple(block(10 + n) for n in range(count)))
    )


def test_rows_that_are_not_those_of_the_digest_are_corrupt() -> None:
    state = of_blocks(3)
    with pytest.raises(Corrupt, match="rows"):
        decode_checkpoint(lying(encode_checkpoint(state)), version=2)
    fewer = replace(
        state,
        blocks=state.blocks.changed(
            [ulid(10)], [LiveBlock(meta=block(13), version=2, first_row_id=0)]
        ),
    )
    with pytest.raises(Corrupt, match="SHA-256"):
        decode_checkpoint(swapped(encode_checkpoint(fewer), encode_checkpoint(state)), version=2)


def swapped(rows: bytes, rest: bytes) -> bytes:
    """The rows of one checkpoint under the hashed JSON of another, as many."""
    sink = pa.BufferOutputStream()
    table = pq.read_table(pa.BufferReader(rows))
    with pq.ParquetWriter(sink, table.schema, store_schema=False, use_dictionary=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(pq.read_metadata(pa.BufferReader(rest)).metadata)
    return sink.getvalue().to_pybytes()


def test_the_digest_is_one_of_values_however_the_file_is_packed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = of_blocks(23)
    plain = encode_checkpoint(state)
    monkeypatch.setattr(module, "_GROUP_ROWS", 4)
    monkeypatch.setitem(module._COMPRESSION, "compression_level", 9)
    other = encode_checkpoint(state)
    assert other != plain
    assert decode_checkpoint(other, version=2) == decode_checkpoint(plain, version=2) == state


def test_the_digest_is_what_the_page_about_the_format_says() -> None:
    """Computed value by value, as a reader in another language would."""
    for entries in (history(3, 25), history(4, 40), history(5, 1)):
        state = State.EMPTY
        for one in entries:
            state = fold(state, one)
        file = pq.ParquetFile(pa.BufferReader(encode_checkpoint(state)))
        rest = orjson.loads(file.metadata.metadata[b"blockstore"])
        table = file.read()
        assert (rest["blocks"], rest["content"]) == (table.num_rows, by_hand(table))


def by_hand(table: pa.Table) -> str:
    def number(value: int) -> bytes:
        return value.to_bytes(8, "little", signed=True)

    digests = b""
    for name in [*FRAME.names, *BULK.names]:
        values = table[name].to_pylist()
        if name in ("excepted", "sources"):
            items = [item.encode() for value in values for item in value or ()]
            parts = [
                b"".join(number(-1 if value is None else len(value)) for value in values),
                b"".join(number(len(item)) for item in items),
                b"".join(items),
            ]
        elif name == "own":
            parts = [bytes(values)]
        elif name in ("ulid", "stream", "visible_by", "meta"):
            texts = [value.encode() if isinstance(value, str) else value for value in values]
            parts = [b"".join(number(len(text)) for text in texts), b"".join(texts)]
        else:
            parts = [b"".join(map(number, values))]
        digests += b"".join(hashlib.sha256(part).digest() for part in parts)
    return hashlib.sha256(digests).hexdigest()


def test_bytes_that_fit_a_name_are_not_proven_again_and_others_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = of_blocks(3)
    data = encode_checkpoint(state)
    name = name_of(2, data)
    proofs: list[str] = []

    def counted(frame: pa.Table, bulk: Iterable[pa.Table]) -> str:
        proofs.append("proof")
        return content_of(frame, bulk)

    monkeypatch.setattr(module, "content_of", counted)
    assert decode_checkpoint(data, version=2, names=(name,)) == state
    assert proofs == []
    stale = replace(name, sha256="0" * 64)
    assert decode_checkpoint(data, version=2, names=(stale,)) == state, (
        "a repair may have written other bytes"
    )
    assert decode_checkpoint(data, version=2) == state
    assert len(proofs) == 2


def test_one_of_an_earlier_release_has_no_digest_and_only_its_names_and_counts(
    bucket_of_v1: bytes,
) -> None:
    name = name_of(4, bucket_of_v1)
    assert decode_checkpoint(bucket_of_v1, version=4, names=(name,)).version == 4
    with pytest.raises(Corrupt, match="differ from those that the index names"):
        decode_checkpoint(bucket_of_v1, version=4, names=(replace(name, sha256="0" * 64),))


@pytest.fixture
def bucket_of_v1() -> bytes:
    return (Path(__file__).parents[2] / "golden" / "v1" / checkpoint_key(4)).read_bytes()


def test_a_hint_or_an_entry_of_an_earlier_release_names_the_version_alone() -> None:
    bucket = MemoryBucket(ManualClock())
    bucket.put(HINT, b'{"format":1,"checkpoint":7}')
    assert read_hint(bucket) == NamedCheckpoint(id=7)
    assert names_of(name_of(7, b"?"), read_hint(bucket), [b'{"checkpoint":7}', b"garbage"]) == ()
