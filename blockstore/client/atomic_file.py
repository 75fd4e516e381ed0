"""A file of this machine that appears only when it is whole.

Rules:
- What is written lies beside its target meanwhile, under a name that nobody else has, made anew:
  never in another's file.
- A file that is replaced leaves its permissions to the new one; where a symbolic link stands, what
  it points to is replaced.
- What is no file (a pipe, a device) is written to as it is: it cannot be replaced, and takes the
  bytes as they come.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from blockstore.ids import Ids


@contextmanager
def whole_file(path: str | os.PathLike[str], ids: Ids) -> Iterator[BinaryIO]:
    """Something to write to, which is at ``path`` once the block has ended; after an error in it
    nothing has changed there.

    Raises OSError.
    """
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
