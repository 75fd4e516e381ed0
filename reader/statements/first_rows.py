"""The rows of a query that makes a table, computed before the table is there."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from blockstore.errors import NoMemory
from blockstore.format.block import Job
from blockstore.format.casting import cast_batch
from blockstore.format.definition import Definition
from blockstore.index.change import Append
from blockstore.operations.append import AppendedBlock
from blockstore.reader.query.answer import Answer
from blockstore.table import Table


@contextmanager
def after_first(answer: Answer) -> Iterator[Iterator[pa.RecordBatch]]:
    """The rows, once the first of them are computed. Raises what the query does until then."""
    batches = iter(answer)
    first = next(batches, None)
    yield iter(()) if first is None else chain([first], batches)


def append_first(table: Table, rows: Any, message: str, job: Job | None) -> AppendedBlock:
    """Append the first rows of a table. Of a job without rows an entry says that this was all."""
    written = table.append(rows, message=message, job=job)
    if written.ulid is None and job is not None:
        commit = table.world.ids.ulid()
        done = table.log.commit(Append(commit=commit, blocks=(), job=job, message=message))
        return replace(written, version=done.version)
    return written


@contextmanager
def after_all(
    answer: Answer,
    definition: Definition,
    folder: Path | None = None,
    most_bytes: int | None = None,
) -> Iterator[Iterator[pa.RecordBatch]]:
    """The rows, once all of them are computed and fit the table; they wait in a file of the folder.
    Raises what the query does, Invalid, and NoMemory for a larger file."""
    with tempfile.TemporaryFile(prefix="blockstore-rows-", dir=folder) as file:
        rows = 0
        with pa.ipc.new_stream(file, answer.schema) as stream:
            for batch in answer:
                cast_batch(batch, definition, first_row=rows)
                rows += batch.num_rows
                stream.write_batch(batch)
                if most_bytes is not None and file.tell() > most_bytes:
                    raise NoMemory(
                        f"the rows of the new table take more than {most_bytes:,} bytes of "
                        "temporary disk, the share of a query: raise spill of [query], or create "
                        "another table of the query, whose rows need not wait"
                    )
        file.seek(0)
        with pa.ipc.open_stream(file) as reader:
            yield iter(reader)
