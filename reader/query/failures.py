"""What DuckDB says when a query fails, in the project's errors: one sentence, and the place in the SQL."""

from __future__ import annotations

import re

from blockstore.errors import BlockstoreError, Invalid, Unavailable

__all__ = ["may_be_damage", "translated"]

_LINE = re.compile(r"^LINE (\d+): ", re.MULTILINE)
_SPEAKS_OF_THE_SQL = (
    "Binder Error",
    "Catalog Error",
    "Constraint Error",
    "Conversion Error",
    "Not implemented Error",
    "Out of Range Error",
    "Parser Error",
    "Syntax Error",
)
_NO_MEMORY = ("Out of Memory Error", "Memory Error")
_STOPPED = ("INTERRUPT Error", "Interrupt Error")


def may_be_damage(error: BaseException) -> bool:
    """Whether the failure could come from the files and not from the SQL."""
    return not str(error).startswith((*_SPEAKS_OF_THE_SQL, *_NO_MEMORY, *_STOPPED))


def translated(error: BaseException) -> BlockstoreError:
    """The failure as an error of the tree."""
    message = str(error)
    if message.startswith(_STOPPED):
        return Unavailable("the query was canceled before it ended")
    if message.startswith(_NO_MEMORY):
        return Unavailable(
            f"the query needs more memory or temporary disk than it may use ({_sentence(message)}): "
            "select less, or raise the limits"
        )
    return Invalid(f"the SQL cannot be answered: {_sentence(message)}{_place(message)}")


def _sentence(message: str) -> str:
    """The first paragraph, without DuckDB's picture of the SQL."""
    head = _LINE.split(message)[0]
    return " ".join(head.split()).rstrip(".")


def _place(message: str) -> str:
    """The line and column to which DuckDB's caret points."""
    match = _LINE.search(message)
    if match is None:
        return ""
    lines = message[match.start() :].splitlines()
    caret = lines[1].find("^") - len(match.group()) if len(lines) > 1 else -1
    shortened = lines[0][match.end() - match.start() :].startswith("...")
    column = f", column {caret + 1}" if caret >= 0 and not shortened else ""
    return f", at line {match[1]}{column}"
