"""The benches on an S3 server with latency: they run at their smallest, and are drawn."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench import peers
from bench.case import Scale, Task
from bench.cases import CASES
from bench.cases.at_latency import DELAYS, DELAYS_VARIABLE, MAIN, counts, delays
from bench.cli import app
from bench.latency.record import Exchange, Record
from bench.latency.session import Measured
from bench.latency.timeline import ROWS, svg
from bench.machine import Machine
from bench.report import render
from bench.result import Contestant, Result, Status
from tests.support.spark_workers import workers_python

HERE = "floor-s3,ours-s3,polars-s3"
SVG = "{http://www.w3.org/2000/svg}"
LOCK = Path(__file__).resolve().parents[2] / "bench" / "httpfs.lock"


@pytest.mark.s3
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_benches_run_on_a_real_server_and_keep_their_timelines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slow: it starts the server and a dozen processes."""
    monkeypatch.setenv("PYSPARK_PYTHON", workers_python())
    names = ["s3-append", "s3-append16", "s3-poll", "s3-point", "s3-merge", "s3-spark"]
    with pytest.raises(SystemExit) as ended:
        app([*names, "--tiny", "--peers", HERE, "--results", str(tmp_path)])
    assert ended.value.code in (0, None), capsys.readouterr().out
    for name in names:
        result = Result.load(tmp_path / f"{name}.json")
        assert "ours-s3" in result.contestants
        for peer, contestant in result.contestants.items():
            assert contestant.status is Status.OK, f"{name} {peer}: {contestant.reason}"
            assert result.median(peer, CASES[name].metrics[0].name)
    append = Result.load(tmp_path / "s3-append.json")
    assert (append.median("floor-s3", "requests"), append.median("floor-s3", "depth")) == (2, 2)
    assert (append.median("floor-s3", f"ms_{MAIN}") or 0) >= 2 * MAIN
    poll = Result.load(tmp_path / "s3-poll.json")
    assert poll.median("floor-s3", "requests") == 1
    assert (tmp_path / "timelines" / "s3-append-ours-s3.json").exists()


def test_all_delays_are_measured_in_a_full_run_and_the_main_one_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(DELAYS_VARIABLE, raising=False)
    case = CASES["s3-append"]

    def task(scale: Scale) -> Task:
        return Task(peer=peers.load("floor"), directory=tmp_path, sizes=case.sizes[scale], seed=1)

    assert sorted(delays(task(Scale.FULL))) == list(DELAYS)
    assert delays(task(Scale.FULL))[-1] == MAIN
    assert delays(task(Scale.QUICK)) == (MAIN,)
    monkeypatch.setenv(DELAYS_VARIABLE, "25,5")
    assert delays(task(Scale.QUICK)) == (5, MAIN)


def test_counts_are_of_one_operation() -> None:
    found = Measured(seconds=[0.1], cpu_s=0.5, record=_record(4))
    assert counts([found], operations=2) == {
        "requests": 2,
        "depth": 2,
        "down_mib": 2,
        "up_mib": 0,
        "dollars": pytest.approx(0.8),
        "cpu_ms": 250,
    }


def test_a_timeline_has_a_bar_for_each_request_and_counts_those_beyond() -> None:
    drawn = ElementTree.fromstring(svg("an append", _record(ROWS + 2), 100))
    assert len(list(drawn.iter(f"{SVG}rect"))) == ROWS
    texts = [text.text or "" for text in drawn.iter(f"{SVG}text")]
    assert "2 more" in texts
    assert any(f"{ROWS + 2} requests, {ROWS + 2} deep" in text for text in texts)
    assert ElementTree.fromstring(svg("nothing", _record(0), 0)) is not None


def test_the_page_begins_with_the_promises_at_latency() -> None:
    now = {"s3-append": _result("s3-append", {"ours-s3": 120.0, "lance-s3": 100.0})}
    before = {"s3-append": _result("s3-append", {"ours-s3": 300.0, "lance-s3": 100.0})}
    page = render(now, before, ["timeline-s3-append-ours-s3"])
    assert page.index("## At 25 ms a request") < page.index("## Targets")
    row = next(line for line in page.splitlines() if line.startswith("| append 1,000 rows |"))
    assert "120 ms" in row
    assert "1.20" in row
    assert "short by 20 %" in row
    assert row.endswith("| 300 |")
    assert "![timeline-s3-append-ours-s3](benchmarks/timeline-s3-append-ours-s3.svg)" in page
    assert "before: **short by 200 %**" in render({}, before)
    assert "## At" not in render({})


def test_the_lock_of_duckdb_with_httpfs_pins_with_hashes_and_names_no_host() -> None:
    text = LOCK.read_text()
    assert "://" not in text
    assert all("==" in line for line in text.splitlines() if re.match(r"[a-z]", line))


def _record(requests: int) -> Record:
    one = Exchange(
        begin=0, end=0.01, method="GET", target="/bench/t/a", status=200, up=0, down=1 << 20
    )
    return Record(
        exchanges=tuple(
            dataclasses.replace(one, begin=number * 0.01, end=number * 0.01 + 0.009)
            for number in range(requests)
        ),
        connections=1,
        unfinished=0,
    )


def _result(bench: str, ms: dict[str, float]) -> Result:
    return Result(
        bench=bench,
        scale=Scale.FULL,
        date="2026-11-25T00:00:00+00:00",
        machine=Machine.here(),
        sizes={},
        rounds=1,
        contestants={
            name: Contestant(
                version="1", settings="", status=Status.OK, reason="", figures={"ms_25": (value,)}
            )
            for name, value in ms.items()
        },
    )
