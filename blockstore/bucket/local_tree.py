"""The folders of a local bucket: made for the first object, removed with the last, and durable on
request.

Rules:
- Every path comes from ``path``, which refuses ``..``, symbolic links and hidden names.
- A folder may go at any moment (another process deleted its last object): making and naming start
  again then.
- ``put`` and ``add`` return once the data, the name and, when durable, all names above it are on
  disk.
- The time of the file system is that of a file made just now. A process that may not write there,
  or finds no folder or no space, uses the machine's time: it cannot remove a block anyway.
- A hidden name that a killed process left is removed with its folder, once it is a day old.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import groupby
from typing import TypeVar

from blockstore.bucket.keys import check_key
from blockstore.bucket.local_errors import classified_write, classify_write, symlink_refused
from blockstore.bucket.local_files import HIDDEN, NewFile, locked_folder, sync_folder
from blockstore.clock import Clock, SystemClock
from blockstore.errors import Invalid, Unanswered

A = TypeVar("A")

_ATTEMPTS = 100
_REMEMBERED_FOLDERS = 4096
_SMALL_FOLDER_BYTES = 4096
_ABANDONED_MS = 24 * 3600 * 1000


class Tree:
    """The folders from ``root`` down."""

    def __init__(self, root: str, clock: Clock, *, durable: bool) -> None:
        self.root = root
        self._durable = durable
        self._clock = clock
        self._stamps = not isinstance(clock, SystemClock)
        self._on_disk: dict[str, tuple[int, int]] = {}

    def path(self, key: str) -> str:
        """Return the path of the object ``key``.

        Raises Invalid if the key, or a link on the way, leaves the bucket.
        """
        check_key(key)
        if HIDDEN in key and any(part.startswith(HIDDEN) for part in key.split("/")):
            raise Invalid(
                f"the object key {key!r} is refused: names that start with {HIDDEN!r} are reserved "
                "for the bucket"
            )
        slash = key.find("/")
        while slash >= 0:
            folder = f"{self.root}/{key[:slash]}"
            try:
                mode = os.lstat(folder).st_mode
            except OSError:
                # Nothing is below it, or the request itself will raise.
                break
            if stat.S_ISLNK(mode):
                raise symlink_refused(folder)
            slash = key.find("/", slash + 1)
        return f"{self.root}/{key}"

    def modified_ms(self, found: os.stat_result) -> int:
        """Return when a file got its name, as far as the system knows: its bytes may be older."""
        ns = found.st_mtime_ns if self._stamps else max(found.st_mtime_ns, found.st_ctime_ns)
        return ns // 1_000_000

    def now_ms(self) -> int:
        """Return the file system's time, by making a file that is not visible."""
        if self._stamps:
            return self._clock.now_ms()
        try:
            file = NewFile(self.root)
        except OSError:
            return self._clock.now_ms()
        try:
            os.utime(file.fd)
            return self.modified_ms(os.fstat(file.fd))
        except OSError:
            return self._clock.now_ms()
        finally:
            file.close()

    def new_file(self, path: str) -> NewFile:
        """Return an empty file in the folder of ``path``, not yet visible."""
        folder = _folder_of(path)
        try:
            return self._in_folder(folder, lambda: NewFile(folder))
        except OSError as error:
            raise classify_write(error, path) from error

    def add(self, file: NewFile, path: str) -> None:
        """Name the file ``path``, if that is free; else FileExistsError."""
        folder = _folder_of(path)
        try:
            self._complete(file)
            self._in_folder(folder, lambda: file.link(path))
        except FileExistsError:
            raise
        except OSError as error:
            raise classify_write(error, path) from error
        self._sync_names(folder, path)

    def put(self, file: NewFile, path: str) -> None:
        """Name the file ``path``, in place of what has that name.

        Again after an error: what is left to do.
        """
        folder, name = _folder_of(path), path.rpartition("/")[2]

        def link_or_replace() -> None:
            try:
                file.link(path)
            except FileExistsError:
                with locked_folder(folder) as folder_fd:
                    if _is_link(name, folder_fd):
                        raise symlink_refused(path) from None
                    file.replace(name, folder_fd)

        with classified_write(path):
            if not file.named:
                self._complete(file)
                self._in_folder(folder, link_or_replace)
        self._sync_names(folder, path)

    def replace_locked(self, file: NewFile, path: str, folder_fd: int) -> None:
        """Name the file ``path``, in place of what has that name; the caller holds the folder's
        lock."""
        with classified_write(path):
            self._complete(file)
            file.replace(path.rpartition("/")[2], folder_fd)
        self._sync_names(_folder_of(path), path)

    def remove(self, paths: Iterable[str]) -> None:
        """Delete what is there, in this order, on disk before the next folder's turn; then empty
        folders."""
        for folder, group in groupby(paths, key=_folder_of):
            with classified_write(folder):
                try:
                    self._unlink(folder, [path.rpartition("/")[2] for path in group])
                except (FileNotFoundError, NotADirectoryError):
                    continue  # no folder, no object
                kept = self._prune(folder)
                self._sync_left(kept)

    def _complete(self, file: NewFile) -> None:
        if self._stamps:
            now_ns = self._clock.now_ms() * 1_000_000
            os.utime(file.fd, ns=(now_ns, now_ns))
        if self._durable:
            os.fsync(file.fd)

    def _in_folder(self, folder: str, step: Callable[[], A]) -> A:
        """Return the result of ``step``, making ``folder`` whenever it is missing."""
        made = False
        for _ in range(_ATTEMPTS):
            try:
                return step()
            except FileNotFoundError:
                made = self._make(folder) or made
        if not made:
            # /proc, for example, reports "no such file" for a folder that it refuses to make.
            raise PermissionError(errno.EPERM, "a folder cannot be made there")
        return step()

    def _make(self, folder: str) -> bool:
        """Make the folder; return whether it existed at some moment."""
        made = True
        try:
            os.mkdir(folder)
        except FileNotFoundError:
            made = self._make(_folder_of(folder)) and _made(folder)
        except FileExistsError:
            if _is_not_folder(folder):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None
        if made and self._durable and len(folder) <= len(self.root):
            # The root's own name, and names above it: below the root every write syncs them itself.
            sync_folder(_folder_of(folder) or "/")
        return made

    def _sync_names(self, folder: str, path: str) -> None:
        """Put the names from ``folder`` up to the root on disk, except those that this handle knows
        are there."""
        if not self._durable:
            return
        synced = {}
        try:
            while True:
                identity = sync_folder(folder)
                if folder == self.root or self._on_disk.get(folder) == identity:
                    break
                synced[folder] = identity
                folder = _folder_of(folder)
        except FileNotFoundError:
            return  # deleted meanwhile, by a process that saw the object
        except OSError as error:
            raise Unanswered(
                f"{path} was written, but the disk did not confirm it ({error.strerror}): read it "
                "again"
            ) from error
        if len(self._on_disk) > _REMEMBERED_FOLDERS:
            self._on_disk.clear()
        self._on_disk.update(synced)

    def _sync_left(self, folder: str) -> None:
        """Put on disk what is left in ``folder``, or, if another process removed that as well,
        above it."""
        while self._durable:
            try:
                sync_folder(folder)
                return
            except FileNotFoundError:
                if folder == self.root:
                    return
                folder = _folder_of(folder)

    def _unlink(self, folder: str, names: list[str]) -> None:
        with locked_folder(folder) as folder_fd:
            for name in names:
                if _is_link(name, folder_fd):
                    raise symlink_refused(f"{folder}/{name}")
                # A folder of that name is not an object: there is nothing to delete.
                with suppress(FileNotFoundError, IsADirectoryError):
                    os.unlink(name, dir_fd=folder_fd)

    def _prune(self, folder: str) -> str:
        """Remove ``folder`` and those above it, as far as they are empty; return the first one
        left."""
        while folder != self.root:
            try:
                os.rmdir(folder)
            except FileNotFoundError:
                pass  # another process was faster
            except OSError as error:
                if error.errno not in {errno.ENOTEMPTY, errno.EEXIST} or not self._swept(folder):
                    return folder
                continue
            folder = _folder_of(folder)
        return folder

    def _swept(self, folder: str) -> bool:
        """Remove abandoned hidden names; return whether ``folder`` had nothing else."""
        oldest_ns = (self.now_ms() - _ABANDONED_MS) * 1_000_000
        with suppress(FileNotFoundError):
            if os.stat(folder).st_size > _SMALL_FOLDER_BYTES:
                return False  # listing a large folder costs more than a hidden name in it
            names = os.listdir(folder)
            if not all(name.startswith(HIDDEN) for name in names):
                return False
            if any(os.lstat(f"{folder}/{name}").st_mtime_ns > oldest_ns for name in names):
                return False
            for name in names:
                os.unlink(f"{folder}/{name}")
        return True


def _made(folder: str) -> bool:
    """Make the folder below one that existed just now; return False if that is gone again."""
    try:
        os.mkdir(folder)
    except FileExistsError:
        return True
    except FileNotFoundError:
        return False
    return True


def _is_not_folder(path: str) -> bool:
    """Return whether the path is something other than a folder.

    By one call of the system: between two, the path could be removed.
    """
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return False
    return not stat.S_ISDIR(mode) and not (stat.S_ISLNK(mode) and os.path.isdir(path))


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def _is_link(name: str, folder_fd: int) -> bool:
    try:
        return stat.S_ISLNK(os.lstat(name, dir_fd=folder_fd).st_mode)
    except FileNotFoundError:
        return False
