"""What all parts of one run share: its seed, its store, its time, its books."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from blockstore.clock import ManualClock
from blockstore.format.definition import Definition
from blockstore.format.properties import Consistency, Properties
from blockstore.ids import Ids
from blockstore.simulation.draw import Draw, subseed
from blockstore.simulation.faults import Faults
from blockstore.simulation.ledger import Ledger
from blockstore.simulation.oracle.books import Replaced
from blockstore.simulation.oracle.judge import Judge
from blockstore.simulation.report import Report
from blockstore.simulation.schedule import Scheduler
from blockstore.simulation.store import Store
from blockstore.simulation.trace import Trace
from blockstore.world import Serial, World

if TYPE_CHECKING:
    from blockstore.simulation.replaced_history import Replacements

__all__ = ["Kind", "Stage"]


class Kind(StrEnum):
    """What kind of table the run is about."""

    INDEXED = "with an index"
    LISTED = "without an index"


@dataclass(kw_only=True)
class Stage:
    """One run."""

    seed: int
    kind: Kind
    properties: Properties
    scheduler: Scheduler
    store: Store
    faults: Faults
    trace: Trace = field(default_factory=Trace)
    report: Report = field(default_factory=Report)
    ledger: Ledger = field(default_factory=Ledger)
    definition: Definition | None = None
    judge: Judge = field(init=False)
    replaced: list[Replaced] = field(default_factory=list)
    """The histories that were replaced, one for each era that is over."""
    stale: bool = False
    """Whether the request that is being applied was decided, or sent, before the history was last
    replaced."""
    replacements: Replacements | None = None
    """The disasters of the run, if there are any."""
    crossing: bool = False
    """Whether its sender, or whoever it carries with it, began before that."""
    finishing: bool = False
    """Whether the run is coming to its end: nothing new begins, no fault strikes."""

    def __post_init__(self) -> None:
        self.judge = Judge(self, indexed=self.kind is Kind.INDEXED)
        self.store.watchers.append(self.judge)

    @property
    def era(self) -> int:
        """How often the history was replaced."""
        return len(self.replaced)

    def world(self) -> World:
        """What a process outside of the run is given: a right clock, no fault."""
        clock = ManualClock(self.scheduler.now_ms)
        ids = Ids.seeded(clock, subseed(self.seed, self.era, clock.now_ms()))
        return World(clock=clock, ids=ids, pool=Serial())

    @classmethod
    def of(cls, seed: int, kind: Kind, properties: Properties) -> Stage:
        """An empty store at the beginning of time."""
        scheduler = Scheduler(Draw(seed, "turns"))
        return cls(
            seed=seed,
            kind=kind,
            scheduler=scheduler,
            properties=properties,
            store=Store(scheduler, eventual=properties.consistency is Consistency.EVENTUAL),
            faults=Faults(Draw(seed, "faults")),
        )

    def expired(self, time_ms: int) -> bool:
        """Whether retention may have taken rows of this time out of the table."""
        retention_s = self.properties.retention_s
        return retention_s is not None and time_ms <= self.scheduler.now_ms - retention_s * 1000

    def note(self, who: str, what: str) -> None:
        """Take note of an event in the trace."""
        self.trace.add(self.scheduler.steps, self.scheduler.now_ms, who, what)
