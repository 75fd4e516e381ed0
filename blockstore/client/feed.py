"""The changes of a table by way of a gateway."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa

from blockstore.client.rows import ARROW, arrow_of
from blockstore.client.wire import Wire, strange


class RemoteChanges:
    """The changes after one version, up to another; each look at them asks the gateway again."""

    def __init__(self, wire: Wire, path: str, params: Mapping[str, object]) -> None:
        self._wire = wire
        self._path = path
        self._params = dict(params)
        self.until: int | None = None
        """The version to continue after, once they have been read."""

    @contextmanager
    def stream(self) -> Iterator[pa.RecordBatchReader]:
        """The changes batch by batch, in bounded memory. The reader raises Unavailable if the
        response breaks off: what was read of the last version may then be a part of it."""
        headers = {"Accept": ARROW}
        with self._wire.answer("GET", self._path, params=self._params, headers=headers) as found:
            try:
                until = int(found.headers["x-blockstore-until"])
            except (KeyError, ValueError) as error:
                raise strange(found) from error
            with arrow_of(found) as reader:
                yield reader
            self.until = until

    def to_arrow(self) -> pa.Table:
        """A pyarrow Table."""
        with self.stream() as reader:
            return reader.read_all()
