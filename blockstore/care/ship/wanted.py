"""Whether a table could ever show a block of a device: checked before a byte of it is sent."""

from __future__ import annotations

from blockstore.care.ship.unindexed_target import UnindexedTarget
from blockstore.errors import Invalid
from blockstore.format.block import BlockMeta, VisibleBy
from blockstore.format.definition import Definition
from blockstore.format.identity import Key
from blockstore.format.names_now import time_column_of
from blockstore.index.state import State


def check_wanted(meta: BlockMeta, state: State | None, unindexed: UnindexedTarget) -> None:
    """Raise Invalid for a block that the table could never show."""
    if meta.visible_by is VisibleBy.INDEX:
        raise Invalid(
            f"block {meta.ulid} belongs to a transaction and is visible only by an index "
            "entry, which this folder does not have: copy the table that it belongs to with "
            "'blockstore replicate', or write its rows again"
        )
    if state is None:
        contradiction = unindexed.why_not(meta.schema)
        if contradiction is not None:
            raise Invalid(
                f"block {meta.ulid} does not fit the blocks in {unindexed.url}: "
                f"{contradiction}; build it again with the table's definition (--like), or "
                "ship it to another table"
            )
        return
    _check_versions(meta, state.definition)
    if time_column_of(meta, state.definition) != state.definition.time_column:
        raise Invalid(
            f"block {meta.ulid} has the time column {meta.time_column!r}, and the table has "
            f"{state.definition.time_column!r}: build its rows again with the table's "
            "definition (--like)"
        )
    if state.definition.id_of(meta.schema) is None:
        raise Invalid(
            f"block {meta.ulid} has a schema that the table does not know, expected one of the "
            f"{len(state.definition.schemas)} of its definition: build it again with the "
            "table's definition (--like), or alter the table"
        )


def _check_versions(meta: BlockMeta, definition: Definition) -> None:
    """Raise Invalid for rows that would be versions of rows in an order that only an index
    knows."""
    if isinstance(definition.identity, Key):
        raise Invalid(
            f"block {meta.ulid} cannot be shipped: the table has the key "
            f"{', '.join(definition.identity.columns)}, and which of its rows are newer than those "
            "of the table is not known; read the rows and write them with upsert"
        )
    if definition.identity is not None and meta.level > 1:
        raise Invalid(
            f"block {meta.ulid} cannot be shipped: it is a merge, which does not carry the ids and "
            "versions of rows that this table has; ship the blocks that it was made of"
        )
