"""Pictures over the number of files: each line has a point for each size, at its height."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench import files
from bench.case import Scale
from bench.cases import CASES
from bench.lines import Panel, svg
from bench.machine import Machine
from bench.report import write
from bench.result import Contestant, Result, Status
from bench.scale_page import PICTURES, pictures, section
from blockstore.simulation.large.table import Numbered

SVG = "{http://www.w3.org/2000/svg}"


def test_the_files_of_the_peers_are_those_of_ours() -> None:
    made = Numbered()
    for number in (0, 1, 7):
        (file,) = made.meta(number).files
        least, greatest = files.bounds(number)
        for name, low, high in zip(files.SCHEMA.names, least, greatest, strict=True):
            unit = 1_000 if name == "time" else 1
            found = file.columns[name]
            assert (found.min * unit, found.max * unit) == (low, high), name
        assert (file.rows, file.bytes) == (files.ROWS, files.BYTES)
        assert least[1] <= files.key(number) <= greatest[1]


def test_a_line_rises_by_as_much_for_each_tenfold() -> None:
    lines = {"ours": [(1_000, 2.0), (10_000, 20.0), (100_000, 200.0)]}
    (points,) = _lines(svg("x", [Panel(title="x", lines=lines)]))
    (x0, y0), (x1, y1), (x2, y2) = points
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.2)
    assert y1 < y0


def test_labels_of_equal_figures_do_not_cover_each_other() -> None:
    lines = {name: [(1_000, 2.0), (10_000, 2.0 + n / 100)] for n, name in enumerate("abcd")}
    drawn = ElementTree.fromstring(svg("x", [Panel(title="x", lines=lines)]))
    heights = sorted(
        float(text.attrib["y"])
        for text in drawn.iter(f"{SVG}text")
        if re.match(r"[abcd] \d", text.text or "")
    )
    assert len(heights) == 4
    assert all(after - before >= 13 for before, after in itertools.pairwise(heights))


def test_a_contestant_without_a_figure_at_a_size_has_a_shorter_line(tmp_path: Path) -> None:
    results = {
        name: _result(
            name,
            {"ours-leaves": 1.5, "delta": 4.0} if name != "scale-10m" else {"ours-leaves": 1.6},
        )
        for name in ("scale-10m", "scale-1k", "scale-100k")
    }
    drawn = pictures(results)
    assert list(drawn) == list(PICTURES)
    costs = _lines(drawn["scale-costs"])
    assert [len(line) for line in costs[:2]] == [3, 2]
    assert all(
        before < after for line in costs for (before, _), (after, _) in itertools.pairwise(line)
    )
    write(results, tmp_path / "benchmarks.md")
    page = (tmp_path / "benchmarks.md").read_text()
    for name in PICTURES:
        assert (tmp_path / "benchmarks" / f"{name}.svg").exists()
        assert f"(benchmarks/{name}.svg)" in page
    assert "| … to 10,000,000 | 1.60 × | – | ≤ 1.2 × | **short by 33 %** |" in page


def test_without_such_a_bench_there_is_no_section() -> None:
    assert section({}) == ""
    assert pictures({}) == {}


def _lines(text: str) -> list[list[tuple[float, float]]]:
    return [
        [
            (float(x), float(y))
            for x, y in (point.split(",") for point in line.attrib["points"].split())
        ]
        for line in ElementTree.fromstring(text).iter(f"{SVG}polyline")
    ]


def _result(name: str, figures: dict[str, float]) -> Result:
    case = CASES[name]
    return Result(
        bench=name,
        scale=Scale.FULL,
        date="2024-01-01T00:00:00+00:00",
        machine=Machine.here(),
        sizes=case.sizes[Scale.FULL],
        rounds=1,
        contestants={
            peer: Contestant(
                version="1",
                settings="as it comes",
                status=Status.OK,
                reason="",
                figures={metric.name: (figure,) for metric in case.metrics},
            )
            for peer, figure in figures.items()
        },
    )
