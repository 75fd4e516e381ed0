"""Changers that meet, on tables whose rows have an identity: how often each kind of conflict of
rows happens, with no promise broken.

    python -m tests.blockstore.simulation.rivals --seeds 50 --steps 2000 --least 100

The runs of the simulation play many roles, so few changes of rows meet in them. Here ten changers
work on few rows beside the compactor, and know them as they were some versions ago. A state knows
what its last two entries have touched, as one of a long history knows that of the last thousand.
Two of three tables are ``serializable``: there each change must do what it would do had it read
the version before its own.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from blockstore.format.properties import Isolation
from blockstore.index import touches
from blockstore.simulation.actors.cast import cast
from blockstore.simulation.actors.changers import RIVALS
from blockstore.simulation.actors.conflicts import RowConflictKind
from blockstore.simulation.replaced_history import is_replaced
from blockstore.simulation.report import Section
from blockstore.simulation.run import Outcome, kind_of, run

_KEPT_ENTRIES = 2
_ISOLATIONS = (Isolation.SERIALIZABLE, Isolation.SERIALIZABLE, Isolation.WRITE_SERIALIZABLE)


def seeds() -> Iterator[int]:
    """The seeds whose tables have rows with an identity."""
    return (one for one in itertools.count() if kind_of(one).has_identity and not is_replaced(one))


def outcomes(count: int, steps: int, first: int = 0) -> Iterator[Outcome]:
    """Run so many seeds, from the place ``first`` among them."""
    roles = (*RIVALS, *(role for role in cast() if role.tends))
    with _few_entries_known():
        runs = zip(seeds(), itertools.cycle(_ISOLATIONS), strict=False)
        for seed, isolation in itertools.islice(runs, first, first + count):
            yield run(seed, steps, roles, isolation=isolation)


def conflicts(count: int, steps: int) -> Mapping[str, int]:
    """How often each kind happened. Raises AssertionError where a promise was broken."""
    found: Counter[str] = Counter({str(kind): 0 for kind in RowConflictKind})
    for outcome in outcomes(count, steps):
        assert outcome.problem is None, f"seed {outcome.seed}: {outcome.problem}"
        found.update(outcome.report.of(Section.CONFLICTS))
    return found


@contextmanager
def _few_entries_known() -> Iterator[None]:
    before = touches._KEPT_ENTRIES
    touches._KEPT_ENTRIES = _KEPT_ENTRIES
    try:
        yield
    finally:
        touches._KEPT_ENTRIES = before


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--steps", type=int, default=2_000)
    parser.add_argument("--least", type=int, default=100)
    asked = parser.parse_args()
    found = conflicts(asked.seeds, asked.steps)
    for kind, number in sorted(found.items()):
        print(f"  {number:>6}  {kind}")
    print(
        f"rivals: {asked.seeds} seeds of {asked.steps:,} steps, no promise broken, "
        f"{sum(found.values()):,} conflicts of rows, each kind at least {min(found.values()):,} "
        "times"
    )
    return 1 if min(found.values()) < asked.least else 0


if __name__ == "__main__":
    sys.exit(main())
