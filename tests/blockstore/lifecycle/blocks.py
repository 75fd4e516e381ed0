"""Blocks for the tests of this folder: short names instead of ULIDs, defaults for all that does not
matter."""

from __future__ import annotations

from blockstore.format.block import BlockMeta, ChunkFile, VisibleBy
from blockstore.ids import ulid_at

START_MS = 1_700_000_000_000


def ulid(number: int, *, time_ms: int = START_MS) -> str:
    """The number-th ULID of a millisecond; in the order of the numbers."""
    return ulid_at(time_ms)[:22] + f"{number:04d}"


def block(
    number: int,
    sources: set[int] | None = None,
    *,
    revision: int = 0,
    labels: dict[str, str] | None = None,
    visible_by: VisibleBy = VisibleBy.AGE,
    time_ms: int = START_MS,
    files: tuple[ChunkFile, ...] = (),
    ignore_delay: bool = False,
) -> BlockMeta:
    """A block that accounts for ``sources`` (its own number if None)."""
    own = ulid(number, time_ms=time_ms)
    listed = (own,) if sources is None else tuple(sorted(ulid(source) for source in sources))
    return BlockMeta(
        ulid=own,
        min_time=time_ms,
        max_time=time_ms + 1,
        rows=max(len(listed), 1),
        bytes=100,
        level=1 if listed == (own,) else 2,
        sources=listed,
        labels=labels or {},
        revision=revision,
        own=own in listed,
        visible_by=visible_by,
        uploaded_time=time_ms,
        files=files,
        ignore_delay=ignore_delay,
    )
