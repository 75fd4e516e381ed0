"""Whose turn it is, and what time it is.

Tasks are ordinary threads that take turns: exactly one runs, and it gives up its turn whenever it
sends a request to the store, sleeps, or waits for another thread. The one that continues is drawn
among those that could.

Rules:
- A turn is handed from thread to thread; the thread that has it may touch everything here without a
  lock.
- Simulated time moves by what requests take. When no task could continue, it jumps to where one
  can.
- Every so often a *night* comes: tasks that are between two operations rest, the others continue
  until they rest too (or for so many steps: some are caught by it), and hours or days pass at once.
  In ``peace`` no task is caught by one.
- What was sent and not delivered yet (``later``) arrives when its time comes, even if its sender
  has died since.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable
from typing import NoReturn, Protocol

from blockstore.simulation.draw import Draw

START_MS = 1_700_000_000_000
MINUTE_MS = 60_000
HOUR_MS = 3_600_000

_NIGHT = 1 / 110
"""How often a step is the last before a night."""
_PACES = (
    ((10 * MINUTE_MS, HOUR_MS), (HOUR_MS, 8 * HOUR_MS), (8 * HOUR_MS, 30 * HOUR_MS)),
    ((HOUR_MS, 8 * HOUR_MS), (8 * HOUR_MS, 30 * HOUR_MS)),
    ((HOUR_MS, 8 * HOUR_MS), (8 * HOUR_MS, 30 * HOUR_MS)),
    ((8 * HOUR_MS, 30 * HOUR_MS), (24 * HOUR_MS, 144 * HOUR_MS)),
)
"""How long nights are; a run draws one of these, so that some see hours go by and some months."""
_FAVORED = 0.7
_FAVORITE_ENDS = 1 / 60
_EVENING_STEPS = 160
"""So many steps after its call a night comes, even if some are not at rest."""


class Killed(BaseException):
    """The process dies here. Not an Exception: no handler may survive it."""


class Stopped(BaseException):
    """The run is over."""


class Life(Protocol):
    """What the scheduler must know of the process behind a task."""

    stalled_until: int
    dying: bool


class Task:
    """One thread of one process."""

    def __init__(self, name: str, process: Life, body: Callable[[Task], None]) -> None:
        self.name = name
        self.process = process
        self.body = body
        self.wake_ms = 0
        self.event: threading.Event | None = None
        """What it waits for, if it waits for another thread."""
        self.idle = False
        """Whether it is between two operations."""
        self.dead = False
        """Whether it has ended with its process, and waits for the next life."""
        self.ended = False
        self.begun = (0, 0)
        """The era and the step in which it began the operation that it is in."""
        self.baton = threading.Lock()
        self.baton.acquire()
        self.thread: threading.Thread | None = None

    def wakes_at(self) -> int | None:
        """When it could continue; None if only another thread can wake it."""
        if self.process.dying and not self.dead:
            return 0
        if self.event is not None and not self.event.is_set():
            return None
        return max(self.wake_ms, self.process.stalled_until)


class Scheduler:
    """Turns and time of one run."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._pace = draw.choice(_PACES)
        self.now_ms = START_MS
        self.steps = 0
        self.failure: BaseException | None = None
        self.nights = 0
        self.peace = False
        self.tasks: list[Task] = []
        self.current: Task | None = None
        self.at_night: Callable[[], None] = lambda: None
        """Called when a night is over."""
        self._favorite: Task | None = None
        self._until: Callable[[], bool] = lambda: True
        self._main = threading.Lock()
        self._main.acquire()
        self._late: list[tuple[int, int, Callable[[], None], str]] = []
        self._sent = 0
        self._evening: int | None = None
        """The step at which a called night comes at the latest."""
        self._stopping = False

    def add(self, task: Task) -> None:
        """Let a task take part; its thread starts waiting for its first turn."""
        task.thread = threading.Thread(target=self._live, args=(task,), name=task.name, daemon=True)
        self.tasks.append(task)
        task.thread.start()

    def run(self, until: Callable[[], bool]) -> None:
        """Let the tasks take turns until ``until`` holds, all have ended, or something failed.

        Called by the main thread.
        """
        self._until = until
        following = self._following()
        if following is not None:
            following.baton.release()
            self._main.acquire()
        self.current = None

    def stop(self) -> None:
        """End every thread. Called by the main thread, once."""
        self._stopping = True
        for task in self.tasks:
            if not task.ended:
                task.baton.release()
            if task.thread is not None:
                task.thread.join()

    def turn(self) -> None:
        """Give up the turn of the running task; returns when it has it again.

        Raises Killed or Stopped.
        """
        task = self.current
        if task is None:
            return  # the main thread, between two runs: it is alone
        self._check(task)
        following = self._following()
        if following is not task:
            self._hand_to(following)
            task.baton.acquire()
        self._check(task)
        self.current = task

    def fail(self, error: BaseException) -> NoReturn:
        """End the run with this failure, whatever the running task would make of an exception."""
        self.failure = self.failure or error
        self.turn()
        raise error

    def sleep(self, milliseconds: int) -> None:
        """The running task sleeps."""
        if self.current is None:
            self.now_ms += milliseconds
            self._deliver()
            return
        self.current.wake_ms = self.now_ms + milliseconds
        self.turn()

    def wait(self, event: threading.Event) -> None:
        """The running task sleeps until another thread has set the event."""
        task = self.current
        if task is None:
            return
        task.event = event
        try:
            while not event.is_set():
                self.turn()
        finally:
            task.event = None

    def later(self, milliseconds: int, deliver: Callable[[], None], what: str = "") -> None:
        """Call ``deliver`` once so much time has passed; ``what`` names it to ``lose``."""
        self._sent += 1
        heapq.heappush(self._late, (self.now_ms + milliseconds, self._sent, deliver, what))

    def lose(self, lost: Callable[[str], bool]) -> None:
        """Drop those on their way for whose names ``lost`` returns True; it is called in the order
        of their times."""
        self._late = [
            one for one in sorted(self._late, key=lambda one: one[:2]) if not lost(one[3])
        ]

    @property
    def on_their_way(self) -> int:
        """How many requests were sent and not delivered yet."""
        return len(self._late)

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass at once; what is on its way is delivered as its time comes."""
        end = self.now_ms + milliseconds
        while self._late and self._late[0][0] <= end:
            self.now_ms = max(self.now_ms, self._late[0][0])
            self._deliver()
        self.now_ms = end

    def call_night(self) -> None:
        """Let a night come as soon as those at work rest."""
        if self._evening is None:
            self._evening = self.steps + _EVENING_STEPS

    def _live(self, task: Task) -> None:
        task.baton.acquire()
        try:
            if self._stopping:
                return
            self.current = task
            task.body(task)
        except Stopped:
            return
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the finding
            if self._stopping:
                return  # tidying up after Stopped, which is no part of the run any more
            self.failure = self.failure or error
        task.ended = True
        self._hand_to(self._following())

    def _check(self, task: Task) -> None:
        if self._stopping:
            raise Stopped
        if task.process.dying and not task.dead:
            self.current = task
            raise Killed

    def _hand_to(self, task: Task | None) -> None:
        (self._main if task is None else task.baton).release()

    def _following(self) -> Task | None:
        """Whose turn is next; None for the main thread's."""
        try:
            return self._choose()
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the finding
            self.failure = self.failure or error
            return None

    def _choose(self) -> Task | None:
        while self.failure is None and not self._until():
            self._deliver()
            if self._evening is None and self._draw.chance(_NIGHT):
                self.call_night()
            if self._evening is not None and (self._is_late() or not self._at_work()):
                self._night()
            now = self.now_ms
            ready = [
                task
                for task in self.tasks
                if not task.ended
                and (at := task.wakes_at()) is not None
                and at <= now
                and not (task.idle and self._evening is not None)
            ]
            if ready:
                return self._pick(ready)
            if not self._jump():
                break
        return None

    def _pick(self, ready: list[Task]) -> Task:
        """One of them: often the favorite of the hour, so that one process gets far while others
        wait."""
        if self._draw.chance(_FAVORITE_ENDS):
            self._favorite = self._draw.choice(self.tasks)
        if self._favorite in ready and self._draw.chance(_FAVORED):
            assert self._favorite is not None
            return self._favorite
        return self._draw.choice(ready)

    def _is_late(self) -> bool:
        """Whether the night that was called comes now, even if some are at work."""
        return not self.peace and self._evening is not None and self.steps >= self._evening

    def _at_work(self) -> bool:
        """Whether a task is in the middle of an operation, and not stalled in it."""
        return any(
            not task.ended and not task.idle and task.process.stalled_until <= self.now_ms
            for task in self.tasks
        )

    def _jump(self) -> bool:
        """Move to the next moment at which something can happen; False if nothing ever will."""
        wakes = [
            at
            for task in self.tasks
            if not task.ended
            and not (task.idle and self._evening is not None)
            and (at := task.wakes_at()) is not None
        ]
        if self._late:
            wakes.append(self._late[0][0])
        if wakes:
            self.now_ms = max(self.now_ms, min(wakes))
            return True
        if self._evening is not None:
            self._night()
            return True
        alive = [task.name for task in self.tasks if not task.ended]
        if alive:
            raise AssertionError(f"every task waits for another: {', '.join(alive)}")
        return False

    def _night(self) -> None:
        self._evening = None
        self.nights += 1
        self.pass_time(self._draw.integer(*self._draw.choice(self._pace)))
        self.at_night()

    def _deliver(self) -> None:
        while self._late and self._late[0][0] <= self.now_ms:
            _, _, deliver, _ = heapq.heappop(self._late)
            deliver()
