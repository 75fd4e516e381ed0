"""The simulation on tables whose checkpoints are roots, with leaves of a few items: no seed breaks
a promise."""

from __future__ import annotations

import os

import pytest

from blockstore.index import log as log_module
from blockstore.index.tree import grow
from blockstore.index.tree.split import Rule
from blockstore.simulation.actors.cast import cast
from blockstore.simulation.ground import Kind
from blockstore.simulation.run import kind_of, run
from tests.support.tiers import is_fast

SEEDS = 3 if is_fast() else int(os.environ.get("BLOCKSTORE_SEEDS", "48")) // 4
STEPS = 1_200


@pytest.mark.parametrize("seed", [one for one in range(SEEDS) if kind_of(one) is not Kind.LISTED])
def test_no_seed_breaks_a_promise_on_a_table_in_leaves(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grow, "BLOCKS", Rule(bits=2, most=8))
    monkeypatch.setattr(grow, "SOURCES", Rule(bits=2, most=8))
    monkeypatch.setattr(log_module, "every", lambda blocks: 4)
    outcome = run(seed, STEPS, cast(), tree=True)
    assert outcome.problem is None, "\n".join([outcome.problem, *outcome.tail])
