"""Folders for what outgrows memory, and those that dead processes left behind.

Rules:
- Each engine has one of its own in the system's folder for temporary files, ``blockstore-spill-<token>``, removed at its end.
- Beside it lies a lock file that its processes hold while they live: the one that made it, and the one that spills. It is made before the
  folder and removed after it, so a folder with a lock that nobody holds is a dead process's. A gateway that starts removes those, and
  nothing else: a folder that has another name, or no lock, or another user's, is somebody else's.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

__all__ = ["SpillFolder", "clear_abandoned"]

_PREFIX = "blockstore-spill-"
_LOCK = ".lock"
_NAME = re.compile(re.escape(_PREFIX) + r"[a-z0-9_]{8}")


class SpillFolder:
    """A new folder, held until it is removed."""

    def __init__(self) -> None:
        """Raises OSError."""
        self.held, self._lock = _locked()
        """The descriptor that holds the lock; a process that inherits it holds it too."""
        self.path = self._lock.removesuffix(_LOCK)
        try:
            os.mkdir(self.path, 0o700)
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Remove it with all that is in it; once."""
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):
            os.unlink(self._lock)
        os.close(self.held)


def clear_abandoned() -> int:
    """Remove what dead processes of this user left; answers how many folders that were."""
    cleared = 0
    for lock in sorted(Path(tempfile.gettempdir()).glob(f"{_PREFIX}*{_LOCK}")):
        folder = lock.with_name(lock.name.removesuffix(_LOCK))
        held = _taken(lock) if _NAME.fullmatch(folder.name) and not folder.is_symlink() else None
        if held is None:
            continue
        cleared += folder.is_dir()
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):
            lock.unlink(missing_ok=True)
        os.close(held)
    return cleared


def _locked() -> tuple[int, str]:
    """A lock of a new name, held and shared; another one where somebody took it for a dead process's in that moment."""
    while True:
        made, path = tempfile.mkstemp(prefix=_PREFIX, suffix=_LOCK)
        with suppress(BlockingIOError, FileNotFoundError):
            fcntl.flock(made, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if os.stat(path).st_ino == os.fstat(made).st_ino:
                return made, path
        os.close(made)


def _taken(lock: Path) -> int | None:
    """The lock for ourselves alone, if it is this user's and nobody holds it."""
    try:
        held = os.open(lock, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with suppress(OSError):
        if os.fstat(held).st_uid == os.geteuid():
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return held
    os.close(held)
    return None
