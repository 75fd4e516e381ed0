"""The rows of a query that makes a table, computed before the table is there."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain

import pyarrow as pa

from blockstore.reader.query.answer import Answer


@contextmanager
def after_first(answer: Answer) -> Iterator[Iterator[pa.RecordBatch]]:
    """The rows, once the first of them are computed. Raises what the query does until then."""
    batches = iter(answer)
    first = next(batches, None)
    yield iter(()) if first is None else chain([first], batches)


@contextmanager
def after_all(answer: Answer) -> Iterator[Iterator[pa.RecordBatch]]:
    """The rows, once all of them are computed; they wait in a file. Raises what the query does."""
    with tempfile.TemporaryFile(prefix="blockstore-rows-") as file:
        with pa.ipc.new_stream(file, answer.schema) as stream:
            for batch in answer:
                stream.write_batch(batch)
        file.seek(0)
        with pa.ipc.open_stream(file) as reader:
            yield iter(reader)
