"""Most tests do not wait for the disk; a file that is not there is an error to all."""

from __future__ import annotations

import os

import pytest

from tests.support.unsynced import unsynced


def test_a_test_like_this_one_does_not_wait_for_the_disk() -> None:
    assert os.fsync is unsynced


def test_a_file_that_is_not_open_is_an_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    os.close(writing)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fsync(writing)
