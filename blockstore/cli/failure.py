"""Errors as the command line tells them: one sentence on standard error, and the exit code.

A sentence of ours is printed as it is. What the machine says (no such file, no space) is put in our words. Anything
else is a bug of ours, is called one, and still ends with a sentence.
"""

from __future__ import annotations

import sys

from blockstore.errors import BlockstoreError

__all__ = ["FAILED", "USAGE", "Usage", "complain", "remark", "report"]

FAILED = 1
USAGE = 2


class Usage(Exception):
    """The command line is wrong; nothing was done."""


def complain(sentence: str) -> int:
    """Say on standard error what the answer above comes to; answers the exit code of a failure."""
    sys.stderr.write(f"error: {sentence}\n")
    return FAILED


def remark(sentence: str) -> None:
    """Say on standard error what a person should know although everything was done."""
    sys.stderr.write(f"note: {sentence}\n")


def report(error: BaseException) -> int:
    """Print the error's sentence and answer the exit code."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else FAILED
    if isinstance(error, BrokenPipeError):
        return FAILED
    sys.stderr.write(f"error: {_sentence(error)}\n")
    return USAGE if isinstance(error, Usage) else FAILED


def _sentence(error: BaseException) -> str:
    if isinstance(error, BlockstoreError | Usage):
        return " ".join(str(error).split())
    if isinstance(error, KeyboardInterrupt):
        return "interrupted: what was not finished is not visible; run the command again"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {(error.strerror or 'cannot be used').lower()}"
    text = " ".join(str(error).split())
    return f"internal error, {type(error).__name__}: {text}; run again with --debug and report the traceback"
