"""The index entry of a merge: it adds its result and removes its inputs, at once or not at all.

Rules (protocol 3.3):
- Every input must still be live, with the exceptions under which it was read. Otherwise the commit
  raises Conflict, and the merge is dropped: its block remains as debris that no reader sees.
- A process that holds a role merges in it: once another process has claimed the role, its merges
  are Fenced.
- The result accounts for exactly the sources of the blocks that it replaces, so nothing is counted
  twice.
- A merge without rows (all were excepted or hidden) removes its inputs and adds nothing.
- Former versions that it leaves out enter as a block of history by the same entry, or not at all.
- Where it depends on P (no older version of a row is left elsewhere), the commit checks that none
  came in.
- What identifies rows is as it was read: a merge made before would lack their ids.
- It races for longer than a writer: no one waits for it, a merge that is dropped took minutes, and
  a table that is written all the time needs it most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from blockstore.errors import Conflict
from blockstore.format.block import BlockMeta
from blockstore.format.identity import Identity
from blockstore.index.added import AddedBlock
from blockstore.index.change import Change, Draft
from blockstore.index.entry import Epoch, Operation
from blockstore.index.state import State
from blockstore.rows.judged import Judged


@dataclass(kw_only=True)
class Compact(Change):
    """Replace the blocks of ``read``, each with the exceptions it was read under, by ``block``.

    ``history`` holds the former versions that it leaves out, ``judged`` what it depends on.
    """

    races_for: ClassVar[float] = 10.0
    operation: Operation = Operation.COMPACT
    commit: str
    block: BlockMeta | None
    read: Mapping[str, frozenset[str]]
    read_version: int
    identity: Identity | None = None
    history: BlockMeta | None = None
    judged: Judged | None = None
    parameters: Mapping[str, object] = field(default_factory=dict)
    role: str | None = None
    epoch: Epoch | None = None

    def draft(self, state: State) -> Draft:
        if state.definition.identity != self.identity:
            raise Conflict(
                "what identifies the rows of this table was changed after version "
                f"{self.read_version}, at which they were read: the merge is dropped, and the next "
                "pass plans again"
            )
        if self.judged is not None:
            self.judged.check(state)
        added = [block for block in (self.block, self.history) if block is not None]
        return Draft(
            add=tuple(AddedBlock(meta=block) for block in added),
            remove=tuple(sorted(self.read)),
            read=self.read,
            read_version=self.read_version,
            parameters=self.parameters,
        )
