"""What is told of a running round: shares of the whole pass, and nothing where Spark does not tell."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from spark.merging.telling import Told, telling


def test_what_a_part_tells_is_its_share_of_the_whole() -> None:
    heard: list[float] = []
    round_ = Told(call=heard.append).part(32, 64, 64)
    round_.ended(0.5)
    half = round_.part(1, 2, 2)
    half.ended(0.0)
    half.ended(1.0)
    assert heard == [0.75, 0.75, 1.0]


def test_a_session_without_a_tracker_tells_nothing_and_an_error_of_the_job_passes() -> None:
    heard: list[float] = []
    with pytest.raises(KeyError), telling(SimpleNamespace(), Told(call=heard.append), "merges"):
        raise KeyError("the job failed")
    assert heard == []
