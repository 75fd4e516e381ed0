"""A long job says how far it is; what Spark does not tell costs nothing."""

from __future__ import annotations

import logging
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from blockstore.spark.writing.progress import progress
from blockstore.world import World


def lines(session: Any, caplog: pytest.LogCaptureFixture) -> list[str]:
    """What is said until something is."""
    said = threading.Event()

    class Saying(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.set()

    handler = Saying()
    logger = logging.getLogger("blockstore.spark")
    logger.addHandler(handler)
    try:
        with (
            caplog.at_level(logging.INFO, logger="blockstore.spark"),
            progress(session, "s3://lake/flights", World.manual(), every_s=0.01),
        ):
            assert said.wait(60)
    finally:
        logger.removeHandler(handler)
    return [record.getMessage() for record in caplog.records]


def test_the_tasks_of_the_stages_that_run_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    stages = {
        1: SimpleNamespace(numTasks=100, numCompletedTasks=37),
        2: SimpleNamespace(numTasks=4, numCompletedTasks=0),
        3: None,
    }
    tracker = SimpleNamespace(getActiveStageIds=lambda: list(stages), getStageInfo=stages.get)
    session = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker))
    assert lines(session, caplog)[0] == "s3://lake/flights: 37 of 104 tasks, 0 s"


def test_a_session_that_does_not_tell_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    assert lines(SimpleNamespace(), caplog)[0] == "s3://lake/flights: 0 s"


def test_no_thread_is_left_after_the_job_also_if_it_failed() -> None:
    with pytest.raises(KeyError), progress(SimpleNamespace(), "s3://lake/flights", World.manual()):
        raise KeyError("the job failed")
    assert not [thread for thread in threading.enumerate() if thread.name == "blockstore-progress"]
