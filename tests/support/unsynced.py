"""``os.fsync`` waits for the disk only where a test is about that.

A test ends processes, never the machine: what a file was given is there for whoever opens it next,
synced or not. The suite asks for tens of thousands of syncs, and each is a wait of milliseconds.
Processes that a test starts sync as ever, and so do the tests of what writes files (``FOLDERS``).
"""

from __future__ import annotations

import os

import pytest

REAL = os.fsync
FOLDERS = ("tests/blockstore/bucket/", "tests/contract/")


def unsynced(fd: int) -> None:
    """Fail as ``os.fsync`` does where there is no such file, and do nothing otherwise."""
    os.fstat(fd)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before a test and its fixtures; what a test sets itself is undone after it."""
    os.fsync = REAL if item.nodeid.startswith(FOLDERS) else unsynced
