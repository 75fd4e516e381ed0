"""Rows that a caller hands in, read again where an operation is planned again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from blockstore.operations.incoming import batches_of


class Again:
    """The rows of ``data``, as often as they are needed.

    ``data`` is anything that ``Table.append`` takes; a stream, which can be read once, is kept. Or
    it is a function that returns such data: it is called each time, and nothing is kept.
    """

    def __init__(self, data: Any) -> None:
        self._data = data

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return batches_of(self._data()) if callable(self._data) else iter(self.all())

    def all(self) -> list[pa.RecordBatch]:
        """All of them."""
        if callable(self._data):
            return list(batches_of(self._data()))
        if not isinstance(self._data, list):
            self._data = list(batches_of(self._data))
        batches: list[pa.RecordBatch] = self._data
        return batches
