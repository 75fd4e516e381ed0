"""Files that a process reads again while it runs.

Rules:
- Files are looked at by their bytes, through their paths: files that are replaced, also by a
  symlink to them or to their folder (as Kubernetes replaces secrets), are a change; a new time
  alone is none.
- A change counts when two looks in a row found the same bytes: one look may find a part of what an
  editor writes, or one of two files that belong together.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

LOOK_S = 1
"""How often files are looked at, in seconds."""


class WatchedFiles:
    """Some files; they are read when this is made."""

    def __init__(self, *paths: Path) -> None:
        self._paths = paths
        self._used = self._seen = self._bytes()

    def have_changed(self) -> bool:
        """Whether they have other bytes than at the last change that this said."""
        found = self._bytes()
        settled, self._seen = found == self._seen, found
        if found == self._used or not settled:
            return False
        self._used = found
        return True

    def _bytes(self) -> tuple[bytes | None, ...]:
        """What the files have; None for one that cannot be read."""
        found: list[bytes | None] = []
        for path in self._paths:
            found.append(None)
            with suppress(OSError):
                found[-1] = path.read_bytes()
        return tuple(found)
