"""Settings of a session are changed around one action, and restored after it."""

from __future__ import annotations

import threading

import pytest

from blockstore.spark.settings import held

FOUND = {"a": "1", "b": "2"}


class Conf:
    def __init__(self) -> None:
        self.values = dict(FOUND)

    def get(self, name: str) -> str:
        return self.values[name]

    def set(self, name: str, value: str) -> None:
        self.values[name] = value


class Session:
    def __init__(self) -> None:
        self.conf = Conf()


def test_settings_are_set_within_and_restored_after() -> None:
    session = Session()
    with held(session, {"a": "9"}):
        assert session.conf.values == {"a": "9", "b": "2"}
    assert session.conf.values == FOUND


def test_settings_are_restored_after_an_error() -> None:
    session = Session()
    with pytest.raises(KeyError), held(session, {"a": "9"}):
        raise KeyError("the action failed")
    assert session.conf.values == FOUND


def test_appends_side_by_side_restore_what_was_there_before_the_first() -> None:
    session = Session()
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with held(session, {"a": "9"}):
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(10)
    with held(session, {"a": "9"}):
        leave.set()
        thread.join()
        assert session.conf.values["a"] == "9"
    assert session.conf.values == FOUND
