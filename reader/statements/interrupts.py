"""Ctrl-C at the shell: it drops what is being typed and stops what runs, and at any other moment it
waits for one of these.

Rules:
- KeyboardInterrupt is raised inside ``typing`` and ``running`` only. Ctrl-C between the two, when a
  statement was typed and has not begun, stops it as soon as it begins. Ctrl-C after a statement has
  nothing to stop: the next prompt forgets it.
- Python's readline does not see a signal that comes just before it waits for keys: it would wait
  on, up to the next key. Here it is woken.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SOON_S = 0.05
_WAKES = 40
_NUDGE = signal.SIGURG
"""A signal that nothing else uses, and that is ignored where nothing waits for it."""


class Interrupts:
    """Ctrl-C inside a ``with``, in the main thread; in another it does nothing."""

    def __init__(self) -> None:
        self._raises = False
        self._types = False
        self._pending = False
        self._heard = 0
        self._over = threading.Event()

    @contextmanager
    def typing(self) -> Iterator[None]:
        """A block that waits for keys. Raises KeyboardInterrupt inside it."""
        self._pending = False
        self._types = self._raises = True
        try:
            yield
        finally:
            self._types = self._raises = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """A block that runs a statement. Raises KeyboardInterrupt inside it, and at its begin if
        Ctrl-C came since the statement was typed."""
        self._raises = True
        try:
            if self._pending:
                raise KeyboardInterrupt
            yield
        finally:
            self._raises = self._pending = False

    @contextmanager
    def heard(self) -> Iterator[None]:
        """From now on, until the end of the block."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        before = signal.signal(signal.SIGINT, self._on_interrupt)
        nudged = signal.signal(_NUDGE, lambda *_: None)
        woken = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        watch = threading.Thread(target=self._watch, args=(reading,), name="ctrl-c", daemon=True)
        watch.start()
        try:
            yield
        finally:
            self._over.set()
            signal.set_wakeup_fd(woken)
            signal.signal(signal.SIGINT, before)
            signal.signal(_NUDGE, nudged)
            os.close(writing)
            watch.join()
            os.close(reading)

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        self._heard += 1
        if self._raises:
            # Also again: ``input`` drops one that comes while it flushes the output.
            raise KeyboardInterrupt
        self._pending = True

    def _watch(self, reading: int) -> None:
        """Wake the main thread where it waits for keys and a signal came. The number of each comes
        here at once, whatever the main thread does."""
        while data := os.read(reading, 64):
            if signal.SIGINT not in data:
                continue
            heard = self._heard
            for _ in range(_WAKES):
                if self._over.wait(_SOON_S) or self._heard != heard or not self._types:
                    break
                signal.pthread_kill(threading.main_thread().ident or 0, _NUDGE)
