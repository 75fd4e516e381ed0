"""A timeline tells each block's state as the life cycle does, without a request of its own."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import orjson
import pytest

from blockstore.format.block import StreamKey
from blockstore.format.marks import MarkReason
from blockstore.format.properties import Properties
from blockstore.index.state import State
from blockstore.names import meta_key, object_key
from blockstore.service.pages.live import look
from blockstore.service.pages.timeline import Shade, Timeline, timeline_of
from blockstore.table import Table
from tests.blockstore.service.pages.table import (
    HOUR_MS,
    START_MS,
    advance,
    filled,
    mark,
    no_compact,
    put,
)

DAY_S = 86_400


def shades(table: Table, **options: object) -> dict[str, Shade]:
    return {block.ulid: block.shade for block in look(table, **options).blocks}  # type: ignore[arg-type]


def from_state(state: State) -> Timeline:
    return timeline_of("t", state=state, sighting=None, now_ms=0, properties=Properties())


def test_live_blocks_come_with_all_that_a_timeline_draws() -> None:
    table = filled(3, labels={"cluster": "eu1"})
    timeline = look(table)
    assert (timeline.version, timeline.boundary, timeline.time_column) == (4, 0, "time")
    assert [block.min_time for block in timeline.blocks] == [
        START_MS + hour * HOUR_MS for hour in range(3)
    ]
    block = timeline.blocks[1]
    live = table.log.state.blocks.get(block.ulid)
    assert live is not None
    assert block.stream == StreamKey((("cluster", "eu1"),), 0)
    assert (block.level, block.rows, block.bytes, block.sources) == (1, 6, live.meta.bytes, 1)
    assert (block.max_time, block.version) == (live.meta.max_time, 3)
    assert (block.shade, block.reason, block.no_compact) == (Shade.LIVE, "", False)


def test_without_a_listing_the_live_blocks_stand_as_the_index_says() -> None:
    table = filled(3)
    assert from_state(table.log.state).blocks == look(table).blocks


def test_a_merged_block_says_how_many_writes_it_holds() -> None:
    table = filled(4)
    table.overwrite(table.snapshot().scan().to_table(), where="value > 0")
    block = next(block for block in look(table).blocks if block.shade is Shade.LIVE)
    assert (block.level, block.sources) == (2, 5)


def test_what_the_index_dropped_is_superseded_and_then_marked_and_then_deleting() -> None:
    table = filled(2)
    gone = table.log.state.blocks.ulids()[0]
    table.delete(f"time < '{_iso(START_MS + HOUR_MS)}'")
    advance(table, 3 * DAY_S)
    assert shades(table)[gone] is Shade.SUPERSEDED
    mark(table, gone, MarkReason.SUPERSEDED)
    assert shades(table)[gone] is Shade.MARKED
    advance(table, 3 * DAY_S)
    assert shades(table)[gone] is Shade.DELETING


def test_a_directory_without_meta_is_fresh_and_then_partial_at_the_time_of_its_name() -> None:
    table = filled(1)
    ulid = table.world.ids.ulid()
    table.bucket.put(object_key(ulid, "chunks/000001.parquet"), b"x" * 70)
    assert shades(table)[ulid] is Shade.FRESH
    advance(table, 3 * DAY_S)
    block = next(block for block in look(table).blocks if block.ulid == ulid)
    assert (block.shade, block.level, block.bytes) == (Shade.PARTIAL, 0, 70)
    assert block.max_time == block.min_time + 1
    assert "no meta.json" in block.reason


@pytest.mark.parametrize("loss", ["chunk", "meta", "all", "size"])
def test_a_live_block_whose_files_are_gone_is_quarantined_with_the_reason(loss: str) -> None:
    table = filled(3)
    ulid = table.log.state.blocks.ulids()[1]
    chunk, meta = object_key(ulid, "chunks/000001.parquet"), meta_key(ulid)
    if loss == "size":
        table.bucket.put(chunk, b"short")
    else:
        table.bucket.delete({"chunk": [chunk], "meta": [meta], "all": [chunk, meta]}[loss])
    advance(table, 600)
    block = next(block for block in look(table).blocks if block.ulid == ulid)
    assert block.shade is Shade.QUARANTINED
    expected = {
        "chunk": "chunks/000001.parquet is missing",
        "meta": "meta.json is missing",
        "all": "shows no such directory",
        "size": "has 5 bytes",
    }
    assert expected[loss] in block.reason
    assert sum(shade is Shade.LIVE for shade in shades(table).values()) == 2


def test_a_block_committed_after_the_listing_is_not_called_lost() -> None:
    table = filled(2)
    listing = table.catalog.listing()
    late = put(table, 2)
    table.catalog.listing = lambda: listing  # type: ignore[method-assign]
    assert shades(table)[late] is Shade.LIVE


@pytest.mark.parametrize(("age_s", "expected"), [(60, Shade.LIVE), (600, Shade.QUARANTINED)])
def test_a_block_that_a_listing_lacks_is_lost_once_it_is_older_than_clocks_differ(
    age_s: float, expected: Shade
) -> None:
    table = filled(2)
    ulid = table.log.state.blocks.ulids()[1]
    advance(table, age_s)
    listing = table.catalog.listing()
    others = {name: one for name, one in listing.directories.items() if name != ulid}
    table.catalog.listing = lambda: replace(listing, directories=others)  # type: ignore[method-assign]
    assert shades(table)[ulid] is expected


def test_what_a_merge_found_damaged_is_quarantined_whatever_the_index_says() -> None:
    table = filled(2)
    ulid = table.log.state.blocks.ulids()[0]
    block = look(table, {ulid: "its hash differs"}).blocks[0]
    assert (block.shade, block.reason) == (Shade.QUARANTINED, "its hash differs")


def test_a_mark_that_keeps_merges_away_is_reported() -> None:
    table = filled(2)
    ulid = table.log.state.blocks.ulids()[1]
    no_compact(table, ulid)
    assert [block.no_compact for block in look(table).blocks] == [False, True]


def test_without_an_index_the_cover_decides_and_there_is_no_version() -> None:
    table = filled(2, indexed=False)
    assert set(shades(table).values()) == {Shade.FRESH}
    advance(table, 3_600)
    timeline = look(table)
    assert {block.shade for block in timeline.blocks} == {Shade.LIVE}
    assert (timeline.version, timeline.boundary, timeline.time_column) == (None, None, "time")
    first = timeline.blocks[0].ulid
    table.bucket.put(meta_key(first), b"{")
    assert shades(table)[first] is Shade.FRESH, "too young to judge"
    advance(table, 3_600)
    assert shades(table)[first] is Shade.QUARANTINED


def test_an_empty_table_has_an_empty_timeline() -> None:
    assert look(filled(0)).blocks == ()
    assert look(filled(0, indexed=False)).blocks == ()


def test_a_look_writes_nothing() -> None:
    table = filled(3)
    before = [(found.key, found.size, found.modified_ms) for found in table.bucket.list()]
    advance(table, 3 * DAY_S)
    look(table)
    assert [(found.key, found.size, found.modified_ms) for found in table.bucket.list()] == before


def test_a_name_may_be_given_that_is_not_the_last_part_of_the_address() -> None:
    assert look(filled(1), name="lake/deep/t").table == "lake/deep/t"


def test_tags_are_shown() -> None:
    table = filled(2)
    table.tag("checked")
    assert orjson.dumps(dict(look(table).tags)) == b'{"checked":3}'


def _iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()
