"""A few seconds of the run that ``scripts/prove`` makes long: on a store that fails, nothing
acknowledged is lost, and no read is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.latency.faults import Faults
from tests.end_to_end.s3_faults import run
from tests.support.tally import tally

pytestmark = [pytest.mark.s3, pytest.mark.alone]


def test_on_a_store_that_fails_nothing_is_lost_and_no_read_is_wrong(
    s3_url: str, tmp_path: Path
) -> None:
    """Slow (some fifteen seconds) because six processes start and bursts last by the real clock;
    more requests fail than in the long run, so that few of them meet many faults."""
    faults = Faults(seed=5, slow=0.02, slow_s=0.5, failing=0.05, burst_every_s=3, burst_s=0.5)
    report = run(
        s3_url, tmp_path, seconds=6, delay_ms=5, faults=faults, writers=2, readers=1,
        with_gateway=False,
    )  # fmt: skip
    tally("faults of a store", sum(report.injected.values()))
    assert report.violations == []
    assert len(report.injected) > 5
    assert report.operations["append"] > 0
    assert report.operations["point"] + report.operations["scan"] > 0
