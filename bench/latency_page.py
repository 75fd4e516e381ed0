"""The first section of ``docs/benchmarks.md``: the promises at 25 ms a request, and timelines."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.cases import CASES
from bench.cases.at_latency import MAIN
from bench.latency.record import Record
from bench.latency.timeline import svg
from bench.result import Result
from bench.table import DASH, TIMES, markdown, number
from bench.targets import TARGETS, Target

__all__ = ["TIMELINES", "draw_timelines", "section"]

TIMELINES = "timelines"
OPERATIONS = {
    "s3-append": "an append",
    "s3-open": "opening and counting",
    "s3-point": "1,000 of 10 M rows, cold",
    "s3-groupby": "a group-by over 10 M rows, cold",
}
ABOUT = f"""\
A proxy in front of the project's S3 server adds {MAIN} ms to each request (twice where a client
waits for a go-ahead) and lets 1 Gbit/s pass. A cold figure is that of a fresh process: the table is
opened within it, its libraries are imported before it (the tables below have that time too). Depth
is the longest chain of requests of which each began after the one before it had ended. Dollars are
those of the requests by S3's list prices. The table of each bench has the figures at the delays at
which it was last measured.
"""


def section(
    results: Mapping[str, Result],
    before: Mapping[str, Result],
    drawn: Sequence[str],
    about_before: str,
) -> str:
    """The section, or nothing if no such bench was run. ``before`` has the figures of an earlier
    state; they stand in for those that were not measured again. ``about_before`` says how they were
    taken."""
    targets = [target for target in TARGETS if CASES[target.case].store]
    rows = [
        row
        for target in targets
        if (row := _row(target, results.get(target.case), before.get(target.case)))
    ]
    if not rows:
        return ""
    header = (
        "| work | ours | ratio | target | verdict | requests | depth | MiB received "
        "| $ per million | before |"
    )
    rule = "| --- | ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: |"
    pictures = [f"![{name}](benchmarks/{name}.svg)" for name in drawn]
    dates = sorted({result.date[:10] for result in before.values()})
    about = f"\n*Before* is the state of {dates[-1]}.\n{about_before}" if dates else ""
    heading = f"## At {MAIN} ms a request\n"
    text = f"{ABOUT}{about}".rstrip() + "\n"
    old = [
        f"\n### {name}, before\n\n{markdown(CASES[name], result)}"
        for name, result in before.items()
        if name not in results
    ]
    return "\n".join([heading, text, header, rule, *rows, "", *pictures, *old])


def draw_timelines(folder: Path, into: Path, name: str) -> list[str]:
    """Draw the records in ``folder`` of ours and of each reference; returns the pictures' names."""
    drawn = []
    for case, operation in OPERATIONS.items():
        for peer in ("ours-s3", CASES[case].reference):
            path = folder / f"{case}-{peer}.json"
            if path.exists():
                content = json.loads(path.read_text())
                picture = svg(f"{operation}, {peer}", Record.of(content["record"]), content["ms"])
                drawn.append(f"{name}-{path.stem}")
                (into / f"{name}-{path.stem}.svg").write_text(picture)
    return drawn


def _row(target: Target, now: Result | None, before: Result | None) -> str | None:
    shown = now or before
    verdict = target.judge(shown) if shown else None
    if shown is None or verdict is None:
        return None
    metric = next(each for each in CASES[target.case].metrics if each.name == target.metric)
    ratio = f"{number(verdict.ratio, 2)} {TIMES} {target.against}" if verdict.ratio else DASH
    said = "reached" if verdict.short_by is None else _short(target, verdict.short_by)
    counted = (("requests", 0), ("depth", 0), ("down_mib", 2), ("dollars", 2))
    cells = [
        target.work,
        f"{number(verdict.measured, metric.digits)} {metric.unit}".strip(),
        ratio,
        target.goal_text(),
        said if now else f"before: {said}",
        *(_figure(shown.median(target.ours, name), digits) for name, digits in counted),
        _figure(before.median(target.ours, target.metric), metric.digits) if before else DASH,
    ]
    return f"| {' | '.join(cells)} |"


def _short(target: Target, share: float) -> str:
    if not target.goal:
        return f"**short by {share:.2g} {target.unit}**"
    return f"**short by {max(share * 100, 0.1):.0f} %**"


def _figure(value: float | None, digits: int) -> str:
    return DASH if value is None else number(value, digits)
