"""The obstore writer: bounded memory, nothing visible before it is closed, and closed again after a
failure."""

from __future__ import annotations

import io
from typing import IO

import pytest

from blockstore.bucket import cloud_writer
from blockstore.bucket.cloud_writer import CloudWriter
from blockstore.errors import NoSpace, Unanswered


class Receiver:
    """Takes objects as CloudBucket does; fails the first ``failures`` times."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.puts: list[bytes] = []
        self.multiparts: list[bytes] = []

    def fail(self) -> None:
        if self.failures:
            self.failures -= 1
            raise Unanswered("lost")

    def put(self, data: bytes) -> str:
        self.puts.append(data)
        self.fail()
        return "e"

    def put_parts(self, file: IO[bytes]) -> None:
        self.multiparts.append(file.read())
        self.fail()


def writer_to(receiver: Receiver) -> CloudWriter:
    return CloudWriter("az://receiver/a", receiver.put, receiver.put_parts)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud_writer, "SMALL_BYTES", 10)


def test_what_is_small_is_one_put_and_what_is_large_goes_in_parts_from_a_file() -> None:
    receiver = Receiver()
    for size in (0, 10, 11):
        writer = writer_to(receiver)
        assert writer.write(b"x" * size) == size
        assert receiver.puts == [b"x" * done for done in (0, 10) if done < size]
        writer.close()
        writer.close()
    assert receiver.puts == [b"", b"x" * 10]
    assert receiver.multiparts == [b"x" * 11]


@pytest.mark.parametrize("size", [3, 30])
def test_a_close_that_failed_sends_the_same_again(size: int) -> None:
    receiver = Receiver(failures=2)
    writer = writer_to(receiver)
    writer.write(b"x" * size)
    for _ in range(2):
        with pytest.raises(Unanswered):
            writer.close()
        writer.write(b"")
    writer.close()
    assert receiver.puts + receiver.multiparts == [b"x" * size] * 3


def test_an_abandoned_writer_sends_nothing() -> None:
    receiver = Receiver()
    writer = writer_to(receiver)
    writer.write(b"x" * 30)
    writer.abort()
    writer.close()
    assert receiver.puts + receiver.multiparts == []


def test_a_full_temporary_folder_is_called_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.BytesIO):
        def write(self, data: object, /) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.SpooledTemporaryFile", lambda **_: Full())
    writer = writer_to(Receiver())
    with pytest.raises(NoSpace, match="TMPDIR"):
        writer.write(b"x")


def test_a_folder_that_is_full_at_the_end_is_told_and_may_be_aborted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Late(io.BytesIO):
        """Holds what it takes, and cannot write it."""

        def seek(self, *_: int) -> int:
            raise OSError(28, "No space left on device")

        def close(self) -> None:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.SpooledTemporaryFile", lambda **_: Late())
    receiver = Receiver()
    writer = writer_to(receiver)
    writer.write(b"x")
    with pytest.raises(NoSpace, match="TMPDIR"):
        writer.close()
    writer.abort()
    assert receiver.puts == []
