"""What a kind of job does, as its runner sees it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from blockstore.reader.jobs.meter import Meter
from blockstore.reader.jobs.record import Failure, Request, Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What a run made: a file, or rows of a table."""

    result: Result | None = None
    written: Mapping[str, object] | None = None


class Failed(Exception):
    """The job cannot be done, by whomever."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Work(ABC):
    """One kind of job."""

    @abstractmethod
    def run(self, job: str, attempt: int, request: Request, meter: Meter) -> Ended:
        """Do it. Raises Stopped as the meter says, Failed for what no attempt could do, and errors
        of the tree; after Unavailable, Conflict or Indeterminate of a write another attempt
        follows."""

    def settle(self, job: str, request: Request) -> Ended | None:
        """Before it is told that the job failed or was cancelled although an earlier attempt may
        still run somewhere: make sure that none of them has an effect any more. Answers the effect
        where one had it already."""
        return None

    @property
    def repeats(self) -> bool:
        """Whether another attempt follows where the store, or another writer, was in the way."""
        return False
