"""DuckDB's errors as project errors: one sentence, and the position in the SQL."""

from __future__ import annotations

import errno
import os
import re

from blockstore.errors import BlockstoreError, NoMemory, NoSpace
from blockstore.reader.errors import BadSql, Canceled
from blockstore.reader.query.runners.instance import Limits

_LINE = re.compile(r"^LINE (\d+): ", re.MULTILINE)
_ADVICE = re.compile(
    r"(?<!\s)\s++(?:Possible solutions:|See also https?://|This limit was set by the )"
)
"""Its time is linear: a message may have a value of a million spaces."""
"""DuckDB advises to change settings, which a query may not do."""
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
NO_MEMORY = "Out of Memory Error"
"""The start of an engine's message about it."""
_NO_MEMORY = (NO_MEMORY, "Memory Error")
_OF_DISK = "max_temp_directory_size"
"""The setting that DuckDB's message names if the spill limit was reached."""
_FULL = tuple(os.strerror(code) for code in (errno.ENOSPC, errno.EDQUOT))
FULL = (
    "the disk for temporary files is full and the query was ended: free space, set TMPDIR to a "
    "folder on a larger disk, or select less"
)
"""Without the path of the folder: a client need not know the gateway's disks."""
_SHOWN = 600
_STOPPED = ("INTERRUPT Error", "Interrupt Error")


def is_no_memory(message: str) -> bool:
    """Whether the engine ran out of memory."""
    return message.startswith(_NO_MEMORY)


def is_full(error: BaseException) -> bool:
    """Whether the disk for temporary files is full; the engine and this process write no others."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    message = str(error)
    return message.startswith("IO Error") and message.rstrip().endswith(_FULL)


def may_be_damage(error: BaseException) -> bool:
    """Whether damaged files, and not the SQL, could be the cause."""
    return not is_full(error) and not str(error).startswith(
        (*_SPEAKS_OF_THE_SQL, *_NO_MEMORY, *_STOPPED)
    )


def translated(
    error: BaseException, *, placed: bool = True, limits: Limits = Limits(), shares: int = 1
) -> BlockstoreError:
    """The failure as a project error; a project error stays as it is. ``placed``: the SQL that
    failed is the caller's own text, so positions in it are valid. ``limits`` are those of one
    query; ``shares`` queries share what is configured."""
    if isinstance(error, BlockstoreError):
        return error
    message = str(error)
    if message.startswith(_STOPPED):
        return Canceled("the query was canceled")
    if message.startswith(_NO_MEMORY) or isinstance(error, MemoryError):
        return _no_memory(message, limits, shares)
    if is_full(error):
        return NoSpace(FULL)
    line, column = _place(message) if placed else (None, None)
    where = (
        ""
        if line is None
        else f", at line {line}" + ("" if column is None else f", column {column}")
    )
    return BadSql(f"the SQL cannot be run: {_sentence(message)}{where}", line=line, column=column)


def _no_memory(message: str, limits: Limits, shares: int) -> NoMemory:
    """The error for too little memory or disk: the limit, and the key that sets it."""
    disk = _OF_DISK in message
    thing, key = ("temporary disk", "spill") if disk else ("memory", "memory")
    share = limits.spill_bytes if disk else limits.memory_bytes
    if share is None:
        return NoMemory(
            f"the query needs more {thing} than this machine has ({_sentence(message)}): select "
            "less, or use a larger machine"
        )
    return NoMemory(
        f"the query exceeds its limit of {share >> 20:,} MiB of {thing} ({_sentence(message)}): "
        f"select less, or raise {key} in [query] ({share * shares >> 20:,} MiB for at_once = "
        f"{shares} queries)"
    )


def _sentence(message: str) -> str:
    """The first paragraph, without the excerpt of the SQL."""
    head = _ADVICE.split(_LINE.split(message)[0])[0]
    text = " ".join(head.split()).rstrip(".")
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _place(message: str) -> tuple[int | None, int | None]:
    """The line and column of DuckDB's caret."""
    match = _LINE.search(message)
    if match is None:
        return None, None
    lines = message[match.start() :].splitlines()
    caret = lines[1].find("^") - len(match.group()) if len(lines) > 1 else -1
    shortened = lines[0][match.end() - match.start() :].startswith("...")
    return int(match[1]), caret + 1 if caret >= 0 and not shortened else None
