"""A local file that appears only when it is complete.

Rules:
- The bytes are first written next to the target, to a new file with a name of its own: never into
  an existing file.
- A file that replaces another keeps its permissions; for a symbolic link, its target is replaced.
- A pipe or a device cannot be replaced: the bytes go into it directly.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from blockstore.ids import Ids


@contextmanager
def atomic_file(path: str | os.PathLike[str], ids: Ids) -> Iterator[BinaryIO]:
    """A file to write to, which is at ``path`` when the block ends; after an error in the block
    ``path`` is unchanged. Raises OSError."""
    try:
        replaced: os.stat_result | None = os.stat(path)
    except FileNotFoundError:
        replaced = None
    if replaced is not None and not stat.S_ISREG(replaced.st_mode):
        with open(path, "wb") as there:
            yield there
        return
    target = os.path.realpath(path)
    part = os.path.join(os.path.dirname(target), f".blockstore-{ids.token()}.part")
    number = os.open(
        part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666
    )
    try:
        with open(number, "wb") as out:
            if replaced is not None:
                os.fchmod(number, stat.S_IMODE(replaced.st_mode))
            yield out
        os.replace(part, target)
    except BaseException:
        with suppress(OSError):
            os.remove(part)
        raise
