"""Rows that say their labels themselves, in columns of the labels' names.

Rules:
- A column of a row set that is named as a label of the table says it for each row, whatever labels
  the caller names; null means that the row does not have the label.
- A label that no row of the table has yet is no column: the caller names it.
- The labels of a row never change: where an id names a row that has others, that is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from blockstore.errors import Invalid
from blockstore.format.block import StreamKey
from blockstore.format.casting import cast_batch
from blockstore.index.state import State
from blockstore.scan.snapshot import Snapshot


def labels_of(state: State) -> tuple[str, ...]:
    """Return the labels of a table that rows may say as columns."""
    return Snapshot.of(state).columns.labels


def by_labels(
    rows: pa.RecordBatch, labels: Iterable[str], own: StreamKey
) -> Iterator[tuple[StreamKey, pa.RecordBatch, pa.Array | None]]:
    """Yield rows by their streams, without their columns of labels.

    Args:
        rows: The rows.
        labels: The labels of the table.
        own: The stream of a row that says no label.

    Yields:
        A stream, its rows, and which of all rows they are: None for all.

    Raises:
        Invalid: A label is not text.
    """
    known = set(labels)
    named = [name for name in rows.schema.names if name in known]
    if not named:
        yield own, rows, None
        return
    rest = rows.select([name for name in rows.schema.names if name not in known])
    codes, values = _codes([_texts(rows.column(name), name) for name in named], len(rows))
    for code in np.unique(codes).tolist():
        of = codes == code
        first = int(np.argmax(of))
        said = {name: column[first].as_py() for name, column in zip(named, values, strict=True)}
        which = pa.array(of)
        yield with_labels(own, said), rest.filter(which), which


def streams_of(
    batches: Iterable[pa.RecordBatch], state: State, own: StreamKey
) -> Iterator[tuple[StreamKey, pa.RecordBatch]]:
    """Yield new rows by their streams; ``own`` is that of rows that say no label. Raises Invalid,
    with its number, for a row that does not fit the table."""
    labels, taken = labels_of(state), 0
    for batch in batches:
        if set(labels) & set(batch.schema.names):
            rest = batch.select([name for name in batch.schema.names if name not in labels])
            cast_batch(rest, state.definition, first_row=taken)
        for stream, rows, _ in by_labels(batch, labels, own):
            yield stream, rows
        taken += len(batch)


def with_labels(own: StreamKey, said: Mapping[str, str | None]) -> StreamKey:
    """Return a stream with other labels; one that is None is no label of it."""
    found = {**dict(own.labels), **said}
    pairs = sorted((name, value) for name, value in found.items() if value is not None)
    return StreamKey(tuple(pairs), own.resolution)


def _texts(column: pa.Array, name: str) -> pa.Array:
    try:
        return column.cast(pa.string())
    except pa.ArrowException as error:
        raise Invalid(f"column {name!r} is a label, and labels are text: {error}") from None


def _codes(columns: Sequence[pa.Array], rows: int) -> tuple[np.ndarray, Sequence[pa.Array]]:
    """A number for each combination of values."""
    codes = np.zeros(rows, dtype=np.int64)
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        codes = codes * max(1, len(encoded.dictionary)) + encoded.indices.to_numpy()
    return codes, columns


def gathered(
    rows: Iterable[tuple[StreamKey, pa.RecordBatch]], *, most_rows: int, most_bytes: int
) -> Iterator[tuple[StreamKey, pa.RecordBatch]]:
    """Yield the rows of each stream together, as soon as those of all streams are so many or so
    large. They have one schema."""
    held: dict[StreamKey, list[pa.RecordBatch]] = {}
    count = size = 0
    for stream, batch in rows:
        held.setdefault(stream, []).append(batch)
        count, size = count + len(batch), size + batch.nbytes
        if count >= most_rows or size >= most_bytes:
            yield from _each(held)
            held, count, size = {}, 0, 0
    yield from _each(held)


def _each(
    held: dict[StreamKey, list[pa.RecordBatch]],
) -> Iterator[tuple[StreamKey, pa.RecordBatch]]:
    for stream, batches in held.items():
        yield from (
            (stream, one) for one in pa.Table.from_batches(batches).combine_chunks().to_batches()
        )
