"""A file whose upload is killed: absent or whole, and whole once however often it comes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.csv_upload import make, run


@pytest.mark.slow
def test_a_file_killed_in_its_last_second_comes_once(tmp_path: Path) -> None:
    """Slow because each step is a process; ``csv_upload --rows 100000000`` is the long series, by
    a gateway too (a gateway is killed at random in ``gateway_killing``)."""
    rows, file = 400_000, tmp_path / "rows.csv"
    make(file, rows)
    report = run("command", file, rows, tmp_path)
    assert report.violations == []
    assert len(report.killed) == 2
    assert len(report.costs) == 2
