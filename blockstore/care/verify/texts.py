"""Text in a chunk that is no UTF-8: no writer of this release takes it, and a device's own or an
earlier one may have.

Such a block can be merged, and whoever reads Arrow gets the bytes; SQL cannot read a column in
which it stands.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from blockstore.format.block import BlockMeta
from blockstore.format.casting import other_than_text
from blockstore.format.utf8 import first_not_text, holds_text

__all__ = ["RawText", "Texts"]

_SOURCE = "_source"


@dataclass(frozen=True, slots=True, kw_only=True)
class RawText:
    """The first such value of a column, and the write that it came with."""

    what: str
    source: str


class Texts:
    """Takes the rows of one chunk, then says where text is none."""

    def __init__(self, meta: BlockMeta, schema: pa.Schema) -> None:
        self._meta = meta
        self._names = [
            field.name for field in schema if field.name != _SOURCE and holds_text(field.type)
        ]
        self._found: dict[str, RawText] = {}
        self._rows = 0

    def add(self, rows: pa.Table) -> None:
        """Take in rows, under the schema."""
        for name in self._names:
            if name not in self._found:
                self._look(name, rows)
        self._rows += rows.num_rows

    def problems(self) -> Iterator[RawText]:
        """What was found, one a column."""
        yield from self._found.values()

    def _look(self, name: str, rows: pa.Table) -> None:
        before = 0
        for array in rows.column(name).chunks:
            row = first_not_text(array)
            if row is not None:
                what = other_than_text(array, row, name, self._rows + before)
                self._found[name] = RawText(what=what, source=self._source(rows, before + row))
                return
            before += len(array)

    def _source(self, rows: pa.Table, row: int) -> str:
        if _SOURCE not in rows.schema.names:
            return self._meta.sources[0]
        return str(rows.column(_SOURCE)[row])
