"""That no older version of some rows came in since it was judged that there is none (P).

Rules (design 8.5):
- P was judged by reading, at one version. Blocks that came since can only bring newer versions, or
  carry on rows of blocks that were there and were judged: their versions or their sources say so.
- Anything else is a conflict: the operation is planned again.
- A change of rows never conflicts with what was judged.
"""

from __future__ import annotations

from dataclasses import dataclass

from blockstore.errors import Conflict
from blockstore.format.block import BlockKind, StreamKey
from blockstore.format.identity import VERSION
from blockstore.index import ulids
from blockstore.index.blocks import Blocks
from blockstore.index.rows import LiveBlock
from blockstore.index.state import State


@dataclass(frozen=True, slots=True)
class Judged:
    """P, as it was judged of rows of some blocks of a stream."""

    blocks: Blocks
    """All live blocks at that version."""
    but: tuple[str, ...]
    """The blocks that hold the rows."""
    stream: StreamKey
    newest: int
    """The newest version of the rows."""

    def check(self, state: State) -> None:
        """Raise Conflict if an older version may have come in since."""
        before = ulids.from_arrow(self.blocks.table()["ulid"])
        now = ulids.from_arrow(state.blocks.table()["ulid"])
        fresh = ulids.to_texts(now[~ulids.holds(before, now)])
        for block in state.blocks.get_all(fresh).values():
            meta = block.meta
            if meta.stream != self.stream or meta.kind is BlockKind.HISTORY:
                continue
            oldest = oldest_version(block)
            if (oldest is None or oldest < self.newest) and not self._carries_on(block):
                raise Conflict(
                    f"block {block.ulid} came in by version {state.version} and may hold older "
                    f"versions of rows than {self.newest}, of which there were none before: read "
                    "the table again and plan again",
                    block=block.ulid,
                )

    def _carries_on(self, block: LiveBlock) -> bool:
        """Whether all of its rows were in blocks that were looked at."""
        held = self.blocks.changed(self.but, ()).sources()
        return all(ulids.position(held, source) is not None for source in block.meta.sources)


def oldest_version(block: LiveBlock) -> int | None:
    """The lowest version of the block's rows, where it is known."""
    if block.meta.level == 1:
        return block.version
    found = [chunk.columns.get(VERSION) for chunk in block.meta.chunks]
    lowest = [one.min for one in found if one is not None and isinstance(one.min, int)]
    return min(lowest) if lowest and len(lowest) == len(found) else None
