"""``simulate --large``: every piece of work has its figures."""

from __future__ import annotations

import pytest

from tests.blockstore.cli.conftest import Command

WORKS = [
    "make the table",
    "open",
    "first plan of a point query",
    "second",
    "plan of everything",
    "plan for one pass over everything",
    "the pass",
    "compact --plan",
    "commit, median of 62",
    "commit with a checkpoint",
    "first export to Iceberg",
    "export of one more version, median of 9",
    "plan again",
    "plan again after 100 new blocks",
    "open, compact --plan of a merged table, 100 new blocks",
]


@pytest.mark.slow  # starts nine processes
def test_every_work_is_measured(blockstore: Command) -> None:
    found = blockstore("simulate", "--large", "200", "--json").json
    assert found["blocks"] == 200
    assert [figure["work"] for figure in found["figures"]] == WORKS
    assert all(figure["wall_s"] >= 0 and figure["cpu_s"] >= 0 for figure in found["figures"])
    assert found["figures"][WORKS.index("export of one more version, median of 9")]["bytes"] > 1_000


def test_a_number_below_one_is_refused(blockstore: Command) -> None:
    assert "--large must be at least 1" in blockstore("simulate", "--large", "-1", code=2).err
