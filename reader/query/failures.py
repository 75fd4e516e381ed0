"""What DuckDB says when a query fails, in the project's errors: one sentence, and the place in the SQL."""

from __future__ import annotations

import re

from blockstore.errors import BlockstoreError
from reader.refusals import BadSql, Canceled, NoMemory

__all__ = ["is_no_memory", "may_be_damage", "translated"]

_LINE = re.compile(r"^LINE (\d+): ", re.MULTILINE)
_ADVICE = re.compile(r"\s+Possible solutions:|\s+See also https?://")
"""DuckDB's advice is to change settings, which a query may not."""
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
_SHOWN = 600
_STOPPED = ("INTERRUPT Error", "Interrupt Error")


def is_no_memory(message: str) -> bool:
    """Whether the engine ran out of memory."""
    return message.startswith(_NO_MEMORY)


def may_be_damage(error: BaseException) -> bool:
    """Whether the failure could come from the files and not from the SQL."""
    return not str(error).startswith((*_SPEAKS_OF_THE_SQL, *_NO_MEMORY, *_STOPPED))


def translated(error: BaseException, *, placed: bool = True) -> BlockstoreError:
    """The failure as an error of the tree; one of the tree stays what it is. ``placed``: the SQL that failed is the caller's own
    text, so that places in it mean something."""
    if isinstance(error, BlockstoreError):
        return error
    message = str(error)
    if message.startswith(_STOPPED):
        return Canceled("the query was canceled before it ended")
    if message.startswith(_NO_MEMORY) or isinstance(error, MemoryError):
        return NoMemory(
            f"the query needs more memory or temporary disk than it may use ({_sentence(message)}): "
            "select less, or raise the limits"
        )
    line, column = _place(message) if placed else (None, None)
    where = "" if line is None else f", at line {line}" + ("" if column is None else f", column {column}")
    return BadSql(f"the SQL cannot be answered: {_sentence(message)}{where}", line=line, column=column)


def _sentence(message: str) -> str:
    """The first paragraph, without DuckDB's picture of the SQL."""
    head = _ADVICE.split(_LINE.split(message)[0])[0]
    text = " ".join(head.split()).rstrip(".")
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _place(message: str) -> tuple[int | None, int | None]:
    """The line and column to which DuckDB's caret points."""
    match = _LINE.search(message)
    if match is None:
        return None, None
    lines = message[match.start() :].splitlines()
    caret = lines[1].find("^") - len(match.group()) if len(lines) > 1 else -1
    shortened = lines[0][match.end() - match.start() :].startswith("...")
    return int(match[1]), caret + 1 if caret >= 0 and not shortened else None
