"""What each entry may do to the rows of the table: what tables of every kind have in common.

Promises:
- A write of new rows enters once, completely; a refused one never does. A job's write carries its
  job.
- An operation that a process requested becomes one entry at most; a refused one becomes none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import immutables

from blockstore.index.entry import Entry
from blockstore.index.state import State
from blockstore.simulation.ground import Ground
from blockstore.simulation.ledger import Fate, Intent
from blockstore.simulation.oracle.directories import Directories
from blockstore.simulation.violation import Violation

Rows = immutables.Map[int, Any]
"""What a version shows: a bit mask of rows by write (no write with none), or, where rows have an
identity, the current ``Row`` of each."""


@dataclass(frozen=True, slots=True)
class Version:
    """One version: its state, and the rows that it shows."""

    state: State
    rows: Rows


class Meaning(ABC):
    """Judges the entries of one run, each as it becomes history."""

    remembered: tuple[str, ...] = ("applied", "accounted")
    """Its attributes that go back with a bucket that is put back."""

    def __init__(self, ground: Ground, directories: Directories) -> None:
        self._ground = ground
        self._directories = directories
        self.applied: dict[int, int] = {}
        """The version by which a write entered."""
        self.accounted: dict[int, int] = {}
        """The version by which a write that never entered was replaced."""

    @abstractmethod
    def follow(
        self, before: Version, entry: Entry, state: State, versions: Mapping[int, Version]
    ) -> Rows:
        """The rows that the state after an entry shows. Raises Violation unless it changes the
        rows as its operation says."""

    def _enter(self, write: int, entry: Entry) -> None:
        asked = self._ground.ledger.writes[write]
        if write in self.applied:
            raise Violation(
                f"entry {entry.id} brings write {write} again, version {self.applied[write]} had it"
            )
        if write in self.accounted:
            raise Violation(
                f"entry {entry.id} brings write {write}, which version {self.accounted[write]} "
                "replaced"
            )
        if asked.fate is Fate.REFUSED:
            raise Violation(
                f"entry {entry.id} ({entry.operation}) brings write {write}, which was refused"
            )
        if entry.job != asked.job:
            raise Violation(
                f"entry {entry.id} brings write {write} with job {entry.job}, not {asked.job}"
            )
        self.applied[write] = entry.id

    def _intent(self, entry: Entry) -> Intent:
        intent = self._ground.ledger.intents.get(entry.message)
        if intent is None or intent.operation != entry.operation:
            raise Violation(
                f"entry {entry.id} ({entry.operation} {entry.message!r}) was requested by no "
                "process"
            )
        if intent.fate is Fate.REFUSED:
            raise Violation(
                f"entry {entry.id} ({entry.operation} {entry.message!r}) was refused before"
            )
        if intent.versions:
            raise Violation(
                f"entry {entry.id} is {entry.message!r} again, version {intent.versions[0]} was it"
            )
        intent.versions.append(entry.id)
        return intent
