"""Files that appear complete: the steps of the local bucket's writes.

Rules:
- A new file has no name until it is complete (O_TMPFILE), so a killed writer leaves nothing at all.
  Where the system has no such files, and for the moment in which a name is replaced, it has a name
  that starts with ``HIDDEN``, which no key may have and no listing shows.
- ``link`` gives the name if it is free, atomically: of any number of callers exactly one succeeds.
- ``replace`` needs the folder's lock, as deleting and comparing do. The lock is a flock on the
  folder itself: it leaves no file, ends with its process, and is the same for every root through
  which the folder is reached.
- Nothing here syncs by itself.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

HIDDEN = ".~blockstore."

_UNNAMED = getattr(os, "O_TMPFILE", 0) if os.path.isdir("/proc/self/fd") else 0
_NO_UNNAMED = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.EPERM}
"""No unnamed files here; or (EPERM, on ext4) none now: the folder is just being removed, which a
name waits for."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_numbers = count()


class NewFile:
    """A file in ``folder`` that is not visible yet.

    Raises FileNotFoundError if the folder is missing.
    """

    __slots__ = ("_folder", "_hidden", "fd", "named", "size")

    def __init__(self, folder: str) -> None:
        self.fd = -1
        self.size = 0
        self.named = False
        self._folder = folder
        self._hidden: str | None = None
        if _UNNAMED:
            try:
                self.fd = os.open(folder, _UNNAMED | os.O_WRONLY | os.O_CLOEXEC, 0o666)
            except OSError as error:
                if error.errno not in _NO_UNNAMED:
                    raise
        while self.fd < 0:
            hidden = _hidden_name()
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
            try:
                self.fd = os.open(f"{folder}/{hidden}", flags, 0o666)
            except FileExistsError:
                continue  # left by a dead process that had our number
            self._hidden = hidden

    def write(self, data: bytes | memoryview) -> None:
        """All of ``data`` after what was written; a write that raised may be made again."""
        size = len(data)
        done = os.pwrite(self.fd, data, self.size)
        while done < size:
            done += os.pwrite(self.fd, memoryview(data)[done:], self.size + done)
        self.size += size

    def link(self, path: str) -> None:
        """Give it the name ``path``; raises FileExistsError if that is taken."""
        if self._hidden is None:
            # src_dir_fd makes Python call linkat, which alone follows the link in /proc to the
            # file.
            os.link(f"/proc/self/fd/{self.fd}", path, src_dir_fd=self.fd, follow_symlinks=True)
        else:
            os.link(f"{self._folder}/{self._hidden}", path)
        self.named = True

    def replace(self, name: str, folder_fd: int) -> None:
        """Give it the name ``name`` in its folder, in place of what has it.

        With the folder's lock held.
        """
        while self._hidden is None:
            hidden = _hidden_name()
            source = f"/proc/self/fd/{self.fd}"
            try:
                os.link(
                    source, hidden, src_dir_fd=self.fd, dst_dir_fd=folder_fd, follow_symlinks=True
                )
            except FileExistsError:
                continue  # left by a dead process that had our number
            self._hidden = hidden
        os.rename(self._hidden, name, src_dir_fd=folder_fd, dst_dir_fd=folder_fd)
        self._hidden = None
        self.named = True

    def close(self) -> None:
        """Let go of it: what has got no name by now never existed. May be called again."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)
        hidden, self._hidden = self._hidden, None
        if hidden is not None:
            try:
                os.unlink(f"{self._folder}/{hidden}")
            except FileNotFoundError:
                pass  # its folder went, and the name with it

    def __del__(self) -> None:
        self.close()


@contextmanager
def locked_folder(folder: str) -> Iterator[int]:
    """The folder's file descriptor, with its lock held.

    Raises FileNotFoundError or NotADirectoryError.
    """
    fd = os.open(folder, _FOLDER)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        try:
            yield fd
        finally:
            # Closing is not enough: a child forked meanwhile holds a copy of the descriptor.
            fcntl.flock(fd, fcntl.LOCK_UN)
    finally:
        os.close(fd)


def sync_folder(folder: str) -> tuple[int, int]:
    """Put the folder's names on disk; return its device and inode, which identify the folder."""
    fd = os.open(folder, _FOLDER)
    try:
        os.fsync(fd)
        found = os.fstat(fd)
        return found.st_dev, found.st_ino
    finally:
        os.close(fd)


def _hidden_name() -> str:
    return f"{HIDDEN}{os.getpid()}.{threading.get_native_id()}.{next(_numbers)}"
