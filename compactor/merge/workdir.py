"""The folder of one merge on the work disk, and what dead processes left there.

Rules:
- A failure there is reported with the folder and what to do. It does not affect merges that need no
  work disk (on Spark each has its folder there).
- A merge has its own folder, ``blockstore-merge-<ULID>``, created at its first use and removed at
  its end. An attempt at a piece has one around that, ``blockstore-merge-<token>``, which is held
  the same way. Nothing else has such a name.
- Each is held while its process lives (``scratch.py``); the next start removes what dead processes
  left.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from blockstore import scratch
from blockstore.errors import Invalid, NoSpace, Unavailable
from blockstore.names import BOUNDARY, META, entry_key, is_ulid
from blockstore.scratch import HeldFolder

_PREFIX = "blockstore-merge-"
_NAME = re.compile(_PREFIX + r"(?:[0-7][0-9A-HJKMNP-TV-Z]{25}|[0-9a-f]{16})")

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_OF_THE_PROCESS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""Limits of the process or the machine, which are the same for every folder."""


class NoWorkDirectory(Unavailable):
    """The work directory cannot be used; merges that need none are not affected."""


class work_disk:  # noqa: N801
    """Turns OSErrors in a folder on the work disk into NoSpace or NoWorkDirectory, which name it
    and what to do."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, OSError) or error.errno is None or error.errno in _OF_THE_PROCESS:
            return
        if error.errno in _FULL:
            raise NoSpace(
                f"the work directory {self._folder} is full: free some space, or set work_dir to "
                "a larger disk"
            ) from error
        raise NoWorkDirectory(
            f"the work directory {self._folder} cannot be used ({os.strerror(error.errno)}): make "
            "it a folder that this process can write to, or set work_dir to another one"
        ) from error


def merge_folder(work_dir: Path, name: str) -> Path:
    """The folder of the merge with this ULID, or of the attempt with this token."""
    folder = work_dir / f"{_PREFIX}{name}"
    assert _NAME.fullmatch(folder.name), f"{name} is neither a ULID nor a token"
    return folder


class WorkDirectory:
    """The folder of one merge; it is not created until something is put there."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._held: HeldFolder | None = None

    def open(self) -> Path:
        """The folder, which exists and is held from now on. Raises NoSpace, NoWorkDirectory."""
        with work_disk(self._directory.parent):
            if self._held is None:
                self._directory.parent.mkdir(parents=True, exist_ok=True)
                self._held = HeldFolder(self._directory)
            self._directory.mkdir(exist_ok=True)  # the disk may have been cleared meanwhile
        return self._directory

    def path(self, name: str) -> Path:
        """A path in the folder, which exists and is held from now on."""
        return self.open() / name

    def clear(self) -> None:
        """Remove the folder and all that is in it; allowed at any time."""
        if self._held is not None:
            self._held.remove()
            self._held = None


def clear_abandoned(work_dir: Path) -> int:
    """Remove what merges of dead processes left in ``work_dir``; return the number of folders."""
    return scratch.clear_abandoned(work_dir, _NAME, any_user=True)


def check_outside_tables(work_dir: Path) -> None:
    """Raise Invalid if ``work_dir`` is a table on this machine, or inside one: only the table's
    objects belong there."""
    for folder in (work_dir, *work_dir.parents):
        if _is_table(folder):
            raise Invalid(
                f"the work directory {work_dir} is inside the table {folder}, whose folder must "
                "contain nothing else: set work_dir to a folder outside of all tables"
            )


def _is_table(folder: Path) -> bool:
    """Whether a folder contains an index or a complete block."""
    if any(os.path.exists(folder / key) for key in (BOUNDARY, entry_key(1))):
        return True
    return any(is_ulid(marker.parent.name) for marker in folder.glob(f"*/{META}"))
