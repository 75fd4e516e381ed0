"""The simulation: no seed breaks a promise, everything that must happen happens, and a planted
fault is seen."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterable

import pytest

from blockstore.simulation.actors.cast import cast
from blockstore.simulation.ground import Kind
from blockstore.simulation.replaced_history import Strike, is_replaced
from blockstore.simulation.report import Section
from blockstore.simulation.run import kind_of, run
from blockstore.simulation.series import run_series
from tests.blockstore.simulation.plants import PLANT_SEEDS, PLANTS
from tests.blockstore.simulation.row_plants import ROW_PLANTS, ROW_SEEDS
from tests.support.segments import segments_everywhere
from tests.support.tally import tally
from tests.support.tiers import is_fast

STEPS = 2_000
SEEDS = 8 if is_fast() else int(os.environ.get("BLOCKSTORE_SEEDS", "48"))
LONG = SEEDS >= 128
"""Whether this is the series of scripts/prove."""
LEAST = 0 if is_fast() else 100 if LONG else 30
"""How often each fault, response and error happens in all runs together, or the series proves too
little."""
RARELY = 0 if is_fast() else 8 if LONG else 1
"""The same for each refusal of the index, which needs two to meet."""
REFUSALS = ("BlockCondemned", "Conflict", "Fenced", "Invalid", "Moved", "block left out: accounted")

PLANTED_SEEDS = 50
REPLACED = (
    "entries_of_every_history_count",
    "no_look_after_the_create",
    "no_look_before_an_entry_is_sent_again",
)
"""Faults that only a replaced history shows."""
CHANGES = (
    "entry: append",
    "entry: expire",
    *(f"rows changed: {name}" for name in ("delete", "merge", "overwrite", "revert")),
    *(f"rows changed: {name}" for name in ("restore", "update", "upsert")),
    *(f"rows merged: {name}" for name in ("changes", "history", "promotion", "purge")),
)
"""What must happen to rows that have an identity."""

DIGEST = """
from blockstore.simulation.actors.cast import cast
from blockstore.simulation.run import kind_of, run
print(run(5, 400, cast()).digest)
"""


def test_the_same_seed_is_the_same_run_in_any_process() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", DIGEST],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(digests) == 1
    assert digests != {"\n"}


@pytest.mark.timeout(900)
def test_no_seed_breaks_a_promise_and_everything_happens_often_enough() -> None:
    """Slow because it is the proof: every step is followed by the oracle."""
    series = run_series(range(SEEDS), STEPS, processes=2)
    broken = series.broken
    assert broken is None, (
        f"seed {broken.seed}, step {broken.steps}: {broken.problem}; replay: blockstore simulate "
        f"--seed {broken.seed} --steps {STEPS}"
    )
    assert series.report.missing(LEAST) == []
    refused = series.report.of(Section.REFUSALS)
    assert {name: refused.get(name, 0) for name in REFUSALS if refused.get(name, 0) < RARELY} == {}
    events = series.report.of(Section.EVENTS)
    assert {
        strike: events.get(strike, 0) for strike in Strike if events.get(strike, 0) < LEAST
    } == {}
    assert is_fast() or [name for name in CHANGES if not events.get(name)] == []
    tally("simulated steps", series.steps)
    for strike in Strike:
        tally(f"simulated disasters: {strike}", events[strike])


def test_blocks_with_the_hashes_of_their_segments_break_no_promise() -> None:
    """Blocks of a few rows have none, and so none of the runs above: here each has them, and with
    them one more request at which a process may die."""
    with segments_everywhere():
        for seed in range(8):
            assert run(seed, 600, cast()).problem is None, seed


def _is_broken(seed: int, steps: int) -> bool:
    """Whether a promise is broken, and not the plant itself."""
    problem = run(seed, steps, cast()).problem
    assert "TypeError" not in (problem or ""), f"the plant does not fit the code: {problem}"
    return problem is not None


@pytest.mark.timeout(900)
@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_fault_is_seen(plant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTS[plant](monkeypatch)
    seeds: Iterable[int] = (
        seed
        for seed in itertools.count(PLANT_SEEDS.get(plant, 0))
        if is_replaced(seed) is (plant in REPLACED) and not kind_of(seed).has_identity
    )
    if plant in REPLACED:
        seeds = (seed for seed in seeds if kind_of(seed) is Kind.INDEXED)
    tried = itertools.islice(seeds, PLANTED_SEEDS)
    seen = next((seed for seed in tried if _is_broken(seed, STEPS)), None)
    assert seen is not None, f"{plant!r} went unseen in {PLANTED_SEEDS} seeds"
    print(f"{plant}: seen with seed {seen}")
    tally("planted faults seen")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("plant", ROW_PLANTS)
def test_a_fault_planted_where_rows_change_is_seen(
    plant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ROW_PLANTS[plant](monkeypatch)
    first = ROW_SEEDS[plant]
    seeds = (
        seed
        for seed in itertools.count(first)
        if kind_of(seed).has_identity and not is_replaced(seed)
    )
    tried = itertools.islice(seeds, PLANTED_SEEDS)
    seen = next((seed for seed in tried if _is_broken(seed, STEPS)), None)
    assert seen is not None, f"{plant!r} went unseen in {PLANTED_SEEDS} seeds"
    print(f"{plant}: seen with seed {seen}")
    tally("planted faults seen")
