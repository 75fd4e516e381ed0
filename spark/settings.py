"""Settings of a Spark session, changed around one action and put back after it.

A setting belongs to the whole session, so calls from several threads share it: the first that holds
it remembers what was there, the last one puts that back, and in between the newest value stands.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

__all__ = ["held"]


@dataclass(slots=True)
class _Held:
    before: str
    users: int = 0


_lock = threading.Lock()
_sessions: WeakKeyDictionary[Any, dict[str, _Held]] = WeakKeyDictionary()


@contextmanager
def held(session: Any, settings: Mapping[str, str]) -> Iterator[None]:
    """Run the body with these settings; the session is left as it was found."""
    with _lock:
        known = _sessions.setdefault(session, {})
        for name, value in settings.items():
            holding = known.setdefault(name, _Held(session.conf.get(name)))
            holding.users += 1
            session.conf.set(name, value)
    try:
        yield
    finally:
        with _lock:
            for name in settings:
                holding = known[name]
                holding.users -= 1
                if holding.users == 0:
                    session.conf.set(name, holding.before)
                    del known[name]
