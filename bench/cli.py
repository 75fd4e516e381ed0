"""The command line of the benches: which to run, how big, where the results go."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from rich.console import Console

from bench import peers
from bench.case import Scale
from bench.cases import CASES, select
from bench.cases.at_latency import DELAYS_VARIABLE
from bench.machine import Machine
from bench.report import load_results, write
from bench.result import Status
from bench.runner import PROJECT, TIMELINES, Runner
from bench.table import terminal

__all__ = ["app", "run"]

RESULTS = PROJECT / "bench" / "results"
DOCS = PROJECT / "docs" / "benchmarks.md"
BUSY = 0.25
SCRATCH = PROJECT / ".scratch" / "bench"

app = App(name="scripts/bench", help="Ours against the peers, in one run on this machine.")


@app.default
def run(
    *names: str,
    list_: Annotated[bool, Parameter(name="--list", negative="")] = False,
    quick: Annotated[bool, Parameter(negative="")] = False,
    tiny: Annotated[bool, Parameter(negative="")] = False,
    selection: Annotated[str, Parameter(name="--peers")] = "",
    rounds: int | None = None,
    results: Path | None = None,
    delays: str = "",
    docs: Annotated[bool, Parameter(negative="")] = False,
    keep: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Run benches and print their tables.

    Parameters
    ----------
    names
        Benches or groups of them (``open`` means all ``open-…``), or ``all``. None lists them.
    list_
        List the benches and the peers.
    quick
        Small sizes and one round; nothing published changes.
    tiny
        Seconds only: shows that the harness works.
    selection
        Contestants or families to take part, between commas: ``ours,lance``.
    rounds
        Rounds instead of each bench's own number.
    results
        Where the JSON files go; by default bench/results for a full run over all peers, else
        .scratch/bench.
    delays
        For the benches on an S3 server with latency: the delays in ms, between commas, instead of
        0,5,25,100; nothing published changes.
    docs
        Draw docs/benchmarks.md again from bench/results, with or without a run.
    keep
        Leave the tables and logs of the run in .scratch/bench.
    """
    console = Console()
    try:
        chosen, cases = peers.names(selection), select(names)
    except ValueError as error:
        print(f"bench: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    if list_ or not (cases or docs):
        for case in CASES.values():
            console.print(
                f"[bold]{case.name:12}[/] {case.sentence}", f"[dim]({', '.join(case.peers)})[/]"
            )
        return
    scale = Scale.TINY if tiny else Scale.QUICK if quick else Scale.FULL
    published = scale is Scale.FULL and not (selection or delays) and rounds is None
    destination = results or (RESULTS if published else SCRATCH / "results")
    SCRATCH.mkdir(parents=True, exist_ok=True)
    busy = os.getloadavg()[0] / Machine.here().cores
    if busy > BUSY:
        console.print(
            f"[yellow]other work keeps this machine {busy:.0%} busy: take no figure for a fact[/]"
        )
    if delays:
        os.environ[DELAYS_VARIABLE] = delays
    root = Path(tempfile.mkdtemp(prefix="run-", dir=SCRATCH))
    ours_failed = False
    runner = Runner(
        root, scale, chosen, lambda line: console.print(f"[dim]{line}[/]", highlight=False)
    )
    try:
        for case in cases:
            result = runner.run(case, rounds)
            path = result.save(destination)
            if (root / TIMELINES).exists():
                shutil.copytree(root / TIMELINES, destination / TIMELINES, dirs_exist_ok=True)
            console.print(terminal(case, result))
            console.print(f"[dim]{path}[/]", highlight=False)
            ours_failed |= any(
                peer.startswith("ours") and found.status is Status.FAILED
                for peer, found in result.contestants.items()
            )
        if docs or (cases and destination == RESULTS):
            write(load_results(RESULTS), DOCS, RESULTS)
    finally:
        runner.close()
        if keep or ours_failed:
            console.print(f"the run's tables and logs are in {root}")
        else:
            shutil.rmtree(root, ignore_errors=True)
    if ours_failed:
        raise SystemExit(1)
