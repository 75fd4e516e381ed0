"""Every block that readers see, as a merge would read it; of an index made when it is requested."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from blockstore.compactor.merge import MergeInput
from blockstore.compactor.plan.candidates import COLUMNS
from blockstore.compactor.plan.skip import Labels, has_label, is_skipped
from blockstore.format.block import BlockKind
from blockstore.format.definition import Definition
from blockstore.index.arrow import integers
from blockstore.index.blocks import Blocks
from blockstore.index.rows import LiveBlock, stream_named
from blockstore.scan.candidates import are


class LiveInputs(Mapping[str, MergeInput]):
    """The live blocks of an index, without those of streams to ``skip``."""

    def __init__(self, blocks: Blocks, skip: Labels = ()) -> None:
        self._blocks = blocks
        self._skip = skip

    def __getitem__(self, ulid: str) -> MergeInput:
        block = self._blocks.get(ulid)
        if block is None or is_skipped(block.meta, self._skip):
            raise KeyError(ulid)
        return _input(block)

    def __iter__(self) -> Iterator[str]:
        if not self._skip:
            return iter(self._blocks.ulids())
        return (block.ulid for block in self._blocks if not is_skipped(block.meta, self._skip))

    def __len__(self) -> int:
        return sum(1 for _ in self) if self._skip else len(self._blocks)

    def get_all(self, ulids: Iterable[str]) -> dict[str, MergeInput]:
        """Those of these ULIDs, read together."""
        found = self._blocks.get_all(ulids)
        return {
            ulid: _input(block)
            for ulid, block in found.items()
            if not is_skipped(block.meta, self._skip)
        }

    def read_rows(self, definition: Definition) -> int:
        """The rows of those that queries read."""
        frame = self._blocks.columns(COLUMNS)
        read = ~are(BlockKind.HISTORY, self._blocks, definition)
        if self._skip:
            texts = frame["stream"].to_pylist()
            read &= [not has_label(stream_named(text), self._skip) for text in texts]
        return int(integers(frame["rows"])[read].sum())


def _input(block: LiveBlock) -> MergeInput:
    level_1 = block.meta.level == 1
    return MergeInput(
        meta=block.meta,
        excepted=block.excepted,
        version=block.version if level_1 else None,
        first_row_id=block.first_row_id if level_1 else None,
    )
