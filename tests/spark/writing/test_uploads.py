"""Uploads beside encoding: in order, bounded, whole before anybody names them, and an error stops
the task."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import pytest

from blockstore.bucket.api import ObjectWriter
from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.wrapper import Wrapper
from blockstore.clock import ManualClock
from blockstore.errors import Unavailable
from blockstore.spark.writing.uploads import BackgroundUploads


class Gated(Wrapper):
    """A store that answers a put only once it is let."""

    def __init__(self, broken: Iterable[str] = ()) -> None:
        super().__init__(MemoryBucket(ManualClock(0)))
        self.gate = threading.Event()
        self.asked: list[str] = []
        self.broken = set(broken)

    def put(self, key: str, data: bytes) -> str:
        self.asked.append(key)
        assert self.gate.wait(60)
        if key in self.broken:
            raise Unavailable(f"{key} cannot be put")
        return self.inner.put(key, data)

    def writer(self, key: str) -> ObjectWriter:
        self.asked.append(key)
        return self.inner.writer(key)


def keys(store: Wrapper) -> list[str]:
    return sorted(found.key for found in store.inner.list())


def test_a_writer_goes_on_while_its_object_is_sent_and_settling_waits_for_all() -> None:
    store = Gated()
    uploads = BackgroundUploads(store)
    uploads.put("a", b"1")
    uploads.put("b", b"2")
    large = uploads.writer("c")
    large.write(b"x" * 100)
    large.write(memoryview(b"yz"))
    large.close()
    assert keys(store) == []
    store.gate.set()
    uploads.settle()
    assert keys(store) == ["a", "b", "c"]
    assert store.inner.get("c").data == b"x" * 100 + b"yz"
    assert store.asked.index("a") < store.asked.index("b")


def test_what_waits_is_bounded() -> None:
    store = Gated()
    uploads = BackgroundUploads(store, waiting_bytes=10)
    passed = threading.Event()

    def write() -> None:
        uploads.put("a", b"12345678")
        uploads.put("b", b"12345678")
        passed.set()

    thread = threading.Thread(target=write)
    thread.start()
    assert not passed.wait(0.2), "the second object must wait for the first"
    store.gate.set()
    assert passed.wait(60)
    thread.join()
    uploads.settle()
    assert keys(store) == ["a", "b"]


def test_an_object_larger_than_the_bound_goes_alone() -> None:
    store = Gated()
    store.gate.set()
    uploads = BackgroundUploads(store, waiting_bytes=10)
    uploads.put("a", b"x" * 100)
    uploads.put("b", b"x" * 100)
    uploads.settle()
    assert keys(store) == ["a", "b"]


def test_a_failed_upload_fails_whoever_goes_on_or_settles_and_nothing_more_is_sent() -> None:
    store = Gated(broken={"a"})
    store.gate.set()
    uploads = BackgroundUploads(store)
    uploads.put("a", b"1")

    def go_on() -> None:
        for number in range(100_000):
            uploads.put(f"b{number}", b"2")

    with pytest.raises(Unavailable, match="a cannot be put"):
        go_on()
    with pytest.raises(Unavailable, match="a cannot be put"):
        uploads.settle()
    assert keys(store) == []


def test_dropping_leaves_nothing_behind_and_no_thread() -> None:
    store = Gated()
    uploads = BackgroundUploads(store)
    writer = uploads.writer("a")
    writer.write(b"1")
    writer.abort()
    writer.abort()
    uploads.drop()
    assert keys(store) == []
    assert not [thread for thread in threading.enumerate() if thread.name == "blockstore-upload"]


class Begun(Wrapper):
    """A store that knows which objects were begun and neither closed nor aborted, and takes a write
    once it is let."""

    def __init__(self) -> None:
        super().__init__(MemoryBucket(ManualClock(0)))
        self.gate = threading.Event()
        self.open: set[str] = set()

    def writer(self, key: str) -> ObjectWriter:
        self.open.add(key)
        return _Noted(self, key, self.inner.writer(key))


class _Noted:
    def __init__(self, store: Begun, key: str, inner: ObjectWriter) -> None:
        self._store = store
        self._key = key
        self._inner = inner

    def write(self, data: bytes | memoryview, /) -> int:
        assert self._store.gate.wait(60)
        return self._inner.write(data)

    def close(self) -> None:
        self._inner.close()
        self._store.open.discard(self._key)

    def abort(self) -> None:
        self._inner.abort()
        self._store.open.discard(self._key)


def test_what_is_dropped_before_it_was_sent_is_aborted_too() -> None:
    """Else its multipart upload stays in the bucket, where nobody sees it, and is paid for."""
    store = Begun()
    uploads = BackgroundUploads(store)
    whole, half = uploads.writer("whole"), uploads.writer("half")
    whole.write(b"x")
    whole.close()
    half.write(b"z")
    threading.Timer(0.1, store.gate.set).start()
    half.abort()
    assert store.open == set()
