"""What chunks of a merge share: memory for their readers, and better guesses."""

from __future__ import annotations

import pyarrow as pa

from blockstore.compactor.merge.shared import Shared
from blockstore.format.block import ChunkFile

SCHEMA = pa.schema([("k", pa.int64()), ("text", pa.string())])


def chunk(size: int, rows: int) -> ChunkFile:
    return ChunkFile(path="chunks/000001.parquet", bytes=size, rows=rows, sha256="")


def test_readers_find_room_until_none_is_left_and_one_always_does() -> None:
    shared = Shared(SCHEMA, 100)
    assert shared.take(500)
    assert not shared.take(1)
    shared.give_back(500)
    assert [shared.take(size) for size in (60, 40, 1)] == [True, True, False]
    shared.give_back(40)
    assert shared.take(30)


def test_guesses_grow_by_what_was_found_and_never_fall() -> None:
    shared = Shared(SCHEMA, 100)
    by_bytes, by_rows = chunk(10_000, 10), chunk(10, 10_000)
    before = [shared.guess(one) for one in (by_bytes, by_rows)]
    assert before[0] > 10_000
    assert before[1] > 10_000 * 8
    shared.correct(100, 50)
    assert [shared.guess(one) for one in (by_bytes, by_rows)] == before
    shared.correct(100, 700)
    assert [shared.guess(one) for one in (by_bytes, by_rows)] == [7 * size for size in before]
    shared.correct(0, 0)
    assert shared.guess(by_bytes) == 7 * before[0]
