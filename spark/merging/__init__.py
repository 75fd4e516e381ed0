"""Merging on Spark: the merges of a compactor's pass as the tasks of a Spark job.

Problem: one machine may be too small for the merges of a large table.

Mental model: a merge is one task, or several pieces whose chunks are one block. The compactor
passes in how to cut a merge, run a piece and combine the results (``MergePieces``), because the
rooms never import one another. The engine only distributes tasks and returns their results; the
compactor publishes them as it publishes those of its local engine.

- ``engine``: ``SparkMergeEngine``. ``work``: what a task does, and the types that travel.
- ``progress``: the share of a Spark job that has ended, reported while it runs.

``engine`` is what the compactor finds for ``--engine spark``; ``merge_engine`` makes one for an
existing session.

Example::

    engine = merge_engine(spark, piece_bytes=4 << 30)
    compact_once(table, settings, engine=engine)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from blockstore.extras import load, missing
from blockstore.spark.merging.engine import SparkMergeEngine

if TYPE_CHECKING:
    from blockstore.spark.merging.work import MergePieces

__all__ = ["SparkMergeEngine", "engine", "merge_engine"]


def engine(pieces: MergePieces) -> SparkMergeEngine:
    """The engine on the session that ``spark-submit`` or the environment configures.

    The session starts at the first merge. Raises MissingExtra if pyspark is not installed.
    """
    try:
        import pyspark  # noqa: F401 - what is missing is reported before the first merge
    except ModuleNotFoundError as error:
        raise missing(error, "the merge engine spark", "spark") from error
    return SparkMergeEngine(pieces=pieces)


def merge_engine(session: Any, *, piece_bytes: int | None = None) -> SparkMergeEngine:
    """Return a merge engine that runs its merges as tasks of ``session``.

    A merge of more than ``piece_bytes`` of input (default: the session's
    ``spark.blockstore.merge.pieceSize``, else 1 GiB) is cut by ranges of its leading key into
    several tasks. Raises MissingExtra if the compactor's packages are not installed.
    """
    pieces = load("blockstore.compactor.merge.pieces", "Pieces", "a merge on Spark")()
    return SparkMergeEngine(pieces=pieces, session=session, piece_bytes=piece_bytes)
