"""The harness runs, checks what contestants answer, and writes what the docs are drawn from.

Nothing is timed.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench import peers
from bench.case import Case, Figures, Metric, Scale, Task
from bench.cases import CASES, select
from bench.cases.scale import SCALE_CASES
from bench.cli import app
from bench.cpu import TICK_S, spent
from bench.machine import Machine
from bench.peers.duckdb import DuckHandle
from bench.report import load_results, render, write
from bench.result import Contestant, Result, Status
from bench.runner import Runner
from bench.table import markdown
from bench.targets import TARGETS, Bound, Target
from bench.worker import Answer, Request, answer

HERE = ("floor", "ours", "ours-durable", "ours-aged", "ours-leaves", "duckdb")
ELSEWHERE = {"append16", "merge_spark", "spark_append", "spark_merge", "spark_read"}
"""Tested by themselves: they start processes of their own."""
DOORS = "doors"
"""Its clients are in the environment of the benches only."""
ALIKE = {case.name for case in SCALE_CASES[1:]}
"""Small, they are the first of them."""
PAIRS = [
    (case.name, peer)
    for case in CASES.values()
    for peer in HERE
    if peer in case.peers and case.name not in ELSEWHERE | ALIKE | {DOORS}
]


def take(case: str, peer: str, directory: Path, *, prepare: bool) -> Answer:
    return answer(
        Request(
            case=case,
            peer=peer,
            scale=Scale.TINY,
            directory=str(directory),
            seed=1,
            prepare=prepare,
        )
    )


def test_a_case_whose_client_is_missing_says_which(tmp_path: Path) -> None:
    found = take(DOORS, "ours", tmp_path, prepare=False)
    assert found.status is Status.UNSUPPORTED
    assert found.reason == "adbc_driver_postgresql is not there: run scripts/bench"


@pytest.mark.parametrize(("name", "peer"), PAIRS)
def test_every_contestant_that_needs_no_other_library_gives_every_main_figure(
    name: str, peer: str, tmp_path: Path
) -> None:
    case = CASES[name]
    table = tmp_path / "table"
    table.mkdir()
    made = take(name, case.borrows.get(peer, peer), table, prepare=True)
    assert made.status is Status.OK, made.reason
    found = take(name, peer, table, prepare=False)
    assert found.status is Status.OK, found.reason
    assert found.figures[case.metrics[0].name] > 0
    assert found.version


def test_what_a_peer_cannot_do_is_unsupported_and_not_a_failure(tmp_path: Path) -> None:
    made = take("poll", "floor", tmp_path, prepare=True)
    assert made.status is Status.OK
    asked = take("poll", "floor", tmp_path, prepare=False)
    assert asked.status is Status.UNSUPPORTED
    assert "poll" in asked.reason


def test_a_wrong_answer_is_a_failure(tmp_path: Path) -> None:
    assert take("count", "duckdb", tmp_path, prepare=False).status is Status.FAILED


def test_the_command_runs_contestants_in_processes_of_their_own_and_writes_a_valid_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        app(["append", "--tiny", "--peers", "floor,ours-durable", "--results", str(tmp_path)])
    printed = capsys.readouterr().out
    assert ended.value.code in (0, None), printed
    result = Result.load(tmp_path / "append.json")
    assert result.bench == "append"
    assert result.scale is Scale.TINY
    assert list(result.contestants) == ["floor", "ours-durable"]
    for contestant in result.contestants.values():
        assert contestant.status is Status.OK, contestant.reason
        assert contestant.figures["commits_per_s"][0] > 0
    assert json.loads((tmp_path / "append.json").read_text())["machine"]["cores"] >= 1
    assert "commits" in printed


def test_many_processes_append_to_one_table_and_none_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.mkdir()
    found = take("append16", "ours", table, prepare=False)
    assert found.status is Status.OK, found.reason
    assert found.figures["refused_percent"] == 0
    assert found.figures["commits_per_s"] > 0


def test_a_merge_whose_output_is_not_sorted_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def merge(handle: DuckHandle) -> Sequence[Path]:
        return sorted((tmp_path / "table").glob("*/chunks/*.parquet"))

    (tmp_path / "table").mkdir()
    assert take("merge_small", "duckdb", tmp_path / "table", prepare=True).status is Status.OK
    monkeypatch.setattr(DuckHandle, "merge", merge)
    found = take("merge_small", "duckdb", tmp_path / "table", prepare=False)
    assert found.status is Status.FAILED
    assert "not sorted" in found.reason


def test_contestants_take_turns_and_the_order_rotates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []

    def turn(
        self: Runner, case: Case, name: str, directory: Path, *, seed: int, prepare: bool
    ) -> Answer:
        order.append(f"{name}{seed % 10}")
        status = Status.FAILED if name == "delta" else Status.OK
        return Answer(
            status=status, reason="", version="1", settings="", figures={"x": float(len(order))}
        )

    monkeypatch.setattr(Runner, "_turn", turn)
    lines: list[str] = []
    runner = Runner(tmp_path, Scale.FULL, frozenset({"floor", "lance", "delta"}), lines.append)
    result = runner.run(_case(("floor", "lance", "delta"), rounds=3))
    assert order == ["floor0", "lance0", "delta0", "lance1", "floor1", "floor2", "lance2"]
    assert result.contestants["floor"].figures == {"x": (1.0, 5.0, 6.0)}
    assert result.median("floor", "x") == 5.0
    assert result.contestants["delta"].status is Status.FAILED
    assert result.median("delta", "x") is None


def test_a_result_survives_its_file(tmp_path: Path) -> None:
    result = _result({"ours": (2.0, 4.0, 3.0), "floor": (4.0,)})
    assert Result.load(result.save(tmp_path)) == result
    damaged = tmp_path / "append.json"
    damaged.write_text(damaged.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(ValueError, match="format 2, expected 1"):
        Result.load(damaged)


@pytest.mark.parametrize(
    ("bound", "goal", "ours", "short"),
    [
        (Bound.AT_LEAST, 0.5, 2.0, None),
        (Bound.AT_LEAST, 1.0, 2.0, 0.5),
        (Bound.AT_MOST, 0.5, 2.0, None),
        (Bound.AT_MOST, 0.25, 2.0, 1.0),
    ],
)
def test_a_target_is_judged_by_the_ratio_in_the_same_run(
    bound: Bound, goal: float, ours: float, short: float | None
) -> None:
    target = _target(bound, goal, against="floor")
    verdict = target.judge(_result({"ours": (ours,), "floor": (4.0,)}))
    assert verdict is not None
    assert verdict.ratio == 0.5
    assert verdict.short_by == short


def test_a_target_without_its_reference_has_no_verdict() -> None:
    assert _target(Bound.AT_LEAST, 1.0, against="lance").judge(_result({"ours": (1.0,)})) is None


def test_a_goal_of_zero_is_missed_by_the_figure_itself() -> None:
    verdict = _target(Bound.AT_MOST, 0.0, against=None).judge(_result({"ours": (3.0,)}))
    assert verdict is not None
    assert verdict.short_by == 3.0


def test_the_page_says_plainly_what_is_short(tmp_path: Path) -> None:
    result = _result(
        {"floor": (100.0,), "ours-aged": (40.0,), "ours-aged-durable": (9.0,), "ours": (50.0,)}
    )
    result.save(tmp_path)
    page = render(load_results(tmp_path))
    assert "short by 53 %" in page
    assert "durable: 9 /s" in page
    assert "no figure in this run" in page
    assert "`merge_wide`: not run yet." in page
    assert result.machine.sentence() in page


def test_a_dash_stands_where_a_peer_cannot_and_failed_where_it_broke() -> None:
    result = _result({"floor": (4.0,)})
    none = Contestant(
        version="1", settings="", status=Status.UNSUPPORTED, reason="has no append", figures={}
    )
    broken = dataclasses.replace(none, status=Status.FAILED)
    whole = dataclasses.replace(
        result, contestants=dict(result.contestants) | {"duckdb": none, "delta": broken}
    )
    rows = markdown(CASES["append"], whole).splitlines()
    assert rows[-2] == "| duckdb | \N{EN DASH} | \N{EN DASH} |"
    assert rows[-1].startswith("| delta | failed |")


def test_a_plot_has_a_bar_for_each_contestant_with_a_figure(tmp_path: Path) -> None:
    result = _result({"ours": (50.0,), "floor": (100.0,), "iceberg": (1.0,)})
    write({"append": result}, tmp_path / "benchmarks.md")
    drawn = ElementTree.parse(tmp_path / "benchmarks" / "append.svg")
    widths = [int(bar.attrib["width"]) for bar in drawn.iter("{http://www.w3.org/2000/svg}rect")]
    assert widths[1] == 2 * widths[0]
    assert len(widths) == 3
    assert "(benchmarks/append.svg)" in (tmp_path / "benchmarks.md").read_text()


def test_a_peer_that_is_far_from_its_earlier_figure_is_shown_with_both() -> None:
    page = render({"append": _result({"floor": (1_610.0,)})})
    assert "| append | floor | 805.00 | 1,610.00 | 2.00 |" in page


def test_targets_cases_and_contestants_name_one_another() -> None:
    for target in TARGETS:
        case = CASES[target.case]
        assert target.metric in {metric.name for metric in case.metrics}
        assert {target.ours, target.against or target.ours, target.beside or target.ours} <= set(
            case.peers
        )
    for case in CASES.values():
        assert set(case.peers) <= set(peers.ADAPTERS)
        assert case.reference in case.peers
        assert set(case.sizes) == set(Scale)


def test_names_and_groups_select_and_unknown_ones_are_refused_with_the_known() -> None:
    assert [case.name for case in select(["open", "append", "open-1k"])] == [
        "open-1k",
        "open-10k",
        "open-100k",
        "append",
    ]
    assert len(select(["all"])) == len(CASES)
    with pytest.raises(ValueError, match="no bench is called 'opne'; there are append"):
        select(["opne"])
    assert peers.names("ours") == {
        "ours",
        "ours-aged",
        "ours-durable",
        "ours-aged-durable",
        "ours-gateway",
        "ours-leaves",
        "ours-sql",
        "ours-s3",
        "ours-sql-s3",
        "ours-gateway-s3",
        "ours-leaves-s3",
    }
    assert peers.names("lance-btree, floor") == {"lance-btree", "floor", "floor-s3"}
    assert peers.names("") == set(peers.ADAPTERS)
    with pytest.raises(ValueError, match="no peer is called 'iceburg'"):
        peers.names("iceburg")


def test_without_names_the_benches_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        app([])
    assert ended.value.code in (0, None)
    listed = capsys.readouterr().out
    assert all(name in listed for name in CASES)


def _measure(task: Task) -> Figures:
    return {"x": 1.0}


def _case(taking_part: tuple[str, ...], rounds: int) -> Case:
    return Case(
        name="turns",
        sentence="take turns",
        peers=taking_part,
        metrics=(Metric(name="x", unit="", title="x", higher_is_better=True),),
        sizes={scale: {} for scale in Scale},
        rounds=rounds,
        measure=_measure,
        reference=taking_part[0],
    )


def _target(bound: Bound, goal: float, against: str | None) -> Target:
    return Target(
        case="append",
        work="appends",
        metric="commits_per_s",
        unit="/s",
        bound=bound,
        goal=goal,
        against=against,
    )


def _result(commits: dict[str, tuple[float, ...]]) -> Result:
    return Result(
        bench="append",
        scale=Scale.FULL,
        date="2024-01-01T00:00:00+00:00",
        machine=Machine(
            cores=2,
            memory_gib=8.0,
            processor="test",
            system="Linux 6, x86_64",
            python="3.11.0",
            pyarrow="26.0.1",
            numpy="2.0",
        ),
        sizes={"appends": 300, "rows": 1000},
        rounds=3,
        contestants={
            name: Contestant(
                version="1",
                settings="as it comes",
                status=Status.OK,
                reason="",
                figures={"commits_per_s": rounds},
            )
            for name, rounds in commits.items()
        },
    )


def test_work_of_less_than_a_tick_of_the_cpu_clock_counts_as_one() -> None:
    now = spent()
    nothing = now.since(now)
    assert nothing.own == nothing.java == TICK_S, "a rate of it can be computed"
    assert spent().since(now).own >= TICK_S
