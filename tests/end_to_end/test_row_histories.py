"""Killed clients lose no append to a list, and read none that was not made."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.row_histories import run
from tests.support.elle import OK
from tests.support.tally import tally


@pytest.mark.timeout(300)
def test_what_killed_clients_read_and_wrote_is_isolated_by_snapshots(tmp_path: Path) -> None:
    done = run(tmp_path, seconds=5, clients=3, seed=0)
    tally("kills of clients that change rows", done.kills)
    assert done.problems == []
    assert done.kills > 0
    assert done.count(OK) > 0
