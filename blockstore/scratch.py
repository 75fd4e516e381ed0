"""Folders for what outgrows memory, and those that dead processes left behind.

Rules:
- Beside a folder lies a lock file, its name with ``.lock``, which processes hold while they live:
  those that open it, and those that inherit the descriptor. It is made before the folder and
  removed after it, so a folder with a lock that nobody holds is a dead process's.
- Those go at the next start of whoever makes folders with such names, and nothing else does: a
  folder that has another name, or no lock, is somebody else's, and the disk is often everybody's.
  Another user's go only where who made them is all the same.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

LOCK = ".lock"
"""What the name of a lock file ends with, after the name of its folder."""


class HeldFolder:
    """A folder that this process holds from its making to its removal.

    Raises OSError where it cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = path.with_name(path.name + LOCK)
        self.held = _locked(self._lock)
        """The descriptor that holds the lock; a process that inherits it holds it too."""
        try:
            path.mkdir(0o700, exist_ok=True)
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Remove it with all that is in it; once.

        What a failing disk keeps goes at the next start.
        """
        _remove(self.path, self._lock, self.held)


def clear_abandoned(parent: Path, name: re.Pattern[str], *, whoever: bool) -> int:
    """Remove what dead processes, of this user or of ``whoever``, left in ``parent`` under such
    names; answers how many folders that were."""
    cleared = 0
    for lock in sorted(parent.glob(f"*{LOCK}")):
        folder = lock.with_name(lock.name.removesuffix(LOCK))
        held = (
            _taken(lock, whoever)
            if name.fullmatch(folder.name) and not folder.is_symlink()
            else None
        )
        if held is not None:
            cleared += folder.is_dir()
            _remove(folder, lock, held)
    return cleared


def _remove(folder: Path, lock: Path, held: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        lock.unlink(missing_ok=True)
    os.close(held)


def _locked(lock: Path) -> int:
    """The lock, held and shared; made again where another process, which took it for a dead one's,
    removed it in that moment."""
    while True:
        held = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fcntl.flock(held, fcntl.LOCK_SH)
        with suppress(FileNotFoundError):
            if lock.stat().st_ino == os.fstat(held).st_ino:
                return held
        os.close(held)


def _taken(lock: Path, whoever: bool) -> int | None:
    """The lock for ourselves alone, if it is ours to take and nobody holds it;

    None where it is not, or is not there.
    """
    try:
        held = os.open(lock, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with suppress(OSError):
        if whoever or os.fstat(held).st_uid == os.geteuid():
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return held
    os.close(held)
    return None
