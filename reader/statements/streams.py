"""The streams of a statement's rows, by the labels that are read with each row.

Rules:
- A row that exists stays in its stream.
- A new row has the labels that the statement says of it, null for none. Those of which it says
  nothing are the table's own.
- A label that a column of the table hides is not read. Where the streams of existing rows differ
  by such labels alone, the statement is refused: its rows do not say which they are of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import pyarrow as pa

from blockstore.errors import Invalid
from blockstore.format.block import StreamKey
from blockstore.format.labels import check_labels
from blockstore.index.state import State
from blockstore.lazy import once
from blockstore.reader.statements.images import FIXED, Selected
from blockstore.rows.labelled import by_labels

Which: TypeAlias = "pa.Array | None"
"""Which rows of a batch are of a stream; None for all."""

_ROW = "_row"


class Streams:
    """Finds the streams of the rows of a SELECT of changes on one state."""

    def __init__(self, state: State, selected: Selected, own: StreamKey) -> None:
        """``own`` is the stream of new rows of which nothing is said."""
        self._state = state
        self._own = own
        self._labels = selected.labels
        first = FIXED + len(selected.columns) - len(selected.labels)
        self._places = range(first, first + len(self._labels))

    def existing(self, rows: pa.RecordBatch) -> Iterator[tuple[StreamKey, Which]]:
        """Yield the streams of rows that exist. Raises Invalid where rows do not say theirs."""
        for said, which in self._said(rows):
            found = self._known.get(said, [])
            if len(found) > 1:
                raise Invalid(
                    "the statement changes rows of several streams, which differ by labels that a "
                    f"query of them does not show ({_shown(found[0])} and {_shown(found[1])}): "
                    "nothing was changed, use update, delete, merge or upsert of Python"
                )
            yield found[0] if found else self._own, which

    def new(self, rows: pa.RecordBatch) -> Iterator[tuple[StreamKey, Which]]:
        """Yield the streams of new rows. Raises Invalid for a label that no row can have."""
        for said, which in self._said(rows):
            hidden = {name: value for name, value in self._own.labels if name not in self._labels}
            labels = {**hidden, **dict(said.labels)}
            check_labels(labels)
            yield StreamKey(tuple(sorted(labels.items())), self._own.resolution), which

    def _said(self, rows: pa.RecordBatch) -> Iterator[tuple[StreamKey, Which]]:
        """The labels that rows say, as streams."""
        if not self._labels:
            yield _NONE, None
            return
        columns = [rows.column(place) for place in self._places]
        said = pa.RecordBatch.from_arrays(columns, names=list(self._labels))
        numbered = said.append_column(_ROW, pa.nulls(len(said)))
        for stream, _, which in by_labels(numbered, self._labels, _NONE):
            yield stream, which

    @once
    def _known(self) -> Mapping[StreamKey, list[StreamKey]]:
        """The streams of the table by those of their labels that are read."""
        found: dict[StreamKey, list[StreamKey]] = {}
        for one in sorted(self._state.blocks.streams()):
            read = tuple((name, value) for name, value in one.labels if name in self._labels)
            found.setdefault(StreamKey(read, 0), []).append(one)
        return found


_NONE = StreamKey((), 0)


def _shown(stream: StreamKey) -> str:
    return str(dict(stream.labels)) + (
        f" of resolution {stream.resolution}" if stream.resolution else ""
    )


def those(rows: pa.RecordBatch, which: Which) -> pa.RecordBatch:
    """The rows of a batch that are meant."""
    return rows if which is None else rows.filter(which)
