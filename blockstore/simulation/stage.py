"""One run with its oracle."""

from __future__ import annotations

from dataclasses import dataclass, field

from blockstore.format.properties import Consistency, Properties
from blockstore.simulation.draw import Draw
from blockstore.simulation.faults import Faults
from blockstore.simulation.ground import Ground, Kind
from blockstore.simulation.oracle.judge import Judge
from blockstore.simulation.schedule import Scheduler
from blockstore.simulation.store import Store


@dataclass(kw_only=True)
class Stage(Ground):
    """One run, judged after every step."""

    judge: Judge = field(init=False)

    def __post_init__(self) -> None:
        self.judge = Judge(self)
        self.store.watchers.append(self.judge)

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
