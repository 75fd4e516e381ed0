"""Errors of the command line: one sentence on standard error, and the exit code.

Blockstore's own errors are printed as they are. Errors of the operating system (no such file, no
space) are reworded. Anything else is a bug, and is reported as one, also in one sentence.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING

from blockstore.cli.printable import line, printable
from blockstore.cli.streams import Output, OutputFailed
from blockstore.errors import BlockstoreError

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

FAILED = 1
USAGE = 2
INTERRUPTED = 130
"""The exit code of a shell for a command that SIGINT has ended."""
_AGAIN_S = 0.01


class Usage(Exception):
    """The command line is wrong; nothing was done."""


class Interrupted(KeyboardInterrupt):
    """Interrupted; the text says what the verb has done by then."""


def heed_interrupts() -> None:
    """Let Ctrl-C end the command wherever it comes. Python only shows an exception of a ``__del__``
    or of a callback, and goes on: there the interrupt is sent once more, a moment later. A real
    signal: only that also ends what the main thread waits for."""
    show = sys.unraisablehook

    def unraisable(found: UnraisableHookArgs, /) -> None:
        if not issubclass(found.exc_type, KeyboardInterrupt):
            show(found)
            return
        import signal
        import threading

        main = threading.main_thread().ident or 0
        again = threading.Timer(_AGAIN_S, signal.pthread_kill, (main, signal.SIGINT))
        again.daemon = True
        again.start()

    sys.unraisablehook = unraisable


def complain(sentence: str) -> int:
    """Print an error about the output above, and return the exit code of a failure."""
    sys.stderr.write(f"error: {printable(sentence)}\n")
    return FAILED


def remark(sentence: str) -> None:
    """Print a note on standard error; the verb itself succeeded."""
    sys.stderr.write(f"note: {printable(sentence)}\n")


def report(error: BaseException, *, changes: bool = True) -> int:
    """Print the error's sentence and return the exit code.

    ``changes`` says whether the verb may have changed anything.
    """
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else FAILED
    if isinstance(error, BrokenPipeError):
        return FAILED
    if isinstance(error, KeyboardInterrupt):
        sys.stderr.write(f"{line(_interruption(error, changes))}\n")
        return INTERRUPTED
    sys.stderr.write(f"error: {line(_sentence(error))}\n")
    return USAGE if isinstance(error, Usage) else FAILED


def report_lost_output(output: Output, code: int) -> None:
    """Report that the verb ended but its output could not be written; not for a closed pipe."""
    if isinstance(output.failure, BrokenPipeError):
        return
    done = "done, but the output" if code == 0 else "also, the output"
    lost = output.lost.decode(errors="replace")
    sys.stderr.write(f"{done} could not be written ({output.reason}): {line(lost)}\n")


def _interruption(error: KeyboardInterrupt, changes: bool) -> str:
    if isinstance(error, Interrupted):
        return f"interrupted: {error}"
    if not changes:
        return "interrupted: nothing was changed; run the command again"
    return (
        "interrupted: what was committed by then stays, and unfinished work is not visible; check "
        "with blockstore history before you run the command again"
    )


def _sentence(error: BaseException) -> str:
    if isinstance(error, BlockstoreError | Usage):
        return str(error)
    if isinstance(error, OutputFailed):
        return f"{error}: make room, or write it elsewhere, and run the command again"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = f"{error.filename} cannot be written" if error.filename else "a disk is full"
        return (
            f"{where} ({(error.strerror or 'full').lower()}): make room, or set TMPDIR to a "
            "folder with more space"
        )
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {(error.strerror or 'cannot be used').lower()}"
    if isinstance(error, FileNotFoundError) and _folder_is_gone():
        return "the current folder no longer exists: change to another one"
    return (
        f"internal error, {type(error).__name__}: {error}; run again with --debug and report the "
        "traceback"
    )


def _folder_is_gone() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False
