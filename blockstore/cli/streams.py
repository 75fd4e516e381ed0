"""The standard streams of the command: what standard output refuses is told apart from what the
verb does.

Rules:
- A stream that is closed is the null device: the verb neither fails for it nor writes into a file
  that got its number.
- A verb that only looks stops when its output is refused. One that changes something goes on to its
  end and its output is dropped: a failure would have it run again, which writes its rows twice.
- Standard error is never a reason to fail.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any, TextIO

_KEPT_BYTES = 4_000


class OutputFailed(Exception):
    """Standard output takes no more; the verb itself did not fail."""


class Output(io.RawIOBase):
    """A file descriptor whose refusal is remembered: raised as OutputFailed, or, where ``lasting``,
    kept for the end.

    A closed pipe is raised as what it is, BrokenPipeError.
    """

    def __init__(self, number: int, *, lasting: bool) -> None:
        self._number = number
        self.lasting = lasting
        self.failure: OSError | None = None
        self.lost = b""
        """The first of what could not be written."""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._number

    def isatty(self) -> bool:
        return os.isatty(self._number)

    def write(self, data: Any, /) -> int:
        if self.failure is None:
            try:
                return os.write(self._number, data)
            except OSError as error:
                # A copy, without the frames that led here: they would hold whatever wrote until the
                # process ends.
                self.failure = OSError(error.errno, error.strerror)
        if not self.lasting:
            if isinstance(self.failure, BrokenPipeError):
                raise BrokenPipeError(*self.failure.args)
            raise OutputFailed(f"standard output cannot be written ({self.reason})")
        size = memoryview(data).nbytes
        self.lost += bytes(memoryview(data)[: max(0, _KEPT_BYTES - len(self.lost))])
        return size

    @property
    def reason(self) -> str:
        """Why it took no more, in the machine's words."""
        return "" if self.failure is None else (self.failure.strerror or str(self.failure)).lower()


def prepare(*, lasting: bool) -> Output | None:
    """Make the process's streams as the rules say; answers standard output, None where it is not
    the process's own."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 - as long as the process
    told, answers = sys.stderr or _null(), sys.stdout or _null()
    own_told, own_answers = told is sys.__stderr__, answers is sys.__stdout__
    if own_told:
        told = _text(Output(told.fileno(), lasting=True), told)
    output = None
    if own_answers:
        output = Output(answers.fileno(), lasting=lasting)
        answers = _text(output, answers)
    sys.stderr, sys.stdout = told, answers
    return output


def output_closed() -> bool:
    """Whether standard output is a pipe that was closed: a verb that goes on for ever then ends."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return isinstance(raw, Output) and isinstance(raw.failure, BrokenPipeError)


def _null() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")


def _text(output: Output, like: TextIO) -> TextIO:
    """The stream's text, encoded and flushed as Python had set it up."""
    return io.TextIOWrapper(
        io.BufferedWriter(output),
        encoding=like.encoding,
        errors=like.errors,
        line_buffering=bool(getattr(like, "line_buffering", False)),
        write_through=bool(getattr(like, "write_through", False)),
    )
