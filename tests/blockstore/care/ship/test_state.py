"""What a shipper remembers: whole or not at all, and never believed when damaged."""

from __future__ import annotations

import logging
from hashlib import sha256

import orjson
import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.care.ship.state import Sent, ShipperState, load, save
from blockstore.clock import ManualClock
from blockstore.errors import NewerFormat
from blockstore.names import SHIPPER_STATE
from tests.support.index_data import ulid

STATE = (
    ShipperState()
    .with_sent("s3://lake/a", ulid(1), Sent(stored_ulid=ulid(1)))
    .with_sent("s3://lake/a", ulid(2), Sent(stored_ulid=ulid(7), late=True))
    .with_sent("memory://b", ulid(1), Sent(stored_ulid=ulid(1)))
    .with_sent("s3://lake/a", ulid(3), Sent(stored_ulid=ulid(3), waits=True))
    .with_index("s3://lake/a")
)


@pytest.fixture
def folder() -> MemoryBucket:
    return MemoryBucket(ManualClock(), "memory://device")


def test_it_is_read_as_it_was_written_by_table(folder: MemoryBucket) -> None:
    assert load(folder) is None
    save(folder, STATE)
    assert load(folder) == STATE
    found = load(folder)
    assert found is not None
    assert found.sent_to("s3://lake/a")[ulid(2)] == Sent(stored_ulid=ulid(7), late=True)
    assert found.sent_to("elsewhere") == {}
    assert found.indexed == {"s3://lake/a"}


def test_one_that_an_earlier_release_wrote_is_read(folder: MemoryBucket) -> None:
    tables = {"s3://lake/a": {ulid(1): {"as": ulid(1)}}}
    digest = sha256(orjson.dumps(tables, option=orjson.OPT_SORT_KEYS)).hexdigest()
    folder.put(SHIPPER_STATE, orjson.dumps({"version": 1, "tables": tables, "sha256": digest}))
    line = Sent(stored_ulid=ulid(1))
    assert load(folder) == ShipperState().with_sent("s3://lake/a", ulid(1), line)


def test_blocks_that_left_the_folder_are_forgotten() -> None:
    kept = STATE.only({ulid(2)})
    assert kept.tables == {
        "s3://lake/a": {ulid(2): Sent(stored_ulid=ulid(7), late=True)},
        "memory://b": {},
    }


def test_a_block_is_lacked_by_each_other_table_that_has_not_confirmed_it() -> None:
    assert STATE.lacking("s3://lake/a", ulid(1)) is None
    assert STATE.lacking("s3://lake/a", ulid(2)) == "memory://b"
    assert STATE.lacking("memory://b", ulid(2)) == "s3://lake/a", "it is late there"
    waiting = STATE.with_sent("memory://b", ulid(1), Sent(stored_ulid=ulid(1), waits=True))
    assert waiting.lacking("s3://lake/a", ulid(1)) == "memory://b"
    assert STATE.only(()).lacking("s3://lake/a", ulid(9)) == "memory://b"


def test_a_damaged_one_is_none_and_is_told(
    folder: MemoryBucket, caplog: pytest.LogCaptureFixture
) -> None:
    save(folder, STATE)
    whole = folder.get(SHIPPER_STATE).data
    damaged = [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        whole[:-3],
        whole.replace(ulid(7).encode(), ulid(8).encode()),
        whole.replace(b'"late": true', b'"late": 1'),
        whole.replace(ulid(1).encode(), b"../../etc/passwd"),
        whole.replace(b'"tables"', b'"stables"'),
        whole.replace(b'"indexed"', b'"unknown"'),
        b'{"version": 1, "tables": {}, "sha256": "0"}',
    ]
    for data in damaged:
        assert data != whole
        folder.put(SHIPPER_STATE, data)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert load(folder) is None
        assert SHIPPER_STATE in caplog.text


def test_a_newer_one_is_not_overwritten(folder: MemoryBucket) -> None:
    folder.put(SHIPPER_STATE, b'{"version": 2}')
    with pytest.raises(NewerFormat):
        load(folder)
