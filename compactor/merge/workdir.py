"""The folder of one merge on the work disk, and what dead processes left there.

Rules:
- A merge has a folder of its own, ``blockstore-<ULID>``, made at its first use and removed at its end. An attempt at a piece
  has one around that, ``blockstore-<token>``, which is held the same way.
- Beside it lies a lock file that the process holds while it lives. It is made before the folder and removed after it, so a
  folder whose lock nobody holds, or that has none, is a dead process's. Those go at the next start; a living process's,
  of whatever program shares the disk, never do.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import suppress
from pathlib import Path

__all__ = ["WorkDirectory", "clear_abandoned"]

_PREFIX = "blockstore-"
_LOCK = ".lock"


class WorkDirectory:
    """The folder of one merge; it costs nothing until something is put there."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = directory.with_name(directory.name + _LOCK)
        self._held: int | None = None

    def open(self) -> Path:
        """The folder, which is there and held from now on."""
        if self._held is None:
            self._directory.parent.mkdir(parents=True, exist_ok=True)
            self._held = _locked(self._lock)
        self._directory.mkdir(exist_ok=True)
        return self._directory

    def path(self, name: str) -> Path:
        """A path in the folder, which is there and held from now on."""
        return self.open() / name

    def clear(self) -> None:
        """Remove the folder and all that is in it; allowed at any time."""
        if self._held is None:
            return
        shutil.rmtree(self._directory, ignore_errors=True)
        self._lock.unlink(missing_ok=True)
        os.close(self._held)
        self._held = None


def clear_abandoned(work_dir: Path) -> int:
    """Remove what merges of dead processes left in ``work_dir``; answers how many folders that were."""
    cleared = 0
    for directory in sorted(work_dir.glob(f"{_PREFIX}*")):
        if not directory.is_dir():
            continue
        lock = directory.with_name(directory.name + _LOCK)
        held = _taken(lock)
        if held is None and lock.exists():
            continue
        shutil.rmtree(directory, ignore_errors=True)
        lock.unlink(missing_ok=True)
        cleared += 1
        if held is not None:
            os.close(held)
    for lock in work_dir.glob(f"{_PREFIX}*{_LOCK}"):
        held = None if lock.with_name(lock.name.removesuffix(_LOCK)).exists() else _taken(lock)
        if held is not None:
            lock.unlink(missing_ok=True)
            os.close(held)
    return cleared


def _locked(lock: Path) -> int:
    """The lock, held and shared; made again where another process, which took it for a dead one's, removed it in that moment."""
    while True:
        held = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(held, fcntl.LOCK_SH)
        with suppress(FileNotFoundError):
            if lock.stat().st_ino == os.fstat(held).st_ino:
                return held
        os.close(held)


def _taken(lock: Path) -> int | None:
    """The lock for ourselves alone, if nobody holds it; None where it is held, or is not there."""
    try:
        held = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    with suppress(OSError):
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return held
    os.close(held)
    return None
