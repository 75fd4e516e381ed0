"""What is told of a running round: shares of the whole pass, and nothing where Spark does not
tell."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pyspark
import pytest

from blockstore.spark.merging.progress import Progress, reporting


def test_what_a_part_tells_is_its_share_of_the_whole() -> None:
    heard: list[float] = []
    round_ = Progress(call=heard.append).part(32, 64, 64)
    round_.ended(0.5)
    half = round_.part(1, 2, 2)
    half.ended(0.0)
    half.ended(1.0)
    assert heard == [0.75, 0.75, 1.0]


def test_a_session_without_a_tracker_tells_nothing_and_an_error_of_the_job_passes() -> None:
    heard: list[float] = []
    with (
        pytest.raises(KeyError),
        reporting(SimpleNamespace(), Progress(call=heard.append), "merges"),
    ):
        raise KeyError("the job failed")
    assert heard == []


class Context:
    """A session's context, whose group is ``others`` before and whose tracker and threads may
    fail."""

    def __init__(self) -> None:
        self.group: str | None = "others"
        self.asked = 0

    def getLocalProperty(self, _: str) -> str | None:
        return self.group

    def setLocalProperty(self, _: str, group: str | None) -> None:
        self.group = group

    def statusTracker(self) -> object:
        self.asked += 1
        raise RuntimeError("the tracker does not answer")


def test_a_tracker_that_fails_ends_neither_the_round_nor_the_telling() -> None:
    context = Context()
    with reporting(SimpleNamespace(_sc=context), Progress(call=print), "merges", every_s=0.001):
        assert context.group == "merges"
        while context.asked < 3:
            time.sleep(0.001)
    assert context.group == "others"


def test_without_a_thread_nothing_is_told_and_the_round_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Threads(pyspark.InheritableThread):  # type: ignore[misc]
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(pyspark, "InheritableThread", Threads)
    context, done = Context(), []
    with reporting(SimpleNamespace(_sc=context), Progress(call=print), "merges"):
        done.append(1)
    assert (done, context.group) == ([1], "others")
