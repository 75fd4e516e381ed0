"""Merge engines by their names: the local one, and Spark's, which is loaded by name.

An engine is a function that is called with ``Pieces``, the compactor's part of a merge, and returns
a ``MergeEngine``. So it imports nothing of the compactor, and the compactor nothing of it. An
engine may also do the merges of a complete pass at once (``BatchEngine``).
"""

from __future__ import annotations

from blockstore.compactor.merge.engine import MergeEngine
from blockstore.compactor.merge.local import LocalEngine
from blockstore.compactor.merge.pieces import Pieces
from blockstore.errors import Invalid
from blockstore.extras import load

ENGINES = ("local", "spark")


def engine_named(name: str) -> MergeEngine:
    """The engine of this name.

    Raises Invalid for a name that no engine has, MissingExtra where its package is not installed.
    """
    if name == "local":
        return LocalEngine()
    if name == "spark":
        engine: MergeEngine = load("blockstore.spark.merging", "engine", "the merge engine spark")(
            Pieces()
        )
        return engine
    raise Invalid(f"engine is {name!r}, expected one of {', '.join(map(repr, ENGINES))}")
