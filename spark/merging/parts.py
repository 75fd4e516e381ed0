"""What the compactor hands over, as far as it is looked at here: the shapes of its tasks, answers
and pieces.

Only shapes: the rooms never import one another. Whatever is handed over must travel by pickle, and
workers must have the package that it comes from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from blockstore.bucket.api import Bucket, ReadBucket
from blockstore.format import BlockMeta
from blockstore.world import World

__all__ = ["Input", "MergePieces", "Task"]


class Input(Protocol):
    """A block to merge."""

    @property
    def meta(self) -> BlockMeta: ...


class Task(Protocol):
    """One merge, or a piece of one."""

    @property
    def ulid(self) -> str: ...

    @property
    def inputs(self) -> Sequence[Input]: ...


class MergePieces(Protocol):
    """How merges are cut, done and put together; what they answer is only carried."""

    def cut(self, bucket: ReadBucket, task: Any, count: int) -> Sequence[Any]:
        """The task as at most ``count`` pieces."""
        ...

    def merge(self, bucket: Bucket, world: World, task: Any, options: Any) -> Any:
        """One task or piece, in the calling process."""
        ...

    def together(self, task: Any, parts: Sequence[Any]) -> Any | None:
        """What the pieces make; None where the task must be done in one piece."""
        ...
