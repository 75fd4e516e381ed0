"""The sources of rows as numbers: a merge numbers its sources, and replaces the names in chunks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from blockstore.compactor.merge.engine import DamagedInput
from blockstore.format.fields import RESERVED

SOURCE = "_source"


def with_numbers(schema: pa.Schema, extra: Iterable[str]) -> pa.Schema:
    """The schema of rows within a merge: with the numbers of their sources, and then the reserved
    columns ``extra``."""
    return pa.schema(
        [
            *schema,
            pa.field(SOURCE, pa.int32()),
            *(pa.field(name, RESERVED[name].type) for name in extra),
        ],
        schema.metadata,
    )


class Sources:
    """The sources of a merge, numbered."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = pa.array(names, pa.string())
        self._numbers: Mapping[str, int] = {name: number for number, name in enumerate(names)}

    def number(self, name: str) -> int | None:
        return self._numbers.get(name)

    def numbers(self, column: pa.Array, ulid: str) -> pa.Array:
        """The numbers of a ``_source`` column.

        Raises DamagedInput for a source that the block does not list.
        """
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        places = pc.index_in(encoded.dictionary, value_set=self.names)
        numbers = places.take(encoded.indices)
        if numbers.null_count:
            row = pc.index(pc.is_null(numbers), True).as_py()
            raise DamagedInput(
                ulid,
                f"block {ulid} has a row of the source {column[row].as_py()!r}, which no block of "
                "the merge lists among its sources: place a no-compact mark on the block and "
                "check how it was written",
            )
        return numbers
