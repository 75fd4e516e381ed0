"""Merging: many blocks into one, in bounded memory."""

from blockstore.compactor.merge.engine import (
    DamagedInput,
    Merged,
    MergeEngine,
    MergeInput,
    MergeOptions,
    MergeTask,
)

__all__ = ["DamagedInput", "MergeEngine", "MergeInput", "MergeOptions", "MergeTask", "Merged"]
