"""What one kind of job does, as the runner sees it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from blockstore.reader.jobs.meter import Meter
from blockstore.reader.jobs.record import Failure, Request, Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The effect of a run: a file, or rows of a table."""

    result: Result | None = None
    written: Mapping[str, object] | None = None


class Failed(Exception):
    """The job cannot succeed in any attempt."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Work(ABC):
    """One kind of job."""

    @abstractmethod
    def run(self, job: str, attempt: int, request: Request, meter: Meter) -> Ended:
        """Run one attempt. Raises Stopped when the meter has a reason, Failed where no attempt can
        succeed, and project errors; another attempt follows Unavailable, Conflict and Indeterminate
        if ``repeats``."""

    def settle(self, job: str, request: Request) -> Ended | None:
        """Make sure that no earlier attempt, which may still run somewhere, has an effect from now
        on; called before a failure or a cancellation is recorded. Return the effect of an attempt
        that already had one."""
        return None

    @property
    def repeats(self) -> bool:
        """Whether another attempt follows a failure of the store or a conflict with another writer."""
        return False
