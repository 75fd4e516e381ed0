"""Executors, Python workers and drivers die under Spark jobs: the table is exact, and readers see
all of a job or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.spark_killing import POINTS, kill_series

pytestmark = pytest.mark.slow


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.timeout(1_500)
def test_six_kills_at_six_points_leave_every_row_once(tmp_path: Path) -> None:
    """Slow because it starts a cluster of processes and four drivers: only real ones can be killed.

    ``scripts/prove`` kills 30, each in a cluster.
    """
    report = kill_series(len(POINTS), 1, tmp_path, only_drivers_alone=True)
    print(report)
    assert report.violations == []
    assert (
        len(report.kills) == len({kill.rpartition(",")[0] for kill in report.kills}) == len(POINTS)
    )
    assert report.reads > len(POINTS), "the reader polled all through"
