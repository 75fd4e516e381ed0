"""The index entry of a merge: it adds one block and removes its inputs, at once or not at all.

Rules (protocol 3.3):
- Every input must still be live, with the exceptions under which it was read. Otherwise the commit
  raises Conflict, and the merge is dropped: its block remains as debris that no reader sees.
- A process that holds a role merges in it: once another process has claimed the role, its merges
  are Fenced.
- The result accounts for exactly the sources of the blocks that it replaces, so nothing is counted
  twice.
- A merge without rows (all were excepted) removes its inputs and adds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from blockstore.format.block import BlockMeta
from blockstore.index.added import AddedBlock
from blockstore.index.change import Change, Draft
from blockstore.index.entry import Epoch, Operation
from blockstore.index.state import State


@dataclass(kw_only=True)
class Compact(Change):
    """Replace the blocks of ``read``, each with the exceptions it was read under, by ``block``."""

    operation: Operation = Operation.COMPACT
    commit: str
    block: BlockMeta | None
    read: Mapping[str, frozenset[str]]
    read_version: int
    parameters: Mapping[str, object] = field(default_factory=dict)
    role: str | None = None
    epoch: Epoch | None = None

    def draft(self, state: State) -> Draft:
        return Draft(
            add=() if self.block is None else (AddedBlock(meta=self.block),),
            remove=tuple(sorted(self.read)),
            read=self.read,
            read_version=self.read_version,
            parameters=self.parameters,
        )
