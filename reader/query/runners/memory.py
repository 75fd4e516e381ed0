"""The memory of processes, and a watch for those that exceed a limit.

Only used memory counts: pages that were written to, in memory or swapped out. Reserved addresses do
not, and libraries reserve gigabytes of them; a limit of the operating system on those (RLIMIT_DATA,
RLIMIT_AS) would fail queries that use little.

Linux only; on other systems nothing is watched.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable

_EVERY_S = 0.02
"""Between two checks. A process can write some GB per second, which bounds the excess."""
_COUNTED = (b"RssAnon:", b"VmSwap:")


def held_bytes(pid: int) -> int | None:
    """The private memory of a process; None if it is unknown or the process is gone."""
    try:
        with open(f"/proc/{pid}/status", "rb", buffering=0) as file:
            lines = file.read().splitlines()
    except OSError:
        return None
    counted = [int(line.split()[1]) << 10 for line in lines if line.startswith(_COUNTED)]
    return sum(counted) if counted else None


class _Watched:
    """The state that a watch and its thread share."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.changed = threading.Condition()
        self.by_pid: dict[int, Callable[[int], None]] = {}
        self.over = False

    def close(self) -> None:
        with self.changed:
            self.over = True
            self.changed.notify()


class MemoryWatch:
    """Checks processes while they work; each that exceeds ``most_bytes`` is reported once."""

    def __init__(self, most_bytes: int) -> None:
        self._watched = _Watched(most_bytes)
        self._started = False
        # Also if it is never closed.
        self.close = weakref.finalize(self, self._watched.close)

    def begin(self, pid: int, outgrew: Callable[[int], None]) -> None:
        """Start to watch a process; ``outgrew`` is called with its memory, in another thread."""
        with self._watched.changed:
            self._watched.by_pid[pid] = outgrew
            self._watched.changed.notify()
            if not self._started:
                self._started = True
                threading.Thread(
                    target=_look, args=(self._watched,), name="memory", daemon=True
                ).start()

    def end(self, pid: int) -> None:
        """Stop watching a process; allowed twice."""
        with self._watched.changed:
            self._watched.by_pid.pop(pid, None)


def _look(watched: _Watched) -> None:
    while True:
        with watched.changed:
            watched.changed.wait_for(lambda: watched.by_pid or watched.over)
            if watched.over:
                return
            looked_at = list(watched.by_pid)
        for pid in looked_at:
            held = held_bytes(pid)
            if held is None or held <= watched.most_bytes:
                continue
            with watched.changed:
                outgrew = watched.by_pid.pop(pid, None)
            if outgrew is not None:
                outgrew(held)
        with watched.changed:
            watched.changed.wait_for(lambda: watched.over, _EVERY_S)
