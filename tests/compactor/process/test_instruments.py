"""Metrics of the process: zeros from the start, and what has happened once it has."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from blockstore.compactor.process.instruments import Instruments
from blockstore.compactor.process.keeper import CLEAN, EXPORT
from blockstore.compactor.process.process import Process
from blockstore.compactor.process.serve import application
from tests.compactor.process.test_process import spoil
from tests.compactor.tended import Tended, Tending
from tests.support.asking import asking


@pytest.fixture
def lake(tmp_path: Path) -> Tended:
    made = Tended(tmp_path)
    made.create("a")
    return made


def scraped(process: Process) -> str:
    registry = CollectorRegistry()
    Instruments(registry, process.status)
    return generate_latest(registry).decode()


def test_every_series_is_there_with_zero_before_anything_has_happened(lake: Tended) -> None:
    process = lake.process()
    process.look()
    found = scraped(process)
    for line in (
        'blockstore_compactor_backlog_jobs{level="2",table="a"} 0.0',
        'blockstore_compactor_jobs_total{outcome="damaged",table="a"} 0.0',
        'blockstore_compactor_last_success_timestamp_seconds{loop="clean",table="a"} 0.0',
        'blockstore_compactor_quarantined_blocks{table="a"} 0.0',
        'blockstore_compactor_removed_bytes_total{table="a"} 0.0',
        'blockstore_compactor_running_progress_ratio{table="a"} 0.0',
        'blockstore_compactor_table_health{health="degraded",table="a"} 0.0',
        "blockstore_compactor_ready 0.0",
        'blockstore_compactor_boundary_refusals_total{table="a"} 0.0',
    ):
        assert line in found, line


def test_the_checks_of_a_tables_boundary_are_counted(lake: Tended) -> None:
    lake.fill("a", 8)
    process = lake.process()
    process.round()
    counts = process.open("a").log.boundary.counts
    assert counts.checks >= 1, "a merge was committed"
    found = scraped(process)
    assert (
        f'blockstore_compactor_boundary_checks_total{{table="a"}} {float(counts.checks)}' in found
    )
    assert f'blockstore_compactor_boundary_seconds_total{{table="a"}} {counts.seconds}' in found


def test_what_has_happened_is_counted(lake: Tended) -> None:
    blocks = lake.fill("a", 8)
    spoil(lake, "a", blocks[:3])
    process = lake.process()
    process.round()
    process.round()
    found = scraped(process)
    assert process.of("a").totals.jobs["committed"] >= 1
    for line in (
        'blockstore_compactor_quarantined_blocks{table="a"} 3.0',
        # The block whose chunk is missing is seen by the listing; the other two only by a merge.
        'blockstore_compactor_jobs_total{outcome="damaged",table="a"} 2.0',
        f'blockstore_compactor_blocks{{table="a"}} {len(lake.live("a"))}.0',
        'blockstore_compactor_rows{table="a"} 24.0',
        'blockstore_compactor_table_health{health="ok",table="a"} 1.0',
        "blockstore_compactor_ready 1.0",
    ):
        assert line in found, "\n".join(
            one for one in found.splitlines() if one.startswith(line.split("{")[0])
        )


def test_staleness_grows_until_every_loop_has_ended_well(lake: Tended) -> None:
    process = lake.process()
    process.look()
    lake.world.clock.sleep(100)
    assert 'blockstore_compactor_staleness_seconds{table="a"} 100.0' in scraped(process)
    process.round()
    assert 'blockstore_compactor_staleness_seconds{table="a"} 0.0' in scraped(process)
    lake.world.clock.sleep(40)
    process.turn("a", CLEAN)
    assert 'blockstore_compactor_staleness_seconds{table="a"} 40.0' in scraped(process)


def test_the_lag_of_an_export_grows_until_it_is_current_again(lake: Tended) -> None:
    lake.create("b")
    process = lake.process(tables={"a": {"export": ("iceberg",)}})
    process.round()
    assert 'blockstore_compactor_export_lag_seconds{table="a"} 0.0' in scraped(process)
    assert 'blockstore_compactor_exports_total{table="a"} 1.0' in scraped(process)
    lake.world.clock.sleep(40)
    assert 'blockstore_compactor_export_lag_seconds{table="a"} 40.0' in scraped(process)
    process.turn("a", EXPORT)
    found = scraped(process)
    assert 'blockstore_compactor_export_lag_seconds{table="a"} 0.0' in found
    assert 'export_lag_seconds{table="b"}' not in found
    assert EXPORT not in process.loops.of("b")


def test_probes_metrics_and_the_page_are_served(lake: Tended) -> None:
    process: Tending = lake.process()
    registry = CollectorRegistry()
    Instruments(registry, process.status)
    with asking(application(process, registry)) as client:
        response = client.get("/-/ready")
        assert response.status_code == 503
        assert "the lake has not been listed yet" in response.json()["reasons"][0]
        process.round()
        assert client.get("/-/ready").status_code == 200
        # The scheduler of this process was never started, and nothing that stands still calls
        # itself healthy.
        assert client.get("/-/healthy").json() == {
            "ok": False,
            "reasons": ["the loops are not running"],
        }
        assert "blockstore_compactor_ready 1.0" in client.get("/metrics").text
        page = client.get("/")
        assert page.status_code == 200
        assert page.headers["x-content-type-options"] == "nosniff"
        assert client.post("/metrics").status_code == 405
