"""Changes of some cells of given rows, with new rows and rows to delete (a partial row set).

Rules:
- All of it is one version, or nothing is applied.
- A row that is not current is NotFound, and nothing of the set is applied. Where the caller names
  the version that it has read, another one is a conflict that names the row.
- A row id names its row whatever labels that has, and the row stays in its stream. A key names the
  row with the labels that the caller names, or else with the table's own.
- A cell that is left out keeps its value; one that is null becomes null. A row of which no cell
  changes is left as it is: it gets no version, and is counted as unchanged.
- Where others changed other cells meanwhile, the cells are applied to the new image: both changes
  survive, and rules of columns are checked again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from blockstore.errors import Invalid, NotFound, RowConflict
from blockstore.format.block import StreamKey
from blockstore.format.definition import Definition
from blockstore.format.identity import ROW_ID, VERSION, Identity, Key, RowIds
from blockstore.format.value_text import plain_values, row_text
from blockstore.index.entry import Operation
from blockstore.index.state import State
from blockstore.operations.access import Access
from blockstore.rows.again import Again
from blockstore.rows.attempts import Said, change_rows, identity_of, refuse_labels
from blockstore.rows.insert import check_new
from blockstore.rows.labelled import labels_of, streams_of, with_labels
from blockstore.rows.reading import Found, column_like, rows_with
from blockstore.rows.results import RowsChanged
from blockstore.rows.same import same_rows
from blockstore.rows.streams import StreamChanges
from blockstore.rows.twice import finding_twice
from blockstore.scan.identities import identities

_WHAT = "a change of cells"
_SHOWN = 1_000

Row = Mapping[str, Any]
"""A row's identity, perhaps the ``_version`` that was read, and cells, by column."""


def set_cells(
    access: Access,
    rows: Iterable[Row],
    said: Said,
    *,
    new: Any = None,
    delete: Iterable[Row] = (),
) -> RowsChanged:
    """Change the named cells of rows, add rows and delete rows, as one version.

    Args:
        access: A table whose rows have an identity.
        rows: The rows whose cells change.
        said: What the caller says of it.
        new: Complete rows to add, as ``Table.append`` takes them; their keys must not exist.
        delete: Rows to delete: each names its identity, and perhaps the version that was read.

    Raises:
        Invalid: A row names no identity or an unknown column, a value does not fit, or a row is
            named twice.
        NotFound: A row is not current.
        RowConflict: A row has another version than the caller has read, or the key of a new row
            exists.
    """
    listed, gone = _listed(rows), _listed(delete)
    fresh = Again([] if new is None else new)
    refuse_labels(identity_of(access.log.state.definition, _WHAT), said, _WHAT)

    def write(state: State, changes: StreamChanges) -> RowsChanged:
        identity = identity_of(state.definition, _WHAT)
        labels, unchanged = labels_of(state), 0
        alike = _alike(listed, identity, state.definition, labels, changes.own)
        for (cells, stream), some in alike.items():
            given = _given(some, (*identity.columns, *cells), state.definition)
            found = _current(access, state, identity, given, some, stream)
            columns = [
                given[field.name]
                if field.name in cells
                else found.rows[field.name].combine_chunks()
                for field in state.definition.schema
            ]
            batch = pa.RecordBatch.from_arrays(columns, schema=state.definition.schema)
            same = same_rows(batch, found.rows, cells)
            unchanged += pc.sum(same).as_py() or 0
            for one, which in found.each():
                left, own = pc.and_(which, same), pc.and_not(which, same)
                changes.leave(one, [given[name].filter(left) for name in identity.columns])
                if pc.any(own).as_py():
                    ids = given[ROW_ID].filter(own) if isinstance(identity, RowIds) else None
                    changes.put(one, batch.filter(own), ids, was=found.rows.filter(own))
        updated = changes.rows
        for one, batch in streams_of(fresh, state, changes.own):
            if isinstance(identity, Key):
                check_new(access, state, batch, identity, one)
            changes.put(one, batch)
        inserted = changes.rows - updated
        for one, keys in _found(access, state, identity, gone, changes.own):
            changes.delete(one, keys)
        return RowsChanged(
            operation=str(Operation.UPDATE),
            updated=updated,
            inserted=inserted,
            deleted=len(gone),
            unchanged=unchanged,
        )

    with (
        finding_twice(_identities_of(listed, access), access),
        finding_twice(_identities_of(gone, access), access),
        finding_twice(_fresh_of(fresh, access), access),
    ):
        return change_rows(access, Operation.UPDATE, write, said, reads=True)


def _listed(rows: Any) -> list[Row]:
    """The rows, one by one. Raises Invalid for what are none."""
    kind = type(rows)
    if hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__"):
        raise _no_rows(f"a {kind.__module__.partition('.')[0]} {kind.__qualname__}")
    if not isinstance(rows, Iterable) or isinstance(rows, Mapping | str | bytes):
        raise _no_rows(f"a {kind.__qualname__}")
    found: list[Row] = []
    for place, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise _no_rows(f"{row!r:.100} in row {place} of the set")
        found.append(dict(row))
    return found


def _no_rows(found: str) -> Invalid:
    return Invalid(
        f"the rows are {found}, expected a list of one dict for each row, with what identifies it "
        "and the cells to change; of an Arrow table make one with to_pylist()"
    )


def _fresh_of(rows: Again, access: Access) -> Iterator[pa.RecordBatch]:
    """New rows, if they have an identity yet."""
    if isinstance(access.log.state.definition.identity, Key):
        yield from rows


def _identities_of(rows: Sequence[Row], access: Access) -> Iterator[pa.RecordBatch]:
    """The rows' identities, and what they say of labels; made only if they are asked for."""
    definition = access.log.state.definition
    identity = identity_of(definition, _WHAT)
    labels = {name for row in rows for name in row} - {*definition.schema.names, ROW_ID, VERSION}
    given = _given(rows, identity.columns, definition)
    said = {name: pa.array([row.get(name) for row in rows], pa.string()) for name in labels}
    yield pa.RecordBatch.from_pydict({**given, **said})


def _found(
    access: Access, state: State, identity: Identity, rows: Sequence[Row], own: StreamKey
) -> Iterator[tuple[StreamKey, pa.RecordBatch]]:
    """Yield the identities of current rows that are named without cells, by stream. Raises as
    ``set_cells``."""
    alike = _alike(rows, identity, state.definition, labels_of(state), own)
    for (cells, stream), some in alike.items():
        if cells:
            raise Invalid(
                f"a row to delete names the cell {cells[0]!r}: name what identifies the row, and "
                "perhaps its _version"
            )
        given = _given(some, identity.columns, state.definition)
        found = _current(access, state, identity, given, some, stream)
        keys = pa.RecordBatch.from_pydict(given)
        for one, which in found.each():
            yield one, keys.filter(which)


def _alike(
    rows: Sequence[Row],
    identity: Identity,
    definition: Definition,
    labels: Sequence[str],
    own: StreamKey,
) -> dict[tuple[tuple[str, ...], StreamKey | None], list[Row]]:
    """The rows by the cells that they name, and by their stream; None where an id says it."""
    alike: dict[tuple[tuple[str, ...], StreamKey | None], list[Row]] = {}
    by_key = [] if isinstance(identity, RowIds) else labels
    for place, row in enumerate(rows):
        for name in identity.columns:
            if row.get(name) is None:
                raise Invalid(
                    f"row {place} of the set has no {name!r}, which identifies a row: name it",
                    row=place,
                )
        cells = tuple(sorted(row.keys() - {*identity.columns, VERSION, *by_key}))
        strange = [name for name in cells if name not in definition.schema.names]
        if strange:
            raise Invalid(
                f"row {place} of the set names {strange[0]!r}, which the table does not have; its "
                f"columns are {', '.join(definition.schema.names)}",
                row=place,
            )
        said = {name: row[name] for name in by_key if name in row}
        stream = None if isinstance(identity, RowIds) else with_labels(own, said)
        alike.setdefault((cells, stream), []).append(row)
    return alike


def _given(
    rows: Sequence[Row], names: Sequence[str], definition: Definition
) -> dict[str, pa.Array]:
    kinds = {ROW_ID: pa.int64(), **{field.name: field.type for field in definition.schema}}
    return {
        name: column_like([row[name] for row in rows], kinds[name], name)
        for name in dict.fromkeys(names)
    }


def _keys(columns: Sequence[pa.Array]) -> list[object]:
    """Each row's id or key; a tuple for a key of several columns."""
    if len(columns) == 1:
        return plain_values(columns[0])
    return list(zip(*map(plain_values, columns), strict=True))


def _current(
    access: Access,
    state: State,
    identity: Identity,
    given: Mapping[str, pa.Array],
    rows: Sequence[Row],
    stream: StreamKey | None,
) -> Found:
    """The current rows of these identities, in their order; of one stream, or of all. Raises
    NotFound and RowConflict."""
    values = identities([given[name] for name in identity.columns])
    found = rows_with(access, state, identity.columns, values, stream)
    own = identities([found.rows[name] for name in identity.columns])
    places = pc.index_in(values, value_set=own)
    shown = _keys([given[name] for name in identity.columns])
    if places.null_count:
        lost = [one for one, place in zip(shown, places.to_pylist(), strict=True) if place is None]
        raise NotFound(
            f"{len(lost):,} of the rows are not in the table at version {state.version}: "
            f"{', '.join(map(row_text, lost[:3]))}{', …' if len(lost) > 3 else ''}; nothing was "
            "applied"
        )
    found = found.take(places)
    stale = [
        (one, row[VERSION], version)
        for one, row, version in zip(shown, rows, found.rows[VERSION].to_pylist(), strict=True)
        if row.get(VERSION) not in (None, version)
    ]
    if stale:
        one, expected, version = stale[0]
        raise RowConflict(
            f"{len(stale):,} of the rows were changed since they were read: row {row_text(one)} "
            f"was read at version {expected} and has version {version} now; nothing was applied, "
            "read them again",
            rows=stale[:_SHOWN],
        )
    return found
