"""A terminal at which statements are typed: its history, its Tab key, and tables that it has no
room for.

Rules:
- A statement is one entry of the history, whichever lines it was typed on; where that would change
  its meaning (a comment to the end of a line, a text of several lines), each line is one.
- A table that is longer than the screen goes to the program that ``PAGER`` names, else ``less``,
  and is printed if there is none.
"""

from __future__ import annotations

import io
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from blockstore.reader.errors import BadSql
from blockstore.reader.statements.tokens import tokens_of

_KEPT = 5_000
"""So many statements of history are kept."""


@contextmanager
def lines(completions: Callable[[str, str], list[str]]) -> Iterator[Callable[[str], None]]:
    """Editing, completion and history of lines, where Python has them. Yield a function that adds a
    statement to the history; ``completions`` is called with a word and the line that it is in."""
    try:
        import readline
    except ImportError:
        yield lambda _: None
        return
    kept, found = _history(), list[str]()

    def complete(word: str, number: int) -> str | None:
        if number == 0:
            found[:] = completions(word, readline.get_line_buffer())
        return found[number] if number < len(found) else None

    def add(text: str) -> None:
        for one in remembered(text):
            readline.add_history(one)

    readline.set_completer(complete)
    by_libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if by_libedit else "tab: complete")
    readline.set_auto_history(False)
    readline.set_history_length(_KEPT)
    with suppress(OSError):
        readline.read_history_file(kept)
    try:
        yield add
    finally:
        with suppress(OSError):
            kept.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(kept)


def remembered(text: str) -> list[str]:
    """The entries of the history for a text."""
    typed = [line for line in text.split("\n") if line.strip()]
    joined = " ".join(typed)
    try:
        same = [one.text for one in tokens_of(joined)] == [one.text for one in tokens_of(text)]
    except BadSql:
        return typed
    return [joined] if same else typed


def _history() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "blockstore" / "sql-history"


class _Screen(io.StringIO):
    """What is printed, until it is known whether the screen has room for it."""

    def isatty(self) -> bool:
        return True


@contextmanager
def paged() -> Iterator[None]:
    """Show what the block prints page by page, where it is longer than the terminal."""
    pager = _pager() if sys.stdout.isatty() else None
    if pager is None:
        yield
        return
    # With both streams, so that a note about the table comes after it.
    before, screen = (sys.stdout, sys.stderr), _Screen()
    sys.stdout = sys.stderr = screen
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        _show(screen.getvalue(), pager)


def _pager() -> list[str] | None:
    if os.environ.get("TERM", "dumb") == "dumb":
        return None
    words = shlex.split(os.environ.get("PAGER", "less"))
    return words if words and shutil.which(words[0]) else None


def _show(text: str, pager: list[str]) -> None:
    if text.count("\n") < shutil.get_terminal_size().lines:
        sys.stdout.write(text)
        return
    sys.stdout.flush()
    # Ctrl-C is for the pager; a handler of Python's is not inherited, as being ignored would be.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        # R: with its colours; X: what was shown stays on the screen.
        with subprocess.Popen(
            pager, stdin=subprocess.PIPE, env={"LESS": "RX", **os.environ}
        ) as process:
            process.communicate(text.encode())
    finally:
        signal.signal(signal.SIGINT, before)
