"""What a process holds is what it wrote to, and who holds more than it may is told of once."""

from __future__ import annotations

import mmap
import os
import threading
import time
from collections.abc import Callable

import pytest

from blockstore.reader.query.runners.memory import MemoryWatch, held_bytes

MIB = 1 << 20
NOBODY = 2**22 + 1
"""No process has such a number."""


def held() -> int:
    found = held_bytes(os.getpid())
    assert found is not None
    return found


def test_what_is_reserved_is_not_held_and_what_is_written_is() -> None:
    before = held()
    with mmap.mmap(-1, 1024 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as reserved:
        assert held() - before < 32 * MIB
        for at in range(0, 128 * MIB, 4096):
            reserved[at] = 1
        assert 100 * MIB < held() - before < 160 * MIB
    assert held() - before < 32 * MIB


def test_of_a_process_that_is_not_there_nothing_is_known() -> None:
    assert held_bytes(NOBODY) is None


def test_who_holds_more_is_told_of_once_and_who_holds_less_is_not() -> None:
    told: list[int] = []
    first = threading.Event()

    def outgrew(bytes_held: int) -> None:
        told.append(bytes_held)
        first.set()

    small, large = MemoryWatch(MIB), MemoryWatch(1 << 40)
    small.begin(os.getpid(), outgrew)
    large.begin(os.getpid(), outgrew)
    assert first.wait(30)
    time.sleep(0.2)
    assert len(told) == 1
    assert told[0] > MIB
    small.close()
    large.close()


def test_who_is_no_longer_looked_at_is_not_told_of() -> None:
    told: list[int] = []
    watch = MemoryWatch(held() + 32 * MIB)
    watch.begin(os.getpid(), told.append)
    watch.end(os.getpid())
    watch.end(os.getpid())
    grown = bytearray(b"x") * (128 * MIB)
    time.sleep(0.2)
    assert len(grown) == 128 * MIB
    assert told == []
    watch.close()


@pytest.mark.parametrize(
    "end", [lambda watch: watch.close(), lambda watch: None], ids=["closed", "forgotten"]
)
def test_its_thread_ends_with_it(end: Callable[[MemoryWatch], object]) -> None:
    before = set(threading.enumerate())
    watch = MemoryWatch(MIB)
    watch.begin(NOBODY, lambda _: None)
    (thread,) = set(threading.enumerate()) - before
    end(watch)
    del watch
    thread.join(30)
    assert not thread.is_alive()
