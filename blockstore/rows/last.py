"""Of rows in which a key occurs several times, the one that counts.

Rules:
- The last row of a key counts, or that with the highest value of a column, null being the lowest;
  of several with the highest value the last one.
- The rows are read twice: the first time their identities and values decide, the second time those
  that count are passed on. In memory are only these, and what ``Again`` keeps.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from blockstore.errors import Invalid
from blockstore.format.block import StreamKey
from blockstore.format.identity import Key
from blockstore.format.types import is_sortable
from blockstore.index.state import State
from blockstore.rows.again import Again
from blockstore.rows.labelled import by_labels, labels_of
from blockstore.rows.reading import column_like
from blockstore.scan.identities import identities


def check_sequence(schema: pa.Schema, name: str) -> None:
    """Raise Invalid unless the table has the column, and its values have an order."""
    if name not in schema.names:
        raise Invalid(
            f"sequence_by names {name!r}, which the table does not have; its columns are "
            f"{', '.join(schema.names)}"
        )
    kind = schema.field(name).type
    if not is_sortable(kind):
        raise Invalid(
            f"sequence_by names {name!r} of type {kind}, whose values have no order: name a "
            "number, a time or a text"
        )


def last_of_each(
    rows: Again, identity: Key, state: State, own: StreamKey, sequence_by: str | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that count.

    Args:
        rows: All rows.
        identity: The key.
        state: The version of the table, which says what its labels are.
        own: The stream of rows that say no label.
        sequence_by: The column whose highest value counts; None for the last row.

    Raises:
        Invalid: The rows lack a column, values of ``sequence_by`` have no order, or the rows differ
            when they are read again.
    """
    counts = _counting(rows, identity, state, own, sequence_by)
    first = 0
    for batch in rows:
        if first + len(batch) <= len(counts):
            yield batch.filter(pa.array(counts[first : first + len(batch)]))
        first += len(batch)
    if first != len(counts):
        raise Invalid(
            f"the rows were {len(counts):,} when they were read first, and {first:,} when they "
            "were read again: give a function that returns the same rows each time"
        )


def _counting(
    rows: Again, identity: Key, state: State, own: StreamKey, sequence_by: str | None
) -> npt.NDArray[np.bool_]:
    """Which rows count."""
    labels, schema = labels_of(state), state.definition.schema
    if sequence_by is not None:
        check_sequence(schema, sequence_by)
    needed = [*identity.columns, *([] if sequence_by is None else [sequence_by])]
    keys: list[pa.Array] = []
    streams: dict[StreamKey, int] = {}
    of: list[npt.NDArray[np.int64]] = []
    values: list[pa.Array] = []
    for batch in rows:
        missing = [name for name in needed if name not in batch.schema.names]
        if missing:
            what = "sequence_by names" if missing[0] == sequence_by else "the key has"
            raise Invalid(
                f"{what} {missing[0]!r}, which the rows do not have: "
                f"{', '.join(batch.schema.names)}"
            )
        cast = [column_like(batch.column(name), schema.field(name).type, name) for name in needed]
        keys.append(identities(cast[: len(identity.columns)]))
        places = np.zeros(len(batch), dtype=np.int64)
        for stream, _, which in by_labels(batch, labels, own):
            place = streams.setdefault(stream, len(streams))
            places[slice(None) if which is None else which.to_numpy(zero_copy_only=False)] = place
        of.append(places)
        if sequence_by is not None:
            values.append(cast[-1])
    if not keys:
        return np.zeros(0, dtype=bool)
    encoded = pa.chunked_array(keys).combine_chunks().dictionary_encode(null_encoding="encode")
    codes = encoded.indices.to_numpy().astype(np.int64) * max(1, len(streams)) + np.concatenate(of)
    if len(streams) > 1:
        codes = np.unique(codes, return_inverse=True)[1]
    ranks = np.arange(len(codes))
    if values:
        column = pa.chunked_array(values)
        by_value = pc.rank(column, tiebreaker="dense").to_numpy().astype(np.int64)
        by_value[column.is_null().to_numpy()] = 0
        ranks += by_value * len(codes)
    highest = np.full(int(codes.max(initial=-1)) + 1, -1, dtype=np.int64)
    np.maximum.at(highest, codes, ranks)
    counts: npt.NDArray[np.bool_] = ranks == highest[codes]
    return counts
