"""An append whose rows have columns that the table lacks, or wider types: the block and the
definition that it needs are in one entry.

Rules:
- The definition from which the new one was made is the one that is replaced. If another one is in
  the index by then, the append conflicts, unless that one knows the block's schema already: another
  writer has added the same columns.
- The block is visible by its entry alone: a listing must not show it under a definition that gives
  its field ids to other columns.
- The entry is not shared with other appends.
"""

from __future__ import annotations

from dataclasses import dataclass

from blockstore.errors import Conflict
from blockstore.format.definition import Definition
from blockstore.format.evolution import check_no_label_is_hidden
from blockstore.index.change import Append, Draft
from blockstore.index.state import State
from blockstore.scan.snapshot import Snapshot


@dataclass(kw_only=True)
class EvolvingAppend(Append):
    """Publish blocks, and replace the definition ``read`` by ``wanted``, which they need."""

    read: Definition
    wanted: Definition

    def draft(self, state: State) -> Draft:
        table, draft = state.definition, Append.draft(self, state)
        if all(_is_known(table, meta.schema, meta.schema_id) for meta in self.blocks):
            return draft
        if table != self.read:
            raise Conflict(
                "the table's definition was changed while rows with other columns were written, "
                f"and the table is at version {state.version} now: write the rows again"
            )
        check_no_label_is_hidden(self.read, self.wanted, Snapshot.of(state).label_names)
        return Draft(
            add=draft.add,
            table=self.wanted,
            parameters=draft.parameters,
            message=draft.message,
        )

    @property
    def shareable(self) -> bool:
        return False


def _is_known(table: Definition, schema: bytes, schema_id: int) -> bool:
    return table.id_of(schema) is not None if schema else schema_id in table.schemas
