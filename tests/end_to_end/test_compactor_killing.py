"""A compactor that is killed again and again under load loses nothing and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.compactor_killing import run
from tests.support.tally import tally

pytestmark = pytest.mark.slow


@pytest.mark.timeout(900)
def test_a_compactor_killed_ten_times_under_load_loses_nothing_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    """Slow (about a minute) because eleven processes start one after the other, beside six that
    work; that is the point."""
    done = run(10, 7, tmp_path)
    tally("kills of the compactor", done.kills)
    tally("kills of the compactor at work", done.at_work)
    assert done.problems == []
    assert done.kills == 10
    assert done.batches > 0
    assert done.polls > 0
    # By the log, so far as its last line tells: the long series asks for more.
    assert done.at_work >= 2
