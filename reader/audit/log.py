"""The file of the audit log.

Rules:
- A line is appended with one write, to a file that only its owner may read.
- A file that was moved or removed is made again, before the next line: rotate it by moving it.
- A line that cannot be written, because the disk is full or the folder is gone, is kept and written
  first as soon as it can be. Meanwhile the gateway is not ready and says why. When ``MOST_KEPT``
  bytes are kept, further statements are refused until the file can be written again: they are
  counted, and a line says how many there were.
- A line is with the operating system before its statement's end is sent. It is not forced to disk:
  the power's loss may take the last ones, the end of the process takes none.
- What has not ended when the gateway stops is written as cancelled.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from pathlib import Path

from blockstore.errors import Invalid
from blockstore.reader.audit.statement import Outcome, Statement, line_of
from blockstore.reader.http.problems import Problem
from blockstore.world import World

_logger = logging.getLogger(__name__)

MOST_KEPT = 16 << 20
"""So many bytes are kept while the file cannot be written."""
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC


class AuditLog:
    """Where statements are written; without a path, nowhere. Safe to share between threads."""

    def __init__(self, path: Path | None, world: World, *, most_kept: int = MOST_KEPT) -> None:
        """Open the file. Raises Invalid for one that cannot be written."""
        self._path = path
        self._world = world
        self._most_kept = most_kept
        self._lock = threading.Lock()
        self._open: set[Statement] = set()
        self._file: int | None = None
        self._kept: deque[bytes] = deque()
        self._kept_bytes = 0
        self._begun_line = 0
        """So many bytes of the first kept line are in the file already."""
        self._refused = 0
        self._closed = False
        self.broken: str | None = None
        """Why lines are not written now."""
        if path is not None:
            try:
                self._reopened()
            except OSError as error:
                raise Invalid(
                    f"the audit log {path} cannot be written ({error.strerror}): check file of "
                    "[audit]"
                ) from error

    def began(
        self,
        door: str,
        *,
        request: str = "",
        text: str | None = None,
        asked: str = "",
    ) -> Statement:
        """A statement that begins now. It is written at its end if it is some token's by then."""
        made = Statement(
            key=self._world.ids.ulid(),
            door=door,
            clock=self._world.clock,
            write=self._ended,
            request=request,
            text=text,
            asked=asked,
        )
        with self._lock:
            self._open.add(made)
        return made

    def record(self, found: dict[str, object]) -> None:
        """Write a line that is not of a statement."""
        self._append(line_of(found))

    def check(self) -> None:
        """Refuse a statement that could not be written. Raises Problem 503."""
        with self._lock:
            full = self._kept_bytes >= self._most_kept
            self._refused += full
        if full:
            raise Problem(
                503,
                "the audit log cannot be written, so statements are refused: the "
                "operator must make room for it",
            )

    def settle(self) -> None:
        """Try to write what is kept."""
        with self._lock:
            if self._kept:
                self._write_kept()

    def close(self) -> None:
        """Write what is open as cancelled, and close the file."""
        with self._lock:
            still = list(self._open)
        for one in still:
            one.end(Outcome.CANCELLED, "the gateway stopped")
        with self._lock:
            if self._kept:
                self._write_kept()
            if self._kept:
                _logger.error(
                    "%d lines of the audit log are lost: %s", len(self._kept), self.broken
                )
            if self._file is not None:
                os.close(self._file)
                self._file = None
            self._closed = True

    def _ended(self, statement: Statement, line: dict[str, object]) -> None:
        with self._lock:
            self._open.discard(statement)
        if line:
            self._append(line_of(line))

    def _append(self, line: bytes) -> None:
        if self._path is None:
            return
        with self._lock:
            if self._closed:
                _logger.error("a line of the audit log came after its end")
                return
            self._kept.append(line)
            self._kept_bytes += len(line)
            self._write_kept()

    def _write_kept(self) -> None:
        """Write lines until none is left or one cannot be written."""
        try:
            while self._kept:
                line = self._kept[0]
                file = self._reopened()
                while self._begun_line < len(line):
                    self._begun_line += os.write(file, line[self._begun_line :])
                self._kept.popleft()
                self._kept_bytes -= len(line)
                self._begun_line = 0
                if not self._kept and self._refused:
                    self._keep_gap()
        except OSError as error:
            why = f"the audit log {self._path} cannot be written: {error.strerror or error}"
            if self.broken != why:
                _logger.error("%s", why)
            self.broken = why
            return
        if self.broken is not None:
            _logger.info("the audit log is written again")
        self.broken = None

    def _keep_gap(self) -> None:
        gap = {
            "event": "gap",
            "at_ms": self._world.clock.now_ms(),
            "refused": self._refused,
            "error": "the audit log could not be written, so statements were refused",
        }
        self._refused = 0
        line = line_of(gap)
        self._kept.append(line)
        self._kept_bytes += len(line)

    def _reopened(self) -> int:
        """The file at the path, made again if it was moved away. Raises OSError."""
        assert self._path is not None, "there is a log"
        if self._file is not None:
            held = os.fstat(self._file)
            try:
                there = os.stat(self._path)
            except FileNotFoundError:
                there = None
            if there is not None and (there.st_ino, there.st_dev) == (held.st_ino, held.st_dev):
                return self._file
            os.close(self._file)
            self._file = None
            # What is in the file that was moved is not a line: it is written whole again.
            self._begun_line = 0
        made = os.open(self._path, _FLAGS, 0o600)
        try:
            if _torn(self._path):
                os.write(made, b"\n")
        except OSError:
            os.close(made)
            raise
        self._file = made
        return made


def _torn(path: Path) -> bool:
    """Whether the file ends within a line, as after the end of a process; a pipe never does."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        if not size:
            return False
        file.seek(size - 1)
        return file.read(1) != b"\n"
