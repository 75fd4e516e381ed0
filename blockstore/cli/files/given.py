"""The rows of the files of one call, one after the other, and where among them a refused one
stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from blockstore.cli.files.opening import Advance
from blockstore.cli.files.source import Source, line_of, read
from blockstore.errors import Invalid

__all__ = ["Given"]


class Given:
    """All rows under ``schema``, to be iterated once."""

    def __init__(
        self, named: Sequence[Source], schema: pa.Schema, nulls: tuple[str, ...], advance: Advance
    ) -> None:
        self._named = named
        self._schema = schema
        self._nulls = nulls
        self._advance = advance
        self._reading: Source | None = None
        self._before = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for source in self._named:
            rows = 0
            for batch in read(source, self._schema, nulls=self._nulls, advance=self._advance):
                self._reading = source
                yield batch
                self._reading = None
                rows += batch.num_rows
            self._before += rows

    def placed(self, error: Invalid) -> Invalid:
        """An error of whoever takes the rows, with the file whose rows were being taken, and the
        line of a refused one."""
        if self._reading is None:
            return Invalid(str(error))
        line = None if error.row is None else line_of(self._reading, error.row - self._before)
        where = self._reading.name if line is None else f"{self._reading.name}, line {line}"
        return Invalid(f"{where}: {error}")
