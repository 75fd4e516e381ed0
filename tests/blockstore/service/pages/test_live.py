"""Looking at tables for a page: not more often than is useful, and never twice at once."""

from __future__ import annotations

from threading import Barrier, Thread

import pytest

from blockstore.errors import NotFound
from blockstore.names import meta_key
from blockstore.service.pages.live import LiveTimelines, detail_of
from blockstore.table import Table
from tests.blockstore.service.pages.table import advance, filled, put


class Counted:
    """How often the table was listed."""

    def __init__(self, table: Table) -> None:
        self.listed = 0
        listing = table.catalog.listing

        def count() -> object:
            self.listed += 1
            return listing()

        table.catalog.listing = count  # type: ignore[method-assign, assignment]


def test_a_look_is_good_for_a_while_and_no_longer() -> None:
    table = filled(2)
    counted = Counted(table)
    timelines = LiveTimelines(lambda name: table, table.world, refresh_s=10)
    assert len(timelines.timeline("t").blocks) == 2
    put(table, 2)
    advance(table, 8)
    assert len(timelines.timeline("t").blocks) == 2
    advance(table, 2)
    assert len(timelines.timeline("t").blocks) == 3
    assert counted.listed == 2


def test_a_long_listing_is_good_for_longer() -> None:
    table = filled(1)
    for place in range(20_000):
        table.bucket.put(f"unknown/{place}", b"")
    counted = Counted(table)
    timelines = LiveTimelines(lambda name: table, table.world, refresh_s=10)
    for _ in range(3):
        timelines.timeline("t")
        advance(table, 9)
    assert counted.listed == 1
    advance(table, 3)
    timelines.timeline("t")
    assert counted.listed == 2


def test_many_pages_at_once_cost_one_look() -> None:
    table = filled(2)
    counted = Counted(table)
    timelines = LiveTimelines(lambda name: table, table.world)
    together, sizes = Barrier(8), []

    def ask() -> None:
        together.wait()
        sizes.append(len(timelines.timeline("t").blocks))

    threads = [Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sizes == [2] * 8
    assert counted.listed == 1


def test_a_look_that_fails_is_not_kept() -> None:
    table = filled(2)
    timelines = LiveTimelines(lambda name: table, table.world)
    listing = table.catalog.listing
    table.catalog.listing = lambda: (_ for _ in ()).throw(NotFound("gone"))  # type: ignore[method-assign]
    with pytest.raises(NotFound):
        timelines.timeline("t")
    table.catalog.listing = listing  # type: ignore[method-assign]
    assert len(timelines.timeline("t").blocks) == 2


def test_what_the_process_quarantined_is_asked_at_each_look() -> None:
    table = filled(1)
    ulid = table.log.state.blocks.ulids()[0]
    bad: dict[str, str] = {}
    timelines = LiveTimelines(
        lambda name: table, table.world, quarantined=lambda name: bad, refresh_s=0
    )
    assert timelines.timeline("t").blocks[0].reason == ""
    bad[ulid] = "its hash differs"
    advance(table, 1)
    assert timelines.timeline("t").blocks[0].reason == "its hash differs"


def test_the_detail_of_a_live_block_costs_no_request_and_of_another_one_its_meta() -> None:
    table = filled(2)
    first, second = table.log.state.blocks.ulids()
    table.revert(first)
    assert detail_of(table, second).version == 3
    gone = detail_of(table, first)
    assert (gone.version, gone.meta is not None and gone.meta.rows) == (None, 6)
    table.bucket.put(meta_key(first), b"{")
    assert detail_of(table, first).meta is None
    table.bucket.delete([meta_key(first)])
    with pytest.raises(NotFound, match="no block"):
        detail_of(table, first)
