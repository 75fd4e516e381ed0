"""Folders for data that outgrows memory, and the removal of those of dead processes.

Rules:
- Each folder has a lock file next to it, named like it with ``.lock``. Processes hold the lock
  while they live: the one that opened it, and those that inherit the descriptor. It is made before
  the folder and removed after it, so a folder whose lock is not held belongs to a dead process.
- Processes that make folders with such names remove those of dead processes when they start, and
  nothing else: a folder with another name, or without a lock, is not theirs, and the disk may be
  shared. The folders of another user are removed only with ``any_user``.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

LOCK = ".lock"
"""The suffix of a lock file's name, after the name of its folder."""


class HeldFolder:
    """A folder that this process holds until it removes it.

    Raises OSError if it cannot be made.
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
        """Remove the folder and its content; call it once.

        What a failing disk keeps is removed at the next start.
        """
        _remove(self.path, self._lock, self.held)


def clear_abandoned(parent: Path, name: re.Pattern[str], *, any_user: bool) -> int:
    """Remove the folders with such names that dead processes left in ``parent``.

    ``any_user`` includes those of other users. Returns how many folders were removed.
    """
    cleared = 0
    for lock in sorted(parent.glob(f"*{LOCK}")):
        folder = lock.with_name(lock.name.removesuffix(LOCK))
        held = (
            _taken(lock, any_user)
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
    """Return the lock's descriptor, held and shared.

    The file is made again if another process removed it in that moment as abandoned.
    """
    while True:
        held = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fcntl.flock(held, fcntl.LOCK_SH)
        with suppress(FileNotFoundError):
            if lock.stat().st_ino == os.fstat(held).st_ino:
                return held
        os.close(held)


def _taken(lock: Path, any_user: bool) -> int | None:
    """Return the lock's descriptor, held exclusively; None if another process or user has it, or it
    does not exist.
    """
    try:
        held = os.open(lock, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with suppress(OSError):
        if any_user or os.fstat(held).st_uid == os.geteuid():
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return held
    os.close(held)
    return None
