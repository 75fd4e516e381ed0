"""A killed follower sees each change once, in order."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.feed_killing import run
from tests.support.tally import tally


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_follower_that_is_killed_applies_each_change_once(tmp_path: Path) -> None:
    done = run(tmp_path, kills=2, commits=60, seed=0)
    tally("kills of followers", done.kills)
    assert done.violations == []
    assert (done.kills, done.commits) == (2, 60)
    assert done.merges > 0
