"""The CPU seconds of this process and of those that it started: on a machine that does other work
too, seconds of a clock say little."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

__all__ = ["TICK_S", "Spent", "spent"]

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
"""The clock's resolution, in seconds."""

_JAVA = "java"


class Spent(NamedTuple):
    """CPU seconds so far."""

    own: float
    """Of this process, and of all that it started but Java, also of those that ended."""
    java: float

    def since(self, before: Spent) -> Spent:
        """What was spent in between. The clock has ticks: work of less than one counts as one, so
        that a rate of it is a number."""
        return Spent(max(self.own - before.own, TICK_S), max(self.java - before.java, TICK_S))


def spent() -> Spent:
    """Read it from ``/proc``."""
    found = {int(one.name): _status(one) for one in Path("/proc").iterdir() if one.name.isdigit()}
    alive = {process: status for process, status in found.items() if status is not None}
    mine = {os.getpid()}
    while more := {one for one, (parent, *_) in alive.items() if parent in mine} - mine:
        mine |= more
    java = sum(alive[one][2] for one in mine if alive[one][1] == _JAVA)
    # What a JVM waited for (its Python processes that ended) is not the JVM's.
    own = sum(alive[one][2] + alive[one][3] for one in mine if alive[one][1] != _JAVA)
    return Spent(own, java)


def _status(process: Path) -> tuple[int, str, float, float] | None:
    """The parent, the name, and the CPU seconds of a process and of its children that ended."""
    try:
        text = (process / "stat").read_text()
    except OSError:
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    times = [int(one) * TICK_S for one in fields[11:15]]
    return int(fields[1]), name, sum(times[:2]), sum(times[2:])
