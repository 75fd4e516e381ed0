"""The compactor's part of a merge, in workers that die or wait."""

from __future__ import annotations

import os
import time
from pathlib import Path

from blockstore.bucket.api import Bucket
from blockstore.compactor.merge import Merged, MergeOptions, MergeTask
from blockstore.compactor.merge.pieces import Pieces
from blockstore.world import World

__all__ = ["DyingPieces", "PatientPieces", "PoisonedPieces"]


class DyingPieces(Pieces):
    """Writes all chunks of the first merge, and kills its process before it returns."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def merge(self, bucket: Bucket, world: World, task: MergeTask, options: MergeOptions) -> Merged:
        merged = super().merge(bucket, world, task, options)
        try:
            (self._folder / "died").touch(exist_ok=False)
        except FileExistsError:
            return merged
        os._exit(1)


class PoisonedPieces(Pieces):
    """Kills each process that merges the stream with this label ``s``, or raises MemoryError in
    it."""

    def __init__(self, label: str, *, memory: bool) -> None:
        self._label = label
        self._memory = memory

    def merge(self, bucket: Bucket, world: World, task: MergeTask, options: MergeOptions) -> Merged:
        if task.inputs[0].meta.labels.get("s") == self._label:
            if self._memory:
                raise MemoryError("no room")
            os._exit(137)
        return super().merge(bucket, world, task, options)


class PatientPieces(Pieces):
    """Merges the stream with this label ``s`` only after a file exists."""

    def __init__(self, label: str, go: Path, *, patience_s: float = 120.0) -> None:
        self._label = label
        self._go = go
        self._patience_s = patience_s

    def merge(self, bucket: Bucket, world: World, task: MergeTask, options: MergeOptions) -> Merged:
        if task.inputs[0].meta.labels.get("s") == self._label:
            end = time.monotonic() + self._patience_s
            while not self._go.exists():
                assert time.monotonic() < end, f"{self._go} was never created"
                time.sleep(0.05)
        return super().merge(bucket, world, task, options)
