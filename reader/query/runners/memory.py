"""What a process holds in memory, and who holds more than it may.

What counts is what is used: pages that were written to, in memory or swapped out. What is merely
reserved does not, and libraries reserve gigabytes of addresses; a limit of the operating system on
those (RLIMIT_DATA, RLIMIT_AS) fails queries that use little.

Linux tells it; elsewhere nothing is watched.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable

_EVERY_S = 0.02
"""Between two looks.

The memory of a machine is written to at some GB a second: so much is held too much at worst.
"""
_COUNTED = (b"RssAnon:", b"VmSwap:")


def held_bytes(pid: int) -> int | None:
    """What a process holds of memory that is its own;

    None where that is not told, or it is gone.
    """
    try:
        with open(f"/proc/{pid}/status", "rb", buffering=0) as file:
            lines = file.read().splitlines()
    except OSError:
        return None
    told = [int(line.split()[1]) << 10 for line in lines if line.startswith(_COUNTED)]
    return sum(told) if told else None


class _Watched:
    """What the owner of a watch and its thread share."""

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
    """Looks at processes while they work; each that holds more than ``most_bytes`` is told of
    once."""

    def __init__(self, most_bytes: int) -> None:
        self._watched = _Watched(most_bytes)
        self._started = False
        # Also where nobody closes it.
        self.close = weakref.finalize(self, self._watched.close)

    def begin(self, pid: int, outgrew: Callable[[int], None]) -> None:
        """From now on look at this process;

        ``outgrew`` is told how much it holds, in another thread.
        """
        with self._watched.changed:
            self._watched.by_pid[pid] = outgrew
            self._watched.changed.notify()
            if not self._started:
                self._started = True
                threading.Thread(
                    target=_look, args=(self._watched,), name="memory", daemon=True
                ).start()

    def end(self, pid: int) -> None:
        """Look at it no more; allowed twice."""
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
