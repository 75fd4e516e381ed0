"""An engine that does many merges at once on other machines, as the process sees it: what it tells
and answers is movement.

Nothing of such merges passes through the process's own bucket. What they are heard to do is noted
in the table's ``Watched``, from which the process tells how far they are, and for how long nothing
was heard of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from blockstore.bucket.api import Bucket
from blockstore.compactor.merge import Merged, MergeEngine, MergeOptions, MergeTask
from blockstore.compactor.merge.engine import MergesTogether, Told
from blockstore.compactor.run.monitor import Watched
from blockstore.errors import BlockstoreError
from blockstore.world import World

__all__ = ["Elsewhere", "merges_together"]


def merges_together(engine: MergeEngine) -> bool:
    """Whether the engine takes the merges of a whole pass at once."""
    return hasattr(engine, "merge_all")


class Elsewhere:
    """``engine``, whose progress and whose answers ``watched`` hears."""

    def __init__(self, engine: MergeEngine, watched: Watched) -> None:
        assert merges_together(engine)
        self._one = engine
        self._many: MergesTogether = engine  # type: ignore[assignment]
        self._watched = watched

    def merge(self, bucket: Bucket, world: World, task: MergeTask, options: MergeOptions) -> Merged:
        return self._one.merge(bucket, world, task, options)

    def merge_all(
        self, bucket: Bucket, world: World, tasks: Sequence[MergeTask], options: MergeOptions
    ) -> Iterator[tuple[int, Merged | BlockstoreError]]:
        told: Told = self._watched.tell
        for answer in self._many.merge_all(bucket, world, tasks, options, told):
            self._watched.moved()
            yield answer
