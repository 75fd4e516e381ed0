"""Listings of a folder as a bucket's: keys in UTF-8 order over nested folders, at the cost of what
they yield.

Rules:
- Only regular files with names that UTF-8 can write are objects: links, pipes and hidden names are
  not shown.
- Times come from the caller's ``modified`` (``local_tree.py``).
- A listing starts at the deepest folder that its prefix names and enters no folder that cannot hold
  a hit.
- What is removed while it is listed is not shown; any other error of the system ends the listing.
- A listing of folders shows one that may not be read: its neighbours must be listed too.

Python orders text by code points, which is the order of its UTF-8 bytes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from typing import TypeAlias

from blockstore.bucket.api import ObjectInfo
from blockstore.bucket.local_errors import classify
from blockstore.bucket.local_files import HIDDEN
from blockstore.errors import AccessDenied

Modified: TypeAlias = Callable[[os.stat_result], int]
"""An object's time in milliseconds, by what the system says of its file."""


def list_deep(root: str, prefix: str, start_after: str, modified: Modified) -> Iterator[ObjectInfo]:
    """Every object whose key starts with ``prefix`` and sorts after ``start_after``."""
    folder, stem, head = _split(root, prefix)
    return _walk(folder, stem, head, start_after, modified)


def list_flat(root: str, prefix: str, start_after: str, modified: Modified) -> Iterator[ObjectInfo]:
    """Yield the objects without a further ``/`` after ``prefix``: names are filtered before files
    are read."""
    folder, stem, head = _split(root, prefix)
    if start_after.startswith(stem):
        start_after = start_after[len(stem) :]
    elif start_after > stem:
        return
    else:
        start_after = ""
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise classify(error, folder) from error
    hits = [name for name in names if name > start_after and name.startswith(head) and _shown(name)]
    hits.sort()
    for name in hits:
        info = _info(f"{folder}/{name}", stem + name, modified)
        if info is not None:
            yield info


def list_folders(root: str, prefix: str) -> Iterator[str]:
    """The next parts below ``prefix``, each ending in ``/``, of those folders that hold an
    object."""
    folder, stem, head = _split(root, prefix)
    for name in _sifted(folder, head):
        if name.endswith("/") and _may_hold_an_object(f"{folder}/{name[:-1]}", stem + name):
            yield stem + name


def _may_hold_an_object(folder: str, stem: str) -> bool:
    try:
        return any(True for _ in _walk(folder, stem, "", "", lambda _: 0))
    except AccessDenied:
        return True


def _walk(
    folder: str, stem: str, head: str, start_after: str, modified: Modified
) -> Iterator[ObjectInfo]:
    for name in _sifted(folder, head):
        key = stem + name
        if name.endswith("/"):
            if key > start_after or start_after.startswith(key):
                yield from _walk(f"{folder}/{name[:-1]}", key, "", start_after, modified)
        elif key > start_after:
            info = _info(f"{folder}/{name}", key, modified)
            if info is not None:
                yield info


def _sifted(folder: str, head: str) -> list[str]:
    """The names in ``folder`` that start with ``head``, in the order of the keys: a folder sorts as
    ``name/``."""
    try:
        with os.scandir(folder) as entries:
            names = [
                f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name
                for entry in entries
                if entry.name.startswith(head) and _shown(entry.name)
            ]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise classify(error, folder) from error
    names.sort()
    return names


def _info(path: str, key: str, modified: Modified) -> ObjectInfo | None:
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise classify(error, path) from error
    if not stat.S_ISREG(found.st_mode):
        return None
    return ObjectInfo(key=key, size=found.st_size, modified_ms=modified(found))


def _shown(name: str) -> bool:
    if name.startswith(HIDDEN):
        return False
    if name.isascii():
        return True
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _split(root: str, prefix: str) -> tuple[str, str, str]:
    """The deepest folder that a prefix names, its key with ``/`` at the end, and how names in it
    start."""
    stem, slash, head = prefix.rpartition("/")
    return (f"{root}/{stem}", stem + slash, head) if slash else (root, "", head)
