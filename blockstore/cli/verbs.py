"""The verbs of the foundation: their names, the sentence that each has in the overview, and where each lies.

A verb is one file of this package with one function of the verb's name. The rooms bring theirs by entry point
(``rooms.py``); this module and the verbs import no room.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["VERBS", "load"]

VERBS = {
    "create": "Define a table.",
    "alter": "Add or widen columns, set properties.",
    "write": "Append files as one block: all of them or none.",
    "ls": "List the tables of a lake, or the blocks of a table.",
    "inspect": "Show a table's blocks with their state, labels and sources.",
    "show": "Show everything about one block.",
    "history": "Show a table's versions.",
    "diff": "Show what changed between two versions.",
    "probe": "Measure what a store guarantees.",
}


def load(verb: str) -> Callable[..., Any]:
    """The function of a verb of the foundation."""
    function: Callable[..., Any] = getattr(import_module(f"blockstore.cli.{verb}"), verb)
    return function
