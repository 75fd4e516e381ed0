"""The folders in which the queries of one process hold cached files.

Rules:
- Each query has a folder of its own while it runs; then the folder is empty and waits for a later
  query, since to make and remove one takes as long as all else that a hold does. Of as many folders
  as queries run at once, the first that is free is taken.
- One that was idle for an hour is not taken any more: other processes remove those of a day ago,
  and may do so at any moment.
- A folder that cannot be emptied is left to them, and so are those of a process that was killed.
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
    """A folder of one query's own, until it is released."""

    def __init__(self, path: Path, number: int, folders: HoldFolders) -> None:
        self.path = path
        self.number = number
        self._folders = folders

    def release(self, paths: Iterable[str]) -> None:
        """Empty it: as far as is known these files are in it, or not all of them; allowed twice."""
        self._folders.end(self, paths)


@dataclass(frozen=True, slots=True, order=True)
class _Idle:
    """A folder that waits, empty."""

    number: int
    path: Path
    since_s: float


class HoldFolders:
    """Makes them under ``root``, by names that begin with ``process``, which no other process has
    but one that was forked."""

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
        emptied = True
        for path in paths:
            try:
                os.unlink(path)
            except FileNotFoundError:
                continue
            except OSError:
                emptied = False
        if not emptied:
            return
        idle = _Idle(folder.number, folder.path, self._clock.monotonic_s())
        with self._lock:
            heapq.heappush(self._idle, idle)

    def _waiting(self) -> HoldFolder | None:
        if self._pid != os.getpid():
            # What waits is the parent's.
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
            # After a fork, parent and child count alike.
            with suppress(FileExistsError):
                folder.path.mkdir()
                return folder


def _remove(folders: Iterable[_Idle]) -> None:
    for idle in folders:
        with suppress(OSError):
            idle.path.rmdir()
