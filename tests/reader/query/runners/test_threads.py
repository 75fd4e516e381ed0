"""The main thread can be interrupted while another carries out its calls; threads are used again,
and never one that hangs."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from blockstore.reader.query.runners.threads import Beside, Carriers


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A suite that was started in the background ignores SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def carriers() -> Iterator[Carriers]:
    made = Carriers()
    yield made
    made.close()


def interrupt_the_main_thread() -> None:
    """As Ctrl-C does: only a signal to that thread wakes it."""
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def query_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "query"}


def used(carriers: Carriers) -> threading.Thread:
    """The thread that carries out the only call of a query."""
    beside = Beside(carriers, lambda: None)
    thread = beside.run(threading.current_thread)
    beside.end(lambda: None)
    return thread


def until(holds: Callable[[], bool]) -> None:
    """Wait, at most ten seconds."""
    end = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < end, "waited for ten seconds"
        time.sleep(0.001)


def test_calls_of_the_main_thread_are_carried_out_in_one_other_thread(carriers: Carriers) -> None:
    beside = Beside(carriers, lambda: None)
    first, second = beside.run(threading.current_thread), beside.run(threading.current_thread)
    assert first is second
    assert first is not threading.main_thread()
    ended: list[threading.Thread] = []
    beside.end(lambda: ended.append(threading.current_thread()))
    until(lambda: ended == [first])


def test_another_thread_carries_out_its_calls_itself(carriers: Carriers) -> None:
    found: list[object] = []

    def ask() -> None:
        beside = Beside(carriers, lambda: None)
        found.append(beside.run(threading.current_thread))
        beside.end(lambda: found.append(threading.current_thread()))

    before = query_threads()
    asking = threading.Thread(target=ask)
    asking.start()
    asking.join()
    assert found == [asking, asking]
    # Threads of earlier tests may end meanwhile.
    assert query_threads() <= before


def test_what_a_call_raises_reaches_whoever_asked(carriers: Carriers) -> None:
    beside = Beside(carriers, lambda: None)
    with pytest.raises(ZeroDivisionError):
        beside.run(lambda: 1 // 0)
    assert beside.run(lambda: 7) == 7
    beside.end(lambda: None)


def test_a_thread_serves_one_query_after_the_other(carriers: Carriers) -> None:
    before = query_threads()
    threads = set()
    for _ in range(20):
        threads.add(used(carriers))
        until(lambda: len(carriers._idle) == len(query_threads() - before))
    assert len(threads) == 1


def test_a_thread_whose_query_is_still_ending_is_not_the_next_ones(carriers: Carriers) -> None:
    go_on = threading.Event()
    beside = Beside(carriers, lambda: None)
    slow = beside.run(threading.current_thread)
    beside.end(lambda: go_on.wait(10) and None)
    assert used(carriers) is not slow
    go_on.set()


@pytest.mark.usefixtures("interruptible")
def test_an_interruption_interrupts_the_call_and_is_raised(carriers: Carriers) -> None:
    interrupted = threading.Event()
    beside = Beside(carriers, interrupted.set)

    def call() -> bool:
        interrupt_the_main_thread()
        return interrupted.wait(10)

    with pytest.raises(KeyboardInterrupt):
        beside.run(call)
    assert interrupted.is_set()
    assert beside.run(lambda: "the call has ended") == "the call has ended"
    beside.end(lambda: None)


@pytest.mark.usefixtures("interruptible")
def test_a_call_that_does_not_stop_is_left_and_holds_up_no_other_query(
    carriers: Carriers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blockstore.reader.query.runners.threads._TO_STOP_S", 0.1)
    go_on = threading.Event()
    beside = Beside(carriers, lambda: None)

    def call() -> None:
        interrupt_the_main_thread()
        go_on.wait(10)

    with pytest.raises(KeyboardInterrupt):
        beside.run(call)
    ended = threading.Event()
    beside.end(ended.set)
    assert used(carriers).name == "query"
    assert not ended.is_set()
    carriers.close()  # does not wait for it either
    assert not ended.is_set()
    go_on.set()
    assert ended.wait(10)


def test_closing_waits_for_last_calls_and_leaves_no_thread() -> None:
    before = query_threads()
    carriers = Carriers()
    ended = []
    for _ in range(3):
        beside = Beside(carriers, lambda: None)
        beside.run(lambda: None)
        beside.end(lambda: ended.append(time.sleep(0.02)))
    carriers.close()
    assert len(ended) == 3
    assert query_threads() == before


def test_a_query_that_ends_after_closing_leaves_no_thread() -> None:
    before = query_threads()
    carriers = Carriers()
    beside = Beside(carriers, lambda: None)
    beside.run(lambda: None)
    carriers.close()
    assert beside.run(lambda: "still answers") == "still answers"
    beside.end(lambda: None)
    until(lambda: query_threads() == before)
    assert used(carriers).name == "query"
    until(lambda: query_threads() == before)


def test_forgotten_carriers_leave_no_thread() -> None:
    before = query_threads()
    carriers = Carriers()
    idle = carriers._idle
    used(carriers)
    until(lambda: bool(idle))
    del carriers
    gc.collect()
    until(lambda: query_threads() == before)


def test_a_last_call_is_carried_out_before_the_interpreter_ends() -> None:
    """A thread that came back from DuckDB after it would abort the process."""
    script = """
import time
from blockstore.reader.query.runners.threads import Beside, Carriers
beside = Beside(Carriers(), lambda: None)
beside.run(lambda: None)
beside.end(lambda: (time.sleep(0.3), print("carried out", flush=True)))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "carried out\n", "")


def test_a_call_that_is_out_of_time_by_itself_is_told_as_such(carriers: Carriers) -> None:
    beside = Beside(carriers, lambda: None)

    def call() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        beside.run(call)
    beside.end(lambda: None)
