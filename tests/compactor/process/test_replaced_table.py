"""A table that is created again under its name while the process manages it: it is picked up,
unharmed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from blockstore.compactor.process.keeper import CLEAN, COMPACT, INDEX, RETENTION
from blockstore.compactor.process.status import TableHealth
from tests.compactor.tended import Tended, Tending

MIXED = [(True, True), (True, False), (False, True)]


@pytest.fixture
def lake(tmp_path: Path) -> Tended:
    return Tended(tmp_path)


def make(lake: Tended, *, indexed: bool, blocks: int) -> None:
    """The table, with so many blocks, all aged."""
    lake.create("a", indexed=indexed, retention="1d")
    table = lake.table("a") if indexed else lake.bare("a")
    for number in range(blocks):
        lake.append("a", f"w{number}", table)
    lake.world.clock.sleep(3600)


def make_anew(lake: Tended, *, indexed: bool, blocks: int = 3) -> dict[str, bytes]:
    """Put another table in the place of the first; return its objects."""
    lake.bucket.delete([info.key for info in lake.bucket.list("a/")])
    make(lake, indexed=indexed, blocks=blocks)
    return objects(lake)


def objects(lake: Tended) -> dict[str, bytes]:
    return {info.key: lake.bucket.get(info.key).data for info in lake.bucket.list("a/")}


def settled(lake: Tended) -> Tending:
    process = lake.process()
    process.round()
    assert process.of("a").health is TableHealth.OK
    return process


@pytest.mark.parametrize(("first", "second"), MIXED)
def test_the_new_table_is_opened_and_managed(lake: Tended, first: bool, second: bool) -> None:
    make(lake, indexed=first, blocks=10)
    process = settled(lake)
    make_anew(lake, indexed=second)
    for _ in range(3):
        process.round()
    status = process.of("a")
    assert (status.health, status.indexed, status.rows) == (TableHealth.OK, second, 9)
    assert process.status().not_ready == ()
    assert process.fatal is None


@pytest.mark.parametrize("loop", [CLEAN, COMPACT, INDEX, RETENTION])
@pytest.mark.parametrize("blocks", [3, 30])
def test_no_loop_writes_into_the_new_table_by_what_it_knew_of_the_old(
    lake: Tended, loop: str, blocks: int
) -> None:
    make(lake, indexed=True, blocks=10)
    process = settled(lake)
    before = make_anew(lake, indexed=True, blocks=blocks)
    lake.world.clock.sleep(3 * 86_400)
    process.turn("a", loop)
    assert objects(lake) == before
    assert process.of("a").health is TableHealth.FAILING
    assert "another one has its name" in process.of("a").problem
    lake.check()


def test_nor_does_it_merge_by_a_listing_what_has_an_index_now(lake: Tended) -> None:
    make(lake, indexed=False, blocks=10)
    process = settled(lake)
    before = make_anew(lake, indexed=True)
    lake.world.clock.sleep(3 * 86_400)
    process.turn("a", COMPACT)
    assert objects(lake) == before
    lake.check()
