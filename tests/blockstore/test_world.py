from __future__ import annotations

import os
import threading

import pytest

from blockstore.clock import ManualClock, SystemClock
from blockstore.world import Serial, Threads, World


@pytest.mark.parametrize("pool", [Serial(), Threads(4)])
def test_a_pool_results_in_the_order_of_its_items(pool: Serial | Threads) -> None:
    assert pool.map(lambda n: n * n, range(50)) == [n * n for n in range(50)]
    assert pool.map(lambda n: n, []) == []


def test_a_pool_raises_only_after_every_call_has_ended() -> None:
    ended: list[int] = []

    def call(number: int) -> None:
        if number == 0:
            raise ValueError("first")
        ended.append(number)

    with pytest.raises(ValueError, match="first"):
        Threads(3).map(call, range(20))
    assert sorted(ended) == list(range(1, 20))


def test_callers_that_share_a_busy_pool_do_their_own_work() -> None:
    """Threads that commit through one handle share its pool: they would wait for one another."""
    pool = Threads(1)
    busy, free = threading.Event(), threading.Event()

    def occupy() -> None:
        busy.set()
        free.wait(60)

    def hold() -> None:
        pool.map(lambda call: call(), [busy.wait, occupy])

    holder = threading.Thread(target=hold, daemon=True)
    holder.start()
    assert busy.wait(60)
    here = threading.get_ident()
    assert pool.map(lambda _: threading.get_ident(), range(5)) == [here] * 5
    free.set()
    holder.join(60)


def test_what_has_not_begun_when_the_caller_is_interrupted_never_begins() -> None:
    """Ctrl-C in a notebook: the process goes on, and must not go on with what was given up."""
    pool = Threads(1)
    busy, free = threading.Event(), threading.Event()
    began: list[int] = []

    def occupy() -> None:
        busy.set()
        free.wait(60)

    def call(number: int) -> None:
        began.append(number)
        if number == 0:
            raise KeyboardInterrupt

    pool.start(occupy)
    assert busy.wait(60)
    with pytest.raises(KeyboardInterrupt):
        pool.map(call, range(5))
    free.set()
    later = threading.Event()
    pool.start(later.set)
    assert later.wait(60)
    assert began == [0]


def test_a_pool_works_again_in_a_forked_child() -> None:
    """A thread does not survive a fork; a pool that forgot would hang for ever."""
    pool = Threads(2)
    assert pool.map(abs, [-1, -2]) == [1, 2]
    read, write = os.pipe()
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os.write(write, bytes(pool.map(abs, [-3, -4])))
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 10) == bytes([3, 4])


def test_a_manual_clock_moves_only_when_told() -> None:
    clock = ManualClock(1000)
    assert (clock.now_ms(), clock.now_ms()) == (1000, 1000)
    clock.advance(1.5)
    clock.sleep(0.5)
    assert clock.now_ms() == 3000
    assert clock.monotonic_s() == 3.0


def test_the_systems_clock_runs_in_milliseconds_of_this_century() -> None:
    clock = SystemClock()
    before = clock.monotonic_s()
    clock.sleep(0)
    assert clock.monotonic_s() >= before
    assert 1_600_000_000_000 < clock.now_ms() < 4_000_000_000_000


def test_a_manual_world_repeats_itself() -> None:
    assert World.manual(seed=5).ids.ulid() == World.manual(seed=5).ids.ulid()


def test_a_map_inside_a_map_ends_whatever_the_number_of_threads() -> None:
    """All threads of a pool could wait for work that none of them is left to do."""
    threads = Threads(2)
    results: list[object] = []

    def outer(number: int) -> list[int]:
        return threads.map(lambda inner: 10 * number + inner, range(3))

    def ask() -> None:
        results.append(threads.map(outer, range(6)))

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(60)
    assert results == [[[10 * number + inner for inner in range(3)] for number in range(6)]]


def test_an_error_inside_a_map_inside_a_map_is_raised_once_all_have_ended() -> None:
    threads = Threads(2)
    ran: list[int] = []

    def inner(number: int) -> None:
        ran.append(number)
        if number == 1:
            raise ValueError("one")

    with pytest.raises(ValueError, match="one"):
        threads.map(lambda _: threads.map(inner, range(3)), range(4))
    assert sorted(ran) == sorted([0, 1, 2] * 4)
