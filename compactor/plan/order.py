"""What planning reads of a block's JSON: its order, and what its rows are. Made of many stored
blocks at once, and kept with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from blockstore.format.block import BlockKind
from blockstore.format.definition import Definition
from blockstore.format.names_now import columns_now, sort_by_of, time_column_of
from blockstore.index.arrow import integers, texts
from blockstore.index.blocks import Blocks
from blockstore.index.derived import Arrays, Mask
from blockstore.index.rows import LiveBlock

_FIELDS = pa.struct(
    [("time_column", pa.string()), ("sort_by", pa.list_(pa.string())), ("rows", pa.string())]
)
_KINDS = {one.value: one for one in BlockKind}
_BETWEEN = "\0"
"""Joins the columns of a sort key; a name that has it is read out of the block."""
_EMPTY, _PLAIN, _NUL = texts(["", BlockKind.PLAIN.value, _BETWEEN])


class Order(NamedTuple):
    """What planning needs of a block besides the columns of the index."""

    timed: bool
    """Whether its times are those of the table's time column."""
    sort_by: tuple[str, ...]
    """Its sort key, under the names that the table gives the columns now."""
    kind: BlockKind
    newest_source: str = ""
    """Of former versions: the source that was written last."""


def orders(blocks: Blocks, definition: Definition, rows: Mask) -> list[Order]:
    """The orders of these rows of ``blocks.table()``. Raises Corrupt if a stored block cannot be
    read."""
    (found,) = blocks.derived("order", definition, _Orders(definition), rows)
    return list(found[rows])


def order_of(block: LiveBlock, definition: Definition) -> Order:
    """The order of one block."""
    meta = block.meta
    timed = meta.time_column is not None
    return Order(
        timed and time_column_of(meta, definition) == definition.time_column,
        sort_by_of(meta, definition),
        meta.kind,
        max(meta.sources) if meta.kind is BlockKind.HISTORY else "",
    )


class _Orders:
    """Makes an array, by block: its order."""

    def __init__(self, definition: Definition) -> None:
        self._definition = definition

    def of_blocks(self, blocks: Sequence[LiveBlock]) -> Arrays:
        return (_array([order_of(block, self._definition) for block in blocks]),)

    def of_rows(self, rows: pa.Table) -> Arrays | None:
        import pyarrow.compute as pc

        from blockstore.index.documents import read_documents  # of a checkpoint's blocks alone

        documents = read_documents(rows, pa.field("blockstore", _FIELDS))
        if documents is None or documents.null_count:
            return None
        time_column, sort_by, kind = (pc.struct_field(documents, [place]) for place in range(3))
        names = sort_by.flatten()
        odd = pc.or_(pc.equal(names, _EMPTY), pc.match_substring(names, _BETWEEN))
        if names.null_count or pc.any(odd).as_py():
            return None
        joined = pc.fill_null(pc.binary_join(sort_by, _NUL), _EMPTY)
        schema_id = pc.cast(rows["schema_id"].combine_chunks(), pa.int32())
        kinds = pc.fill_null(kind, _PLAIN)
        if not set(pc.unique(kinds).to_pylist()) <= _KINDS.keys():
            return None
        return (_array(self._told_apart([schema_id, time_column, joined, kinds], rows)),)

    def _told_apart(self, columns: list[pa.Array], rows: pa.Table) -> list[Order]:
        """An order for each row; equal rows share it."""
        number = np.zeros(len(rows), dtype=np.int64)
        for column in columns:
            encoded = column.dictionary_encode(null_encoding="encode")
            codes = integers(encoded.indices)
            _, number = np.unique(number * len(encoded.dictionary) + codes, return_inverse=True)
        _, firsts = np.unique(number, return_index=True)
        made = [self._order(*(column[place].as_py() for column in columns)) for place in firsts]
        found = [made[one] for one in number.tolist()]
        for place, order in enumerate(found):
            if order.kind is BlockKind.HISTORY:
                sources = rows["sources"][place].as_py() or [rows["ulid"][place].as_py()]
                found[place] = order._replace(newest_source=max(sources))
        return found

    def _order(self, schema_id: int, time_column: str | None, sort_by: str, kind: str) -> Order:
        now = columns_now(schema_id, self._definition)
        names = sort_by.split(_BETWEEN) if sort_by else ()
        return Order(
            time_column is not None
            and now.get(time_column, time_column) == self._definition.time_column,
            tuple(now.get(name, name) for name in names),
            _KINDS[kind],
        )


def _array(orders: Sequence[Order]) -> np.ndarray[tuple[int], np.dtype[np.object_]]:
    found = np.empty(len(orders), dtype=object)
    for place, order in enumerate(orders):
        found[place] = order
    return found
