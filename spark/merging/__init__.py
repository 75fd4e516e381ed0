"""Merges on Spark: the tasks of a compactor's pass, spread over a cluster.

``engine`` is what the compactor loads for ``--engine spark``;
``merge_engine`` makes the same for a session at hand. Nothing here knows how to merge: that is
handed in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from blockstore.extras import load, missing
from blockstore.spark.merging.engine import SparkMergeEngine

if TYPE_CHECKING:
    from blockstore.spark.merging.parts import MergePieces

__all__ = ["SparkMergeEngine", "engine", "merge_engine"]


def engine(pieces: MergePieces) -> SparkMergeEngine:
    """The engine on the session that ``spark-submit`` or the environment configures; it starts at
    the first merge. Raises MissingExtra where pyspark is not installed."""
    try:
        import pyspark  # noqa: F401 - what is missing is reported before the first merge
    except ModuleNotFoundError as error:
        raise missing(error, "the merge engine spark", "spark") from error
    return SparkMergeEngine(pieces=pieces)


def merge_engine(session: Any, *, piece_bytes: int | None = None) -> SparkMergeEngine:
    """A merge engine that runs its merges as tasks of ``session``.

    A merge of more than ``piece_bytes`` of input (default: the session's
    ``spark.blockstore.merge.pieceSize``, else 1 GiB) is cut by ranges of its leading key into
    several tasks.
    """
    pieces = load("blockstore.compactor.merge.pieces", "Pieces", "a merge on Spark")()
    return SparkMergeEngine(pieces=pieces, session=session, piece_bytes=piece_bytes)
