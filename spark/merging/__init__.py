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

from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from blockstore.errors import MissingExtra
from blockstore.spark.merging.engine import SparkMergeEngine

if TYPE_CHECKING:
    from blockstore.spark.merging.work import MergePieces

__all__ = ["SparkMergeEngine", "engine", "merge_engine"]

GROUP = "blockstore.merge_pieces"


def engine(pieces: MergePieces) -> SparkMergeEngine:
    """The engine on the session that ``spark-submit`` or the environment configures. The session
    starts at the first merge."""
    return SparkMergeEngine(pieces=pieces)


def merge_engine(session: Any, *, piece_bytes: int | None = None) -> SparkMergeEngine:
    """Return a merge engine that runs its merges as tasks of ``session``.

    A merge of more than ``piece_bytes`` of input (default: the session's
    ``spark.blockstore.merge.pieceSize``, else 1 GiB) is cut by ranges of its leading key into
    several tasks. Raises MissingExtra if the compactor's packages are not installed.
    """
    found = next(iter(entry_points(group=GROUP)), None)
    if found is None:
        raise MissingExtra(
            "the compactor's part of a merge is not installed: pip install 'blocklake[compactor]'"
        )
    return SparkMergeEngine(pieces=found.load()(), session=session, piece_bytes=piece_bytes)
