"""The end of a simulated run: every thread ends with it, and what it does meanwhile is not a
finding."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from blockstore.simulation.draw import Draw
from blockstore.simulation.schedule import Scheduler, Stopped, Task


@dataclass
class Living:
    stalled_until: int = 0
    dying: bool = False


def untidy(scheduler: Scheduler, ends: list[str]) -> Task:
    """One that continues forever, and fails while it tidies up."""

    def body(task: Task) -> None:
        try:
            while True:
                scheduler.sleep(1)
        except Stopped:
            ends.append(task.name)
            raise ValueError("there is no table any more") from None

    return Task(f"task-{len(scheduler.tasks)}", Living(), body)


def test_threads_that_fail_while_they_are_stopped_end_quietly() -> None:
    """The second of them would give its turn to the main thread, which has it."""
    scheduler, ends = Scheduler(Draw(1)), list[str]()
    for _ in range(3):
        scheduler.add(untidy(scheduler, ends))
    scheduler.run(lambda: scheduler.now_ms > 1_700_000_000_500)
    scheduler.stop()
    assert ends == ["task-0", "task-1", "task-2"]
    assert scheduler.failure is None
    assert not any(task.thread.is_alive() for task in scheduler.tasks if task.thread is not None)


def test_what_fails_before_the_end_is_the_finding() -> None:
    scheduler = Scheduler(Draw(1))

    def body(task: Task) -> None:
        scheduler.sleep(1)
        raise ValueError("a row is lost")

    scheduler.add(Task("one", Living(), body))
    scheduler.run(lambda: False)
    scheduler.stop()
    with pytest.raises(ValueError, match="a row is lost"):
        raise scheduler.failure or AssertionError("nothing was found")
