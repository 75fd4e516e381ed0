"""Merges on Spark: the tasks of a compactor's pass, spread over a cluster.

``engine`` is what the compactor finds by the entry point ``blockstore.merge_engines``;
``merge_engine`` makes the same for a session at hand. Nothing here knows how to merge: that is
handed in.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from blockstore.errors import MissingExtra
from blockstore.spark.merging.engine import SparkMergeEngine

if TYPE_CHECKING:
    from blockstore.spark.merging.work import MergePieces

__all__ = ["SparkMergeEngine", "engine", "merge_engine"]

GROUP = "blockstore.merge_pieces"


def engine(pieces: MergePieces) -> SparkMergeEngine:
    """The engine on the session that ``spark-submit`` or the environment configures; it starts at
    the first merge."""
    return SparkMergeEngine(pieces=pieces)


def merge_engine(session: Any, *, piece_bytes: int | None = None) -> SparkMergeEngine:
    """A merge engine that runs its merges as tasks of ``session``.

    A merge of more than ``piece_bytes`` of input (default: the session's
    ``spark.blockstore.merge.pieceSize``, else 1 GiB) is cut by ranges of its leading key into
    several tasks. Raises MissingExtra where the compactor's package is not installed.
    """
    found = next(iter(entry_points(group=GROUP)), None)
    if found is None:
        raise MissingExtra(
            "the compactor's part of a merge is not installed: pip install 'blocklake[compactor]'"
        )
    return SparkMergeEngine(pieces=found.load()(), session=session, piece_bytes=piece_bytes)
