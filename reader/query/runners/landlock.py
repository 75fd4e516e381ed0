"""The kernel's lock on a process (Landlock): after the call it can read files in some folders, write
in others, and open no TCP connection. Nothing can lift the lock.

It applies to the calling thread and to all threads and processes that it starts later, so it is
called before the work of a process begins. A rule is for the folder, not for its name: a folder that
is created again is another one, which an earlier lock does not include.

Source: Linux, Documentation/userspace-api/landlock.rst; the numbers of the calls are the same on
every architecture.
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys
from collections.abc import Iterable
from functools import cache
from typing import TypeAlias

Identity: TypeAlias = tuple[int, int] | None
"""The file system's identity of a folder or file; None: there is none."""

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1
_PATH_BENEATH = 1
_NO_NEW_PRIVILEGES = 38

_LEAST_VERSION = 4
"""Linux 6.7: the first with rules for TCP and for every way to change a file."""

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = (1 << bit for bit in range(4))
_REMOVE_FILE, _MAKE_DIR, _MAKE_FILE, _REMOVE_DIR, _TRUNCATE = (
    1 << 5,
    1 << 7,
    1 << 8,
    1 << 4,
    1 << 14,
)
_ALL_OF_FILES = (1 << 15) - 1
_ALL_OF_TCP = 0b11
_READ = _READ_FILE | _READ_DIR
_WRITE = _READ | _WRITE_FILE | _REMOVE_FILE | _REMOVE_DIR | _MAKE_DIR | _MAKE_FILE | _TRUNCATE
_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
"""What a rule can allow for a file; the rest is for folders."""


class _Ruleset(ctypes.Structure):
    """``struct landlock_ruleset_attr`` of version 4: what it lists is refused unless a rule allows
    it."""

    _fields_ = (("of_files", ctypes.c_uint64), ("of_tcp", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    """``struct landlock_path_beneath_attr``."""

    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


@cache
def knows_enough() -> bool:
    """Whether this kernel has the lock and allows this process to use it."""
    if sys.platform != "linux":
        return False
    try:
        return _call(_CREATE_RULESET, None, 0, _ASK_VERSION) >= _LEAST_VERSION
    except OSError:
        return False


def confine(*, read: Iterable[str], write: Iterable[str]) -> None:
    """Confine the calling thread, and all that it starts, to reading in ``read`` and to reading,
    creating, writing and removing in ``write``. Paths that do not exist or cannot be opened are
    left out. Raises OSError if the kernel cannot do it; then nothing is locked."""
    wanted = _Ruleset(of_files=_ALL_OF_FILES, of_tcp=_ALL_OF_TCP)
    rules = _call(_CREATE_RULESET, ctypes.byref(wanted), ctypes.sizeof(wanted), 0)
    try:
        for paths, allowed in ((read, _READ), (write, _WRITE)):
            for path in paths:
                _allow(rules, path, allowed)
        # The kernel requires that the process can gain no rights by running another user's program.
        if _libc().prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_NO_NEW_PRIVS) was refused")
        _call(_RESTRICT_SELF, rules, 0)
    finally:
        os.close(rules)


def identity(path: str) -> Identity:
    """The identity of what is at the path now."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _allow(rules: int, path: str, allowed: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            allowed &= _OF_A_FILE
        rule = _Beneath(allowed=allowed, folder=place)
        _call(_ADD_RULE, rules, _PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(place)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(number: int, *values: object) -> int:
    """A system call that the C library has no function for. Raises OSError."""
    answer = int(_libc().syscall(ctypes.c_long(number), *values))
    if answer < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"landlock: {os.strerror(error)}")
    return answer
