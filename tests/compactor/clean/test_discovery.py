"""Discovery's commits: many blocks per entry, and a block that cannot enter keeps no other out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from blockstore.compactor.clean import discovery as publish_module
from blockstore.compactor.clean.discovery import publish
from blockstore.errors import Conflict, Fenced
from blockstore.format.block import BlockMeta
from blockstore.format.meta import load_meta
from blockstore.index.change import Change, Committed
from blockstore.index.epochs import COMPACTOR, claim
from blockstore.index.log import Log
from tests.compactor.lake import Lake
from tests.compactor.scene import small_chunks


@pytest.fixture(autouse=True)
def blocks_of_two_chunks() -> Iterator[None]:
    with small_chunks():
        yield


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def unpublished(lake: Lake, count: int) -> list[BlockMeta]:
    ulids = [lake.append(f"w{number}", publish=False) for number in range(count)]
    return [load_meta(lake.bucket, ulid) for ulid in ulids]


def test_many_blocks_enter_in_few_entries(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish_module, "_BLOCKS", 3)
    blocks = unpublished(lake, 7)
    log = lake.open().log
    held = claim(log, lake.world, COMPACTOR)
    before = log.state.version
    published = publish(log, lake.world, held, blocks)
    assert published.blocks == [block.ulid for block in blocks]
    assert log.state.version == before + 3
    assert publish(log, lake.world, held, blocks).blocks == []
    assert log.state.version == before + 3, "what is there already writes no entry"
    lake.check()


def test_a_commit_that_is_refused_is_tried_block_by_block(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = unpublished(lake, 3)
    log = lake.open().log
    held = claim(log, lake.world, COMPACTOR)
    honest = Log.commit

    def refuse(self: Log, change: Change) -> Committed:
        if blocks[1] in getattr(change, "blocks", ()):
            raise Conflict("one of them cannot enter")
        return honest(self, change)

    monkeypatch.setattr(Log, "commit", refuse)
    published = publish(log, lake.world, held, blocks)
    assert published.blocks == [blocks[0].ulid, blocks[2].ulid]
    assert published.quarantined == {blocks[1].ulid: "one of them cannot enter"}


def test_two_blocks_of_one_source_enter_once(lake: Lake) -> None:
    [block] = unpublished(lake, 1)
    again = replace(block, ulid=lake.world.ids.ulid(), revision=1, own=False)
    log = lake.open().log
    held = claim(log, lake.world, COMPACTOR)
    published = publish(log, lake.world, held, [again, block])
    assert (published.blocks, published.quarantined) == ([again.ulid], {})
    assert log.state.blocks.ulids() == [again.ulid]


def test_a_block_of_an_unknown_schema_is_named(lake: Lake) -> None:
    [known, other] = unpublished(lake, 2)
    schema = pa.schema([("other", pa.float64())]).serialize().to_pybytes()
    strange = replace(other, schema=schema)
    log = lake.open().log
    published = publish(log, lake.world, claim(log, lake.world, COMPACTOR), [known, strange])
    assert published.blocks == [known.ulid]
    assert published.quarantined.keys() == {strange.ulid}


def test_another_holder_of_the_role_stops_it(lake: Lake) -> None:
    blocks = unpublished(lake, 2)
    log = lake.open().log
    held = claim(log, lake.world, COMPACTOR)
    claim(lake.open().log, lake.world, COMPACTOR)
    with pytest.raises(Fenced):
        publish(log, lake.world, held, blocks)
    assert lake.live() == []
