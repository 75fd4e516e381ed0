"""Changers that meet: each kind of conflict of rows happens, and no promise is broken; and commits
that compare less are seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from blockstore.rows.seen import Seen
from blockstore.rows.streams import AllNamed
from tests.blockstore.simulation.rivals import conflicts, outcomes
from tests.support.tally import tally

SEEDS, STEPS = 4, 2_000
LEAST = 2


def test_each_kind_of_conflict_of_rows_happens() -> None:
    found = conflicts(SEEDS, STEPS)
    assert {kind: number for kind, number in found.items() if number < LEAST} == {}
    tally("simulated conflicts of rows", sum(found.values()))


def test_a_commit_that_compares_written_rows_alone_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Seen, "check", lambda *_: None)
    problems = (outcome.problem for outcome in outcomes(SEEDS, STEPS, first=6))
    assert any("it would do" in (problem or "") for problem in problems)
    tally("planted faults seen")


def test_a_commit_that_does_not_compare_the_rows_that_it_leaves_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = vars(AllNamed)["hashes"].fget
    monkeypatch.setattr(AllNamed, "hashes", property(lambda one: written(replace(one, left=()))))
    monkeypatch.setattr(AllNamed, "left_hashes", property(lambda _: np.zeros(0, np.uint64)))
    problems = (outcome.problem for outcome in outcomes(SEEDS, STEPS, first=11))
    assert any("changed it since" in (problem or "") for problem in problems)
    tally("planted faults seen")
