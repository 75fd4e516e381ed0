"""The folders in which the queries of one process hold cached files.

Rules:
- Each query has its own folder while it runs. Then the folder is empty and waits for a later query,
  since creating and removing a folder takes as long as the rest of a hold. The free folder with the
  lowest number is used first.
- A folder that was idle for an hour is not used again: other processes remove folders that are a
  day old, at any moment.
- They also remove folders that could not be emptied, and those of killed processes.
"""

from __future__ import annotations

import heapq
import os
import threading
import weakref
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from blockstore.clock import Clock

_IDLE_S = 3600.0


class HoldFolder:
    """The folder of one query, until it is released."""

    def __init__(self, path: Path, number: int, folders: HoldFolders) -> None:
        self.path = path
        self.number = number
        self._folders = folders

    def release(self, paths: Iterable[str]) -> None:
        """Empty it; ``paths`` are all files that may be in it. Allowed twice."""
        self._folders.end(self, paths)

    def abandon(self, paths: Iterable[str]) -> None:
        """Remove it: no other query may have it, since files may still be put there."""
        self._folders.abandon(self, paths)


@dataclass(frozen=True, slots=True, order=True)
class _Idle:
    """An empty folder that waits for a query."""

    number: int
    path: Path
    since_s: float


class HoldFolders:
    """Makes the folders under ``root``. Their names begin with ``process``, which is unique to this
    process and its forks."""

    def __init__(self, root: Path, process: str, clock: Clock) -> None:
        self._root = root
        self._process = process
        self._clock = clock
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._made = 0
        self._idle: list[_Idle] = []
        self._taken: set[HoldFolder] = set()
        weakref.finalize(self, _remove, self._idle)

    def take(self) -> HoldFolder:
        """An empty folder for one query. Raises OSError."""
        with self._lock:
            folder = self._waiting() or self._new()
            self._taken.add(folder)
            return folder

    def end(self, folder: HoldFolder, paths: Iterable[str]) -> None:
        """See ``HoldFolder.release``."""
        with self._lock:
            if folder not in self._taken:
                return
            self._taken.discard(folder)
        if not _emptied(paths):
            return
        idle = _Idle(folder.number, folder.path, self._clock.monotonic_s())
        with self._lock:
            heapq.heappush(self._idle, idle)

    def abandon(self, folder: HoldFolder, paths: Iterable[str]) -> None:
        """See ``HoldFolder.abandon``."""
        with self._lock:
            self._taken.discard(folder)
        _emptied(paths)
        with suppress(OSError):
            folder.path.rmdir()

    def _waiting(self) -> HoldFolder | None:
        if self._pid != os.getpid():
            # After a fork the idle folders belong to the parent.
            self._pid = os.getpid()
            self._idle.clear()
        oldest_s = self._clock.monotonic_s() - _IDLE_S
        while self._idle:
            idle = heapq.heappop(self._idle)
            if idle.since_s >= oldest_s and idle.path.is_dir():
                return HoldFolder(idle.path, idle.number, self)
            _remove([idle])
        return None

    def _new(self) -> HoldFolder:
        while True:
            number, self._made = self._made, self._made + 1
            folder = HoldFolder(self._root / f"{self._process}-{number}", number, self)
            # After a fork, parent and child use the same numbers.
            with suppress(FileExistsError):
                folder.path.mkdir()
                return folder


def _emptied(paths: Iterable[str]) -> bool:
    emptied = True
    for path in paths:
        try:
            os.unlink(path)
        except FileNotFoundError:
            continue
        except OSError:
            emptied = False
    return emptied


def _remove(folders: Iterable[_Idle]) -> None:
    for idle in folders:
        with suppress(OSError):
            idle.path.rmdir()
