"""A progress bar is for a person at a terminal."""

from __future__ import annotations

import io
import sys

import pytest

from blockstore.cli.progress import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_it_is_drawn_on_a_terminal_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for stream, quiet, drawn in (
        (Terminal(), False, True),
        (Terminal(), True, False),
        (io.StringIO(), False, False),
    ):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress("writing flights", 100, quiet=quiet) as advance:
            advance(50)
        assert ("writing flights" in stream.getvalue()) is drawn
