"""``blockstore simulate``: run the real code under simulated faults, all decided by one seed; with
``--large`` on a table of very many blocks."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from blockstore.cli.failure import FAILED, Usage
from blockstore.cli.options import Json
from blockstore.cli.output import Column, count, counted, say, show_json, show_table, size

if TYPE_CHECKING:
    from blockstore.simulation.large.work import Figure
    from blockstore.simulation.run import Outcome
    from blockstore.simulation.series import Series


_DAY_MS = 86_400_000
_FIGURES = (
    Column("work", "work"),
    Column("wall", "seconds", right=True),
    Column("cpu", "of the CPU", right=True),
    Column("peak", "memory, MiB", right=True),
    Column("size", "written", right=True),
)


def simulate(
    *,
    seed: int = 0,
    seeds: int = 1,
    steps: int = 2000,
    least: int = 0,
    processes: Annotated[int, Parameter(name=["--processes", "-j"])] = 0,
    large: int = 0,
    tree: Annotated[bool, Parameter(negative="")] = False,
    json: Json = False,
) -> int:
    """Test the real code under simulated faults, from a seed.

    Writers, compactors, readers and people work on one table in memory. Responses are lost,
    requests arrive late, listings are stale, processes crash and clocks are wrong. After every step
    an oracle compares what they see with what must be true. The same seed gives the same run. The
    exit code is 1 if a guarantee was broken; the output names the command that replays the run.

    With --large no fault is simulated: a table of so many blocks is made, and opening it, planning
    and committing are measured.

    Parameters
    ----------
    seed
        The first seed.
    seeds
        How many seeds, one run each.
    steps
        Requests to the store in one run, before the faults end and all processes finish.
    least
        Fail unless each required event has happened at least this often in all runs together.
    processes
        How many runs at the same time; 0 is one for each processor.
    large
        Measure a table of so many blocks, which have no files.
    tree
        Measure one whose index is in leaves.
    json
        Print JSON.
    """
    if large:
        return _measure(large, tree=tree, json=json)
    from blockstore.simulation.series import run_series

    if min(seeds, steps) < 1 or min(seed, least, processes) < 0:
        raise Usage(
            "--seeds and --steps must be at least 1, --seed, --least and --processes at least 0"
        )
    wanted = min(seeds, processes or os.cpu_count() or 1)
    watch = _show_progress if sys.stderr.isatty() else _silent
    series = run_series(range(seed, seed + seeds), steps, processes=wanted, watch=watch)
    missing = series.report.missing(least) if least and series.broken is None else []
    if json:
        show_json(_to_json(series, steps, missing))
    else:
        _show(series, steps, missing)
    return FAILED if series.broken is not None or missing else 0


def _measure(blocks: int, *, tree: bool, json: bool) -> int:
    if blocks < 1:
        raise Usage("--large must be at least 1, a number of blocks")
    from blockstore.simulation.large.measure import measure_large

    figures = []
    for figure in measure_large(blocks, tree=tree):
        figures.append(figure)
        if sys.stderr.isatty():
            sys.stderr.write(f"{figure.work}: {figure.wall_s:.3f} s\n")
    if json:
        show_json({"blocks": blocks, "figures": [_figure_json(figure) for figure in figures]})
    else:
        show_table(_FIGURES, [_figure_row(figure) for figure in figures])
    return 0


def _figure_row(figure: Figure) -> dict[str, str]:
    return {
        "work": figure.work,
        "wall": f"{figure.wall_s:.3f}",
        "cpu": f"{figure.cpu_s:.3f}",
        "peak": "" if figure.peak_mib is None else f"{figure.peak_mib:,.0f}",
        "size": "" if figure.bytes is None else size(figure.bytes),
    }


def _figure_json(figure: Figure) -> dict[str, object]:
    return {
        "work": figure.work,
        "wall_s": figure.wall_s,
        "cpu_s": figure.cpu_s,
        "peak_mib": figure.peak_mib,
        "bytes": figure.bytes,
    }


def _show(series: Series, steps: int, missing: list[str]) -> None:
    for section, counts in series.report.sections():
        say(f"{section}:")
        for name, number in counts.items():
            say(f"  {count(number):>12}  {name}")
    days = series.simulated_ms // _DAY_MS
    say(
        f"{counted(series.runs, 'run')}, {counted(series.steps, 'step')}, "
        f"{counted(days, 'simulated day')}"
    )
    if series.runs == 1:
        say(f"trace {series.digest}")
    broken = series.broken
    if broken is not None:
        sys.stderr.write("\n".join([*broken.tail, ""]))
        sys.stderr.write(
            f"error: seed {broken.seed} broke a guarantee at step {broken.steps}: "
            f"{broken.problem}\n"
        )
        sys.stderr.write(f"replay it: {_replay(broken, steps)}\n")
    for clause in missing:
        sys.stderr.write(f"error: too rare: {clause}\n")


def _to_json(series: Series, steps: int, missing: list[str]) -> dict[str, object]:
    broken = series.broken
    return {
        "runs": series.runs,
        "steps": series.steps,
        "simulated_ms": series.simulated_ms,
        "trace": series.digest if series.runs == 1 else None,
        "counts": {str(section): counts for section, counts in series.report.sections()},
        "too_rare": missing,
        "broken": None
        if broken is None
        else {
            "seed": broken.seed,
            "step": broken.steps,
            "problem": broken.problem,
            "replay": _replay(broken, steps),
            "tail": list(broken.tail),
        },
    }


def _replay(broken: Outcome, steps: int) -> str:
    return f"blockstore simulate --seed {broken.seed} --steps {steps}"


def _show_progress(outcome: Outcome) -> None:
    sys.stderr.write(f"seed {outcome.seed}: {counted(outcome.steps, 'step')}\n")


def _silent(outcome: Outcome) -> None:
    return None
