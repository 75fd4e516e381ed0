"""A signal ends a process wherever the signal finds it."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from blockstore.service.signals import on_signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_that_does_not_wake_the_main_thread_is_acted_on(number: signal.Signals) -> None:
    """As for one that comes after the interpreter's last look and before the thread sleeps: here
    it comes to another thread, which leaves the main thread asleep."""
    over = threading.Event()

    def send() -> None:
        time.sleep(0.2)
        signal.pthread_kill(threading.get_ident(), number)

    with on_signals(over.set):
        threading.Thread(target=send).start()
        assert over.wait(30.0)


def test_a_signal_is_acted_on_while_the_main_thread_holds_the_events_own_lock() -> None:
    over = threading.Event()
    with on_signals(over.set):
        with over._cond:  # type: ignore[attr-defined]
            signal.raise_signal(signal.SIGTERM)
        assert over.wait(30.0)


def test_each_signal_is_acted_on_and_others_are_not() -> None:
    acted = threading.Semaphore(0)
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        with on_signals(acted.release):
            for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
                signal.raise_signal(number)
            assert acted.acquire(timeout=30.0)
            assert acted.acquire(timeout=30.0)
        assert not acted.acquire(timeout=0.1)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_sighup_reloads_where_there_is_something_to_reload() -> None:
    ended, again = threading.Event(), threading.Event()
    before = signal.getsignal(signal.SIGHUP)
    with on_signals(ended.set, again.set):
        signal.raise_signal(signal.SIGHUP)
        assert again.wait(30.0)
        assert not ended.is_set()
    assert signal.getsignal(signal.SIGHUP) == before
    with on_signals(ended.set):
        assert signal.getsignal(signal.SIGHUP) == before


def test_afterwards_signals_do_what_they_did_before() -> None:
    handlers = [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)]
    with on_signals(lambda: None):
        pass
    assert [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)] == handlers
    assert signal.set_wakeup_fd(-1) == -1
