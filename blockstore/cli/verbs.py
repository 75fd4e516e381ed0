"""The verbs of the foundation: their names, the sentence that each has in the overview, and where
each lies.

A verb is one file of this package with one function of the verb's name. The rooms' verbs are named
in ``rooms.py``; this module and the verbs import no room.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["OTHER_NAMES", "READS", "VERBS", "load"]

VERBS = {
    "demo": "Make a small lake to try, and show what a table can do.",
    "create": "Define a table.",
    "alter": "Add or widen columns, set properties.",
    "write": "Append files as one block: all of them or none.",
    "overwrite": "Put the rows of files in the place of others.",
    "delete": "Delete the rows for which a condition is true.",
    "revert": "Hide the rows of whole writes.",
    "restore": "Show again what an earlier version did.",
    "tag": "Keep a version readable under a name.",
    "untag": "Take a tag away.",
    "ls": "List the tables of a lake, or the blocks of a table.",
    "inspect": "Show a table's blocks with their state, labels and sources.",
    "show": "Show everything about one block.",
    "history": "Show a table's versions.",
    "diff": "Show what changed between two versions.",
    "mark": "Have a block deleted, or keep it from merges.",
    "verify": "Look whether a table is whole.",
    "repair": "Mend what verify has found.",
    "index": "Bring back a lost index.",
    "build": "Make a finished block in a folder, offline.",
    "ship": "Upload finished blocks from a folder, each exactly once.",
    "replicate": "Copy a table, with its versions, to another place.",
    "probe": "Measure what a store guarantees.",
    "simulate": "Run the real code under faults, from a seed.",
}

READS = frozenset({"ls", "inspect", "show", "history", "diff", "verify", "probe", "simulate"})
"""The verbs that change no table: whoever misses their answer runs them again."""

OTHER_NAMES = {
    "append": "write",
    "check": "verify",
    "describe": "inspect",
    "insert": "write",
    "list": "ls",
    "log": "history",
    "merge": "compact",
    "scan": "query",
    "select": "query",
    "snapshot": "query",
    "sql": "query",
    "undo": "revert",
    "vacuum": "cleanup",
}
"""What Python or other tools call a verb: no verbs, but whoever types one is told the verb."""


def load(verb: str) -> Callable[..., Any]:
    """The function of a verb of the foundation."""
    function: Callable[..., Any] = getattr(import_module(f"blockstore.cli.{verb}"), verb)
    return function
