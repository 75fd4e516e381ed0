"""The verbs that the rooms bring, by name: loaded when they are used, and never before.

The command line imports no room. A room whose package or extra is missing costs its own verbs only,
which answer with the command that brings it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from keyword import iskeyword
from typing import Any

from blockstore import extras

__all__ = ["MODULES", "READS", "VERBS", "at_once", "extra_of", "load"]


VERBS = {
    "changes": "Print what versions of a table changed, row by row; with --follow as they come.",
    "cleanup": "Publish aged blocks, mark blocks no longer needed, remove those marked long "
    "enough ago.",
    "compact": "Merge small blocks into large ones; with --wait manage tables until stopped.",
    "import": "Copy a table of Iceberg or Delta, or Parquet files, into a new table.",
    "query": "Run SQL over snapshots of tables.",
    "retention": "Expire blocks whose rows are all older than the table's property retention.",
    "serve": "Serve SQL over tables by HTTP, with a page: the reader gateway.",
    "sql": "Run SQL that reads and writes: INSERT, UPDATE, DELETE, MERGE, CREATE TABLE and more.",
    "token": "Make a token for the gateway: it is shown once, with its hash for the configuration.",
}

READS = frozenset({"changes", "query", "token"})
"""The verbs that change nothing: they can be run again if their output was lost.

A token that was not shown is worth nothing.
"""

MODULES = {
    "changes": "blockstore.reader.change_verbs",
    "cleanup": "blockstore.compactor.care_verbs",
    "compact": "blockstore.compactor.verbs",
    "import": "blockstore.reader.import_verbs",
    "query": "blockstore.reader.verbs",
    "retention": "blockstore.compactor.care_verbs",
    "serve": "blockstore.reader.serve_verbs",
    "sql": "blockstore.reader.verbs",
    "token": "blockstore.reader.serve_verbs",
}
"""The module of each verb; its function has the verb's name, with a ``_`` where Python needs it."""

_PLAIN = {"query": "blockstore.reader.plain_query"}
"""The modules whose ``at_once`` runs a command line that needs no parser."""


def load(verb: str) -> Callable[..., Any]:
    """The function of a room's verb. Raises MissingExtra if the room cannot be loaded here."""
    name = f"{verb}_" if iskeyword(verb) else verb
    function: Callable[..., Any] = extras.load(MODULES[verb], name, f"the verb {verb}")
    return function


def at_once(verb: str, words: Sequence[str]) -> Callable[[], object] | None:
    """What runs the verb on its words without the parser;

    None where only the parser knows what they mean. Raises MissingExtra.
    """
    if verb not in _PLAIN:
        return None
    plain = extras.load(_PLAIN[verb], "at_once", f"the verb {verb}")
    found: Callable[[], object] | None = plain(words)
    return found


def extra_of(verb: str) -> str | None:
    """The extra that installs what a verb needs; None for a verb of the foundation."""
    return extras.room_of(MODULES[verb]) if verb in MODULES else None
