"""The signals that end a process which runs until then: SIGTERM and SIGINT; and SIGHUP, where it
asks a process to read its configuration again.

A Python handler runs in the main thread, between two of its instructions. A main thread that is
just about to wait does not run it until something else wakes it, and one that holds a lock must
not take it again. So the interpreter itself writes the signal's number to a pipe, in whatever
thread the signal finds, and a thread of its own reads the pipe and acts.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_ENDING = (signal.SIGTERM, signal.SIGINT)
_OVER = b"\0"
"""No signal has the number 0."""


@contextmanager
def on_signals(act: Callable[[], None], reload: Callable[[], None] | None = None) -> Iterator[None]:
    """Call ``act`` for each SIGTERM and SIGINT, and ``reload`` for each SIGHUP, in another thread;
    without ``reload`` SIGHUP does what it did before. Afterwards all of them do. Only the main
    thread may enter this."""
    acts: dict[int, Callable[[], None]] = dict.fromkeys(_ENDING, act)
    if reload is not None:
        acts[signal.SIGHUP] = reload
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def listen() -> None:
        while (number := os.read(reading, 1)) != _OVER:
            if number[0] in acts:
                acts[number[0]]()

    listener = threading.Thread(target=listen, name="signals", daemon=True)
    listener.start()
    wakes = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    handlers = {one: signal.signal(one, _nothing) for one in acts}
    try:
        yield
    finally:
        for one, handler in handlers.items():
            signal.signal(one, handler)
        signal.set_wakeup_fd(wakes)
        os.write(writing, _OVER)
        listener.join()
        os.close(reading)
        os.close(writing)


def _nothing(*_: object) -> None:
    """A handler, so that the signal does not end the process: ``on_signals`` acts on the pipe."""
