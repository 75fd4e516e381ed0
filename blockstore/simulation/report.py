"""How often everything happened in a run, or in many: a simulation that never reaches a refusal
must be seen.

``REQUIRED`` names what a series must have met, each at least so often; ``missing`` names what it
has not met.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum

from blockstore.simulation.faults import Fault


class Section(StrEnum):
    """What is counted together."""

    FAULTS = "faults injected"
    ANSWERS = "answers to the PUT of an entry"
    REFUSALS = "refusals by the index"
    CONFLICTS = "conflicts of rows"
    ERRORS = "errors met by callers"
    EVENTS = "events"
    CHECKS = "checks"


REQUIRED: Mapping[Section, tuple[str, ...]] = {
    Section.FAULTS: tuple(str(fault) for fault in Fault if fault is not Fault.NONE),
    Section.ANSWERS: (
        "ok",
        "AlreadyExists",
        str(Fault.CONTENDED),
        str(Fault.THROTTLED),
        str(Fault.ANSWER_LOST),
        str(Fault.REQUEST_LOST),
        str(Fault.LATE),
        str(Fault.RESENT),
    ),
    Section.ERRORS: (
        "Unavailable",
        "Indeterminate",
        "Conflict",
        "Invalid",
        "VersionExpired",
        "Fenced",
    ),
    Section.EVENTS: (),
}
"""Each of these must happen at least so often in a series as its caller says."""


class Report:
    """Counts by section and name."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[Section, str]] = Counter()

    def count(self, section: Section, name: str, number: int = 1) -> None:
        """It happened, so often."""
        self._counts[section, str(name)] += number

    def add(self, other: Report) -> None:
        """Take over another run's counts."""
        self._counts.update(other._counts)

    def of(self, section: Section) -> dict[str, int]:
        """The counts of a section, required ones first, then by name."""
        required = dict.fromkeys(REQUIRED.get(section, ()), 0)
        found = {
            name: number for (part, name), number in sorted(self._counts.items()) if part is section
        }
        return {**required, **found}

    def sections(self) -> list[tuple[Section, dict[str, int]]]:
        """All counts, section by section."""
        return [(section, self.of(section)) for section in Section]

    def missing(self, least: int) -> list[str]:
        """What happened less often than ``least`` although it must, as clauses."""
        return [
            f"{section}: {name} {number} times"
            for section in REQUIRED
            for name in REQUIRED[section]
            if (number := self._counts[section, name]) < least
        ]
