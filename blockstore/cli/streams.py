"""The standard streams of the command: a failure of the output is not a failure of the verb.

Rules:
- A closed stream is replaced by the null device: the verb does not fail, and does not write into a
  file that got the stream's number.
- A verb that only reads stops when its output fails. One that changes something continues to its
  end without output: after a failure it would be run again, and write its rows twice.
- An error on standard error is ignored.
- A write that Ctrl-C cut short is not repeated: a line may be missing at the end, but none is
  there twice.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any, TextIO

_KEPT_BYTES = 4_000


class OutputFailed(Exception):
    """Standard output cannot be written; the verb itself did not fail."""


class Output(io.RawIOBase):
    """A file descriptor that remembers its first failure.

    The failure is raised as OutputFailed, and for a closed pipe as BrokenPipeError. If ``lasting``,
    it is not raised, but kept for the end.
    """

    def __init__(self, number: int, *, lasting: bool) -> None:
        self._number = number
        self.lasting = lasting
        self.failure: OSError | None = None
        self.lost = b""
        """The first bytes that could not be written."""
        self._in_doubt = 0

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._number

    def isatty(self) -> bool:
        return os.isatty(self._number)

    def write(self, data: Any, /) -> int:
        if self._in_doubt:
            # The buffer begins with the bytes of the interrupted call, which may be written.
            skipped, self._in_doubt = self._in_doubt, 0
            return skipped
        if self.failure is None:
            try:
                return os.write(self._number, data)
            except KeyboardInterrupt:
                self._in_doubt = memoryview(data).nbytes
                raise
            except OSError as error:
                # A copy without the traceback, which would keep its objects until the process ends.
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
        """The operating system's reason."""
        return "" if self.failure is None else (self.failure.strerror or str(self.failure)).lower()


def prepare(*, lasting: bool) -> Output | None:
    """Set up the process's streams by the rules.

    Returns standard output; None if it is not the process's own.
    """
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 - as long as the process
    errors, out = sys.stderr or _null(), sys.stdout or _null()
    own_errors, own_out = errors is sys.__stderr__, out is sys.__stdout__
    if own_errors:
        errors = _text(Output(errors.fileno(), lasting=True), errors)
    output = None
    if own_out:
        output = Output(out.fileno(), lasting=lasting)
        out = _text(output, out)
    sys.stderr, sys.stdout = errors, out
    return output


def output_closed() -> bool:
    """Return whether standard output is a closed pipe: then a verb with --follow ends."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return isinstance(raw, Output) and isinstance(raw.failure, BrokenPipeError)


def _null() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")


def _text(output: Output, like: TextIO) -> TextIO:
    """Return a text stream with the encoding and flushing that Python had set up."""
    return io.TextIOWrapper(
        io.BufferedWriter(output),
        encoding=like.encoding,
        errors=like.errors,
        line_buffering=bool(getattr(like, "line_buffering", False)),
        write_through=bool(getattr(like, "write_through", False)),
    )
