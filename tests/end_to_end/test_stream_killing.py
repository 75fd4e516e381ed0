"""A few kills of the series that ``scripts/prove`` runs long: each row once, wherever a stream is
killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.stream_killing import run

pytestmark = pytest.mark.slow


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(3000)
def test_a_stream_that_is_killed_at_three_points_of_a_batch_writes_each_row_once(
    tmp_path: Path,
) -> None:
    """Slow because it starts a Spark of its own for each kill: only a real process can be killed at
    a named point."""
    series = run(tmp_path, kills=3, batches=4, seed=9)
    assert series.violations == []
    assert {point for point, _ in series.kills} == {"chunks", "entry", "meta"}
