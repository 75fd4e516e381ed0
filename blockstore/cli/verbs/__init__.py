"""The verbs of the foundation: their names, and the sentence that the overview shows for each.

A verb is one module of this package, with one function of the verb's name (``_`` stands for ``-``).
``load`` imports it when it is used. The verbs of the compactor and the reader are listed in
``cli/rooms.py``; this module and the verbs import neither of the two. Only names and sentences are
here, so that ``--help`` loads no engine.

Example::

    load("ls")("lake/flights", json=True)
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["OTHER_NAMES", "READS", "VERBS", "load"]

VERBS = {
    "demo": "Make a small lake to try, and show what a table can do.",
    "create": "Define a table.",
    "alter": "Add, widen, rename, drop or reorder columns, set their rules, set properties.",
    "drop": "Drop a table; undrop brings it back for a time.",
    "undrop": "Bring a dropped table back, with its versions and tags.",
    "write": "Append files as one block: all of them or none.",
    "overwrite": "Replace rows by the rows of files, in one version.",
    "delete": "Delete the rows for which a condition is true.",
    "upsert": "Make each row of files the current one of its key.",
    "insert": "Insert the rows of files whose keys do not exist.",
    "update": "Give columns new values in the rows that meet a condition.",
    "delete-rows": "Delete rows by their ids or keys.",
    "row": "Show a row, as it is or as it was in a version.",
    "put-file": "Upload a file into a table, and print the handle to put into a cell.",
    "get-file": "Download the file that a cell names.",
    "revert": "Undo writes: hide all of their rows.",
    "restore": "Go back to an earlier version, in one new version.",
    "tag": "Keep a version readable under a name.",
    "untag": "Remove a tag.",
    "ls": "List the tables of a lake, or the blocks of a table.",
    "inspect": "Show a table's blocks with their state, labels and sources.",
    "show": "Show the columns of a table with their rules, or everything about one block.",
    "history": "Show a table's versions.",
    "diff": "Show what changed between two versions.",
    "mark": "Mark a block: delete it, or keep it out of merges.",
    "verify": "Check a table: its listing, its blocks, its index.",
    "repair": "Repair what verify has found.",
    "index": "Rebuild a lost index, or store that of a large table in leaves.",
    "build": "Build a finished block in a folder, offline.",
    "ship": "Upload finished blocks from a folder, each exactly once.",
    "export": "Write metadata of a table in a format that other engines read.",
    "replicate": "Copy a table, with its versions, to another place.",
    "materialize": "Keep totals of a table by groups up to date, in a table of their own.",
    "probe": "Measure what an object store guarantees.",
    "cost": "Estimate what a lake costs a month, and what memory its processes take.",
    "simulate": "Test the real code under simulated faults, from a seed.",
}

READS = frozenset(
    {
        "ls",
        "inspect",
        "show",
        "row",
        "get-file",
        "history",
        "diff",
        "verify",
        "probe",
        "cost",
        "simulate",
    }
)
"""The verbs that change no table: if their output is lost, they can be run again."""

OTHER_NAMES = {
    "append": "write",
    "check": "verify",
    "describe": "inspect",
    "list": "ls",
    "log": "history",
    "merge": "compact",
    "scan": "query",
    "select": "query",
    "snapshot": "query",
    "undo": "revert",
    "vacuum": "cleanup",
}
"""Names that Python or other tools use: not verbs; a person who types one is shown the verb."""


def load(verb: str) -> Callable[..., Any]:
    """Import a verb of the foundation and return its function."""
    name = verb.replace("-", "_")
    function: Callable[..., Any] = getattr(import_module(f"blockstore.cli.verbs.{name}"), name)
    return function
