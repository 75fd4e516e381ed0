"""The main thread can be interrupted while another runs its calls; threads are used again,
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

from blockstore.reader.query.runners.threads import QueryThread, QueryThreads


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A suite that was started in the background ignores SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def pool() -> Iterator[QueryThreads]:
    made = QueryThreads()
    yield made
    made.close()


def interrupt_the_main_thread() -> None:
    """As Ctrl-C does: only a signal to that thread wakes it."""
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def query_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "query"}


def used(pool: QueryThreads) -> threading.Thread:
    """The thread that runs the only call of a query."""
    query = QueryThread(pool, lambda: None)
    thread = query.run(threading.current_thread)
    query.end(lambda: None)
    return thread


def until(holds: Callable[[], bool]) -> None:
    """Wait, at most ten seconds."""
    end = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < end, "waited for ten seconds"
        time.sleep(0.001)


def test_calls_of_the_main_thread_are_run_in_one_other_thread(pool: QueryThreads) -> None:
    query = QueryThread(pool, lambda: None)
    first, second = query.run(threading.current_thread), query.run(threading.current_thread)
    assert first is second
    assert first is not threading.main_thread()
    ended: list[threading.Thread] = []
    query.end(lambda: ended.append(threading.current_thread()))
    until(lambda: ended == [first])


def test_another_thread_runs_its_calls_itself(pool: QueryThreads) -> None:
    found: list[object] = []

    def ask() -> None:
        query = QueryThread(pool, lambda: None)
        found.append(query.run(threading.current_thread))
        query.end(lambda: found.append(threading.current_thread()))

    before = query_threads()
    asking = threading.Thread(target=ask)
    asking.start()
    asking.join()
    assert found == [asking, asking]
    # Threads of earlier tests may end meanwhile.
    assert query_threads() <= before


def test_what_a_call_raises_reaches_the_caller(pool: QueryThreads) -> None:
    query = QueryThread(pool, lambda: None)
    with pytest.raises(ZeroDivisionError):
        query.run(lambda: 1 // 0)
    assert query.run(lambda: 7) == 7
    query.end(lambda: None)


def test_a_thread_serves_one_query_after_the_other(pool: QueryThreads) -> None:
    before = query_threads()
    threads = set()
    for _ in range(20):
        threads.add(used(pool))
        until(lambda: len(pool._idle) == len(query_threads() - before))
    assert len(threads) == 1


def test_a_thread_whose_query_is_still_ending_is_not_the_next_ones(pool: QueryThreads) -> None:
    go_on = threading.Event()
    query = QueryThread(pool, lambda: None)
    slow = query.run(threading.current_thread)
    query.end(lambda: go_on.wait(10) and None)
    assert used(pool) is not slow
    go_on.set()


@pytest.mark.usefixtures("interruptible")
def test_an_interruption_interrupts_the_call_and_is_raised(pool: QueryThreads) -> None:
    interrupted = threading.Event()
    query = QueryThread(pool, interrupted.set)

    def call() -> bool:
        interrupt_the_main_thread()
        return interrupted.wait(10)

    with pytest.raises(KeyboardInterrupt):
        query.run(call)
    assert interrupted.is_set()
    assert query.run(lambda: "the call has ended") == "the call has ended"
    query.end(lambda: None)


@pytest.mark.parametrize("taken", [False, True], ids=["before it has a thread", "after"])
def test_an_interruption_before_the_call_is_submitted_stops_the_query(
    pool: QueryThreads, monkeypatch: pytest.MonkeyPatch, taken: bool
) -> None:
    interrupted = threading.Event()
    query = QueryThread(pool, interrupted.set)
    if taken:
        query.run(lambda: None)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(query._thread if taken else pool, "submit" if taken else "take", interrupt)
        with pytest.raises(KeyboardInterrupt):
            query.run(lambda: None)
    assert interrupted.is_set()
    query.end(lambda: None)


@pytest.mark.usefixtures("interruptible")
def test_a_call_that_does_not_stop_is_left_and_holds_up_no_other_query(
    pool: QueryThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blockstore.reader.query.runners.threads._TO_STOP_S", 0.1)
    go_on = threading.Event()
    query = QueryThread(pool, lambda: None)

    def call() -> None:
        interrupt_the_main_thread()
        go_on.wait(10)

    with pytest.raises(KeyboardInterrupt):
        query.run(call)
    ended = threading.Event()
    query.end(ended.set)
    assert used(pool).name == "query"
    assert not ended.is_set()
    pool.close()  # does not wait for it either
    assert not ended.is_set()
    go_on.set()
    assert ended.wait(10)


def test_closing_waits_for_last_calls_and_leaves_no_thread() -> None:
    before = query_threads()
    pool = QueryThreads()
    ended = []
    for _ in range(3):
        query = QueryThread(pool, lambda: None)
        query.run(lambda: None)
        query.end(lambda: ended.append(time.sleep(0.02)))
    pool.close()
    assert len(ended) == 3
    assert query_threads() == before


def test_a_query_that_ends_after_closing_leaves_no_thread() -> None:
    before = query_threads()
    pool = QueryThreads()
    query = QueryThread(pool, lambda: None)
    query.run(lambda: None)
    pool.close()
    assert query.run(lambda: "still answers") == "still answers"
    query.end(lambda: None)
    until(lambda: query_threads() == before)
    assert used(pool).name == "query"
    until(lambda: query_threads() == before)


def test_forgotten_carriers_leave_no_thread() -> None:
    before = query_threads()
    pool = QueryThreads()
    idle = pool._idle
    used(pool)
    until(lambda: bool(idle))
    del pool
    gc.collect()
    until(lambda: query_threads() == before)


def test_a_last_call_is_run_before_the_interpreter_ends() -> None:
    """A thread that came back from DuckDB after it would abort the process."""
    script = """
import time
from blockstore.reader.query.runners.threads import QueryThread, QueryThreads
query = QueryThread(QueryThreads(), lambda: None)
query.run(lambda: None)
query.end(lambda: (time.sleep(0.3), print("run", flush=True)))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "run\n", "")


def test_a_call_that_is_out_of_time_by_itself_is_reported_as_such(pool: QueryThreads) -> None:
    query = QueryThread(pool, lambda: None)

    def call() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        query.run(call)
    query.end(lambda: None)
