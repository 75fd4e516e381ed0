"""A group of gateways behind a balancer: one is killed, and one joins."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.gateway_group import make, run

pytestmark = [pytest.mark.s3, pytest.mark.slow]


@pytest.mark.timeout(900)
def test_a_group_answers_right_while_one_is_killed_and_one_joins(
    s3_url: str, tmp_path: Path
) -> None:
    """Slow because its gateways are real processes; ``gateway_group --tables 20`` is the long
    one, and compares with gateways that are no group."""
    lake = f"{s3_url}/group"
    make(lake, tables=8, rows=2_000)
    report = run(lake, tmp_path / "group", tables=8, rows=2_000, clients=3, queries=60)
    assert report.problems == []
    assert report.queries >= 60
    assert report.passed["answered"] > report.queries // 4
    assert report.before.copies < 1.3, "each table is cached at its owner"
