"""Thousands of tables as a page and a scrape show them."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from blockstore.clock import ManualClock
from blockstore.compactor.process.combined import OTHERS, OWN_SERIES, combined, page_of
from blockstore.compactor.process.instruments import Instruments
from blockstore.compactor.process.ledger import LAKE, Ledger
from blockstore.compactor.process.status import (
    Backlog,
    LoopStatus,
    Status,
    TableHealth,
    TableStatus,
    Totals,
)
from blockstore.compactor.web.encode import encode_status
from tests.compactor.web.process import status


def table(number: int, health: TableHealth = TableHealth.OK) -> TableStatus:
    return TableStatus(
        name=f"t{number:05}",
        url="",
        health=health,
        own_series=number < OWN_SERIES,
        rows=number,
        blocks=1,
        backlog=(Backlog(level=2, jobs=1, blocks=2, bytes=10),),
        loops=(LoopStatus(name="clean", interval_s=1, last_success_s=float(number), runs=2),),
        totals=Totals(jobs={"committed": 3}, removed=2),
    )


def lake(count: int, *, bad: int | None = None) -> Status:
    tables = [table(number) for number in range(count)]
    if bad is not None:
        tables[bad] = replace(tables[bad], health=TableHealth.DEGRADED)
    return replace(status(), tables=tuple(tables))


def scraped(shown: Status) -> str:
    registry = CollectorRegistry()
    Instruments(registry, lambda: shown)
    return generate_latest(registry).decode()


def test_a_scrape_does_not_grow_beyond_two_hundred_tables() -> None:
    small, large = scraped(lake(OWN_SERIES + 1)), scraped(lake(5_000))
    assert len(large.splitlines()) == len(small.splitlines())
    assert len(large) < 1.05 * len(small)


def test_the_others_are_added_up_and_the_worst_of_them_shows() -> None:
    found = scraped(lake(1_000, bad=900))
    others = 1_000 - OWN_SERIES
    for line in (
        f'blockstore_compactor_removed_blocks_total{{table="{OTHERS}"}} {2 * others:.1f}',
        f'blockstore_compactor_backlog_jobs{{level="2",table="{OTHERS}"}} {others:.1f}',
        f'blockstore_compactor_table_health{{health="degraded",table="{OTHERS}"}} 1.0',
        f'blockstore_compactor_table_health{{health="ok",table="{OTHERS}"}} {others - 1:.1f}',
        f'blockstore_compactor_loop_runs_total{{loop="clean",table="{OTHERS}"}} {2 * others:.1f}',
        "blockstore_compactor_tables 1000.0",
    ):
        assert line in found, line
    all_rows = combined([table(number) for number in range(OWN_SERIES, 1_000)]).rows
    assert all_rows == sum(range(OWN_SERIES, 1_000))


def test_which_tables_have_series_of_their_own_never_changes() -> None:
    ledger = Ledger(ManualClock())
    ledger.add(LAKE, "")
    for number in range(OWN_SERIES + 5):
        ledger.add(f"t{number:05}", "")
    own = {one.name for one in ledger.tables() if one.own_series}
    assert own == {f"t{number:05}" for number in range(OWN_SERIES)}
    ledger.drop("t00000")
    assert {one.name for one in ledger.tables() if one.own_series} == own - {"t00000"}
    ledger.add("new", "")
    assert [one.own_series for one in ledger.tables() if one.name == "new"] == [True]


@pytest.mark.parametrize("count", [201, 10_000])
def test_a_page_shows_two_hundred_tables_those_that_are_not_well_first(count: int) -> None:
    data = encode_status(lake(count, bad=count - 1))
    assert len(data) < 500_000
    value = orjson.loads(data)
    assert [one["name"] for one in value["tables"]][:2] == [f"t{count - 1:05}", "t00000"]
    assert (len(value["tables"]), value["matching"], value["count"]) == (200, count, count)
    shown = sum(one["rows"] for one in value["tables"]) + value["others"]["rows"]
    assert shown == sum(range(count))
    assert value["healths"] == {"ok": count - 1, "degraded": 1}


def test_pages_and_a_filter_reach_every_table() -> None:
    tables = lake(450).tables
    names = [one.name for number in range(3) for one in page_of(tables, "", number)[0]]
    assert sorted(names) == [one.name for one in tables]
    shown, matching, others = page_of(tables, "T0044", 0)
    assert ([one.name for one in shown], matching) == ([f"t0044{digit}" for digit in range(10)], 10)
    assert others is not None
    assert page_of(tables, "nothing", 0)[:2] == ([], 0)
    assert page_of(tables[:10], "", 7)[0] == []
