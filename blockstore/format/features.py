"""Features that a table may require of its readers and writers.

A requirement is ``<feature>/<release>``: the feature's name and the first release of Blockstore
that supports it. Rule: a release that does not support a feature refuses the table, naming the
feature and the release that does.
"""

from __future__ import annotations

from collections.abc import Iterable

from blockstore.errors import NewerFormat

FORMAT_VERSION = 1
"""The version of every object of the format that this release writes, and the highest that it
reads."""

UPLOADS = "uploads/0.2"
"""Since the entry that requires it, a floor forgets the applications of a gateway's uploads at or
below it."""

ROWS = "rows/0.2"
"""Rows have an identity and versions: some rows of some blocks are hidden by newer ones."""

COLUMNS = "columns/0.2"
"""Columns have rules that every writer checks, or were renamed or dropped."""

DROP = "drop/0.2"
"""The table was dropped before, and perhaps brought back, or created again on the same index."""

TREE = "tree/0.2"
"""Checkpoints are roots: what they hold is in leaves that several of them share."""

KNOWN: frozenset[str] = frozenset(
    {"chain", *(name.partition("/")[0] for name in (UPLOADS, ROWS, COLUMNS, DROP, TREE))}
)
"""The features beyond version 1 that this release knows."""


def refuse_newer(found: int, subject: str) -> None:
    """Raise NewerFormat if an object's version is higher than what this release reads."""
    if found > FORMAT_VERSION:
        raise NewerFormat(
            f"{subject} has format version {found}, this release reads up to version "
            f"{FORMAT_VERSION}: upgrade blocklake to a release that reads version {found}"
        )


def refuse_unknown(requires: Iterable[str], subject: str) -> None:
    """Raise NewerFormat if a feature is required that this release does not know."""
    for requirement in requires:
        feature, _, release = requirement.partition("/")
        if feature not in KNOWN:
            raise NewerFormat(
                f"{subject} requires the feature {feature!r}, which this release does not know: "
                f"upgrade blocklake to {release or 'a release that has it'} or later"
            )
