"""A process of the simulation: what it is given (its clock, its ids, its way to the store), and how
it dies.

Rules: - A process is killed with all its threads: every thread of it ends at its next request, and
none makes another
  one.
- It starts again after a while as a fresh process: nothing is left of it but its ``notes``, which
  represent what its user, or a disk, remembers.
- Its clock is off by its own ``skew_ms``, up to an hour either way; durations are true.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from blockstore.bucket.api import Bucket
from blockstore.bucket.retrying import Retrying
from blockstore.ids import Ids
from blockstore.names import INDEX, entry_key, parse_entry
from blockstore.simulation.draw import Draw, subseed
from blockstore.simulation.faults import Ask, Fault
from blockstore.simulation.ground import Kind
from blockstore.simulation.schedule import HOUR_MS, Killed, Task
from blockstore.simulation.stage import Stage
from blockstore.world import World

A = TypeVar("A")
B = TypeVar("B")

_DOWN_MS = (1_000, 4 * HOUR_MS)
_STALLS_MS = ((60_000, HOUR_MS), (HOUR_MS, 8 * HOUR_MS), (26 * HOUR_MS, 100 * HOUR_MS))
_DOZES = (Ask.SEAL, Ask.LOOK, Ask.CREATE)
"""Where a machine falls asleep."""
_OUTAGE_MS = (2_000, 600_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """What a process does.

    ``act`` is one life of one of its threads; it returns when there is nothing left to do.
    """

    name: str
    act: Callable[[Process, int], None]
    kinds: tuple[Kind, ...] = tuple(Kind)
    """The kinds of tables that it has to do with."""
    count: int = 1
    threads: int = 1
    """How many threads share a process."""
    retries: float = 0.5
    """How many of its lives use the store through ``Retrying``."""
    sleep: float = 0.0
    """How often its machine falls asleep for days between what it has seen and what it does."""
    share: float = 0.6
    """In how many runs it plays; one that tends the table plays in all."""
    tends: bool = False
    """Whether it continues when all others have finished, until nothing is left to clean."""


class Process:
    """One process with its threads, through all its lives."""

    def __init__(
        self, stage: Stage, role: Role, number: int, way: Callable[[Process], Bucket]
    ) -> None:
        self.stage = stage
        self._way = way
        self.role = role
        self.name = f"{role.name}-{number}"
        self.number = number
        self.draw = Draw(stage.seed, self.name)
        self._looked: dict[tuple[str, str], int] = {}
        """The era of each thread's last look at an entry, by its key, and at anything of the index,
        by the empty name."""
        self._created: dict[str, int] = {}
        """The era in which it has created an entry, by its key."""
        self.sent: dict[str, int] = {}
        """The era in which what it sent last to a name was sent there first."""
        self._payloads: dict[str, bytes] = {}
        self.notes: dict[str, Any] = {}
        self.shared: dict[str, Any] = {}
        """What the threads of one life share."""
        self.life = 0
        self.dying = False
        self.stalled_until = 0
        self.silent_until = 0
        """Until then no request of this process gets a response."""
        self.skew_ms = 0
        self.passes = 0
        """How often it has done all that it tends; counted by its role."""
        self._alive = role.threads
        self._mourning = 0
        self._reborn = threading.Event()
        self.set_clock()
        self._begin()

    def start(self) -> None:
        """Let its threads take part."""
        for thread in range(self.role.threads):
            name = self.name if self.role.threads == 1 else f"{self.name}.{thread}"
            task = Task(name, self, lambda task, thread=thread: self._live(task, thread))  # type: ignore[misc]
            self.stage.scheduler.add(task)

    def begin(self) -> None:
        """An operation begins."""
        task = self._task()
        task.begun = (self.stage.era, self.stage.scheduler.steps)

    @property
    def begun(self) -> tuple[int, int]:
        """The era and the step in which the running thread began its operation."""
        return self._task().begun

    @property
    def struck(self) -> bool:
        """Whether the history was replaced since then."""
        return self.begun[0] != self.stage.era

    @property
    def saw_strays(self) -> bool:
        """Whether entries were above a gap since the running thread began its operation."""
        history = self.stage.judge.history
        return history is not None and (
            bool(history.strays) or history.mended_step >= self.begun[1]
        )

    @property
    def oldest(self) -> int:
        """The era in which the oldest operation began that this process is in."""
        tasks = self.stage.scheduler.tasks
        begun = [
            task.begun[0]
            for task in tasks
            if task.process is self and not (task.idle or task.ended)
        ]
        return min(begun, default=self.stage.era)

    def send(self, key: str, data: bytes) -> None:
        """Record the era in which the bytes were first sent there."""
        before = self._payloads.get(key)
        if before is None or before != data:
            self._payloads[key] = data
            self.sent[key] = self.stage.era

    def decided_in(self, ask: Ask, key: str) -> int:
        """The era in which it was decided to send this request: that of the operation, or of a
        later look at the index; of an entry, of a look at the one below it."""
        if self.stage.scheduler.current is None:
            return self.stage.era
        entry = parse_entry(key) if ask is Ask.CREATE else None
        look = "" if entry is None else entry_key(entry - 1)
        return max(
            self.begun[0],
            self._looked.get((self._task().name, look), 0),
            self._created.get(look, 0),
        )

    def created(self, key: str) -> None:
        """A new object was created, and is known to have been there: if it is an entry, that is a
        look for whichever thread comes next."""
        if parse_entry(key) is not None:
            self._created[key] = self.stage.era

    def look(self, key: str) -> Callable[[], None]:
        """What takes note, once a reading request is applied, that the running thread has looked
        there."""
        if parse_entry(key) is None and key != INDEX:
            return lambda: None
        current = self.stage.scheduler.current
        thread = "" if current is None else current.name

        def noted() -> None:
            self._looked[thread, key] = self._looked[thread, ""] = self.stage.era

        return noted

    def _task(self) -> Task:
        task = self.stage.scheduler.current
        assert task is not None, "only a task does something"
        return task

    def set_clock(self) -> None:
        """Set the clock again: right, some minutes off, or an hour."""
        limit = self.draw.choice((0, 60_000, 10 * 60_000, HOUR_MS))
        self.skew_ms = self.draw.integer(-limit, limit)

    def dawn(self) -> None:
        """A night is over: its clock may be set again, and if it slept through the night it wakes
        some seconds later than the others."""
        if self.draw.chance(0.2):
            self.set_clock()
        now = self.stage.scheduler.now_ms
        if 0 < self.stalled_until <= now:
            self.stalled_until = now + self.draw.integer(0, 10_000)

    @property
    def finishing(self) -> bool:
        """Whether the run is coming to its end: finish what was begun, and begin nothing."""
        return self.stage.finishing

    @property
    def has_ended(self) -> bool:
        """Whether all its threads have."""
        return self._alive == 0

    def rest(self, *, till_morning: bool = False) -> None:
        """Between two operations: some seconds, or until the next night is over."""
        scheduler = self.stage.scheduler
        task = self._task()
        nights = scheduler.nights
        task.idle = True
        try:
            scheduler.sleep(self.draw.integer(0, 20_000))
            while till_morning and scheduler.nights == nights and not self.finishing:
                scheduler.sleep(self.draw.integer(60_000, 600_000))
        finally:
            task.idle = False

    def hold(self, milliseconds: int) -> None:
        """Keep something for a while: sleep in the middle of an operation."""
        self.stage.scheduler.sleep(milliseconds)

    def meets(self, ask: Ask) -> Fault:
        """What happens to its next request."""
        faults = self.stage.faults
        if self.role.sleep and faults.on and ask in _DOZES and self.draw.chance(self.role.sleep):
            return Fault.STALLED
        return faults.strike(ask)

    def suffer(self, fault: Fault) -> None:
        """What a fault does to the process before its request."""
        scheduler = self.stage.scheduler
        if fault is Fault.KILLED_BEFORE:
            self.die()
        elif fault is Fault.STALLED:
            length_ms = _STALLS_MS[-1] if self.role.sleep > 0.2 else self.draw.choice(_STALLS_MS)
            self.stalled_until = scheduler.now_ms + self.draw.integer(*length_ms)
            scheduler.turn()
            self.stalled_until = 0
        elif fault is Fault.OUTAGE:
            self.silent_until = scheduler.now_ms + self.draw.span(*_OUTAGE_MS)

    def die(self) -> None:
        """The process dies, now."""
        self.dying = True
        raise Killed

    def _begin(self) -> None:
        self.life += 1
        self.shared = {}
        self._looked, self._created, self.sent, self._payloads = {}, {}, {}, {}
        clock = _Clock(self)
        ids = Ids.seeded(clock, subseed(self.stage.seed, self.name, self.life))
        self.world = World(clock=clock, ids=ids, pool=_Turns(self))
        simulated = self._way(self)
        self.bucket: Bucket = (
            Retrying(simulated, self.world) if self.draw.chance(self.role.retries) else simulated
        )

    def _live(self, task: Task, thread: int) -> None:
        down_ms = 0
        while True:
            try:
                self.stage.scheduler.sleep(down_ms)
                self.role.act(self, thread)
            except Killed:
                self._mourn(task)
                down_ms = 0 if self.finishing else self.draw.span(*_DOWN_MS)
            else:
                break
        self._alive -= 1
        self._bury()

    def _mourn(self, task: Task) -> None:
        """A thread of a killed process has ended; the last one begins the next life, and all take
        part in it."""
        task.idle = False
        task.dead = True
        self._mourning += 1
        reborn = self._reborn
        self._bury()
        self.stage.scheduler.wait(reborn)
        task.dead = False

    def _bury(self) -> None:
        if self.dying and self._mourning == self._alive:
            self.dying = False
            self.silent_until = 0
            self._mourning = 0
            self._begin()
            self._reborn.set()
            self._reborn = threading.Event()


class _Clock:
    """A process's clock: off by its skew; its sleep gives up the turn."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._scheduler = process.stage.scheduler

    def now_ms(self) -> int:
        return self._scheduler.now_ms + self._process.skew_ms

    def monotonic_s(self) -> float:
        return self._scheduler.now_ms / 1000

    def sleep(self, seconds: float) -> None:
        self._scheduler.sleep(max(0, round(seconds * 1000)))


class _Turns:
    """A pool that runs calls in turn, and waits by giving up the turn."""

    def __init__(self, process: Process) -> None:
        self._scheduler = process.stage.scheduler

    def map(self, call: Callable[[A], B], items: Iterable[A]) -> list[B]:
        return [call(item) for item in items]

    def wait(self, event: threading.Event) -> None:
        self._scheduler.wait(event)

    def runs_beside(self) -> bool:
        return False

    def start(self, call: Callable[[], None]) -> None:
        raise AssertionError("a simulated process has one thread: check runs_beside first")
