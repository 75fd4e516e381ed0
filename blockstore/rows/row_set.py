"""Row sets: complete rows, those with an identity in place of the row that has it, the others new;
as one version, whatever their number.

Rules:
- Rows come batch by batch. New rows are written at once. Rows that name existing ones are held
  until there are a hundred thousand of them, or many bytes; then they are compared with those of
  the version at which the set was planned. So memory does not grow with the set, apart from the
  identities of rows that exist.
- A row id names its row whatever labels that has, and the row stays in its stream. A key names the
  row with the labels that the caller names, or else with the table's own; new rows have these too.
- A row that is as it was is left as it is. It is compared all the same: if others touch it before
  the commit, all is planned again.
- All rows are compared before the set is refused, so that the caller hears of all of them.
- A row that is not as its caller expects refuses the set: nothing of it is applied.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from blockstore.errors import Invalid, NotFound, RowConflict
from blockstore.format.block import StreamKey
from blockstore.format.casting import cast_batch
from blockstore.format.identity import ROW_ID, VERSION, Identity, RowIds
from blockstore.format.value_text import plain, row_text, value_text
from blockstore.index.entry import Operation
from blockstore.index.state import State
from blockstore.operations.access import Access
from blockstore.rows.again import Again
from blockstore.rows.attempts import Said, change_rows, identity_of
from blockstore.rows.labelled import by_labels, labels_of
from blockstore.rows.reading import column_like, ids_of, rows_with
from blockstore.rows.results import RowsChanged
from blockstore.rows.same import other_cells, same_rows
from blockstore.rows.streams import StreamChanges
from blockstore.rows.twice import finding_twice
from blockstore.scan.identities import identities

FAIL, REPLACE = "fail", "replace"
_WHAT = "a row set"
MOST_REFUSED = 1_000
"""So many refused rows are listed."""
_AT_ONCE = 100_000
_HELD_BYTES = 32 << 20
"""So many rows, or rows of so many bytes, are compared with the table at once."""
_SHOWN = 3


def put_rows(access: Access, data: Any, said: Said, *, on_conflict: str = REPLACE) -> RowsChanged:
    """Write complete rows, as one version.

    Args:
        access: A table whose rows have an identity.
        data: The rows, or a function that returns them, which is called for each plan.
        said: What the caller says of it.
        on_conflict: On a table with a key, what a row without a version does where its key exists:
            ``"replace"`` that row, or ``"fail"``.

    Raises:
        Invalid: A row does not fit, or one identity occurs twice.
        RowConflict: Rows have another version than expected; ``rows`` lists them, and ``places``
            their numbers in ``data``.
        NotFound: Rows that were named without a version do not exist.
    """
    identity_of(access.log.state.definition, _WHAT)
    if on_conflict not in (FAIL, REPLACE):
        raise Invalid(f'on_conflict is {on_conflict!r}, expected "replace" or "fail"')
    rows = Again(data)

    def write(state: State, changes: StreamChanges) -> RowsChanged:
        identity = identity_of(state.definition, _WHAT)
        look = _Look(access, state, identity, changes, fails=on_conflict == FAIL)
        for batch in rows:
            _check_named(batch, identity)
            look.take(batch)
        look.end()
        counted = isinstance(identity, RowIds) or on_conflict == FAIL or not look.inserted
        return RowsChanged(
            operation=str(Operation.UPSERT),
            updated=look.updated if counted else None,
            inserted=look.inserted if counted else None,
            unchanged=look.unchanged,
            cells=dict(look.cells) if counted else None,
        )

    with finding_twice(rows, access):
        return change_rows(access, Operation.UPSERT, write, said, reads=True)


def _check_named(batch: pa.RecordBatch, identity: Identity) -> None:
    missing = [name for name in identity.columns if name not in batch.schema.names]
    if missing:
        raise Invalid(
            f"the rows lack {missing[0]!r}, which identifies a row: add the column, null for new "
            "rows"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """Rows that are not compared yet: the table's columns, and what the caller says of them."""

    rows: pa.RecordBatch
    ids: pa.Array | None
    expected: pa.Array
    places: pa.Array


class _Look:
    """Takes the rows of a set, compares those that must be compared with the rows of a version, and
    writes those that are new or differ."""

    def __init__(
        self,
        access: Access,
        state: State,
        identity: Identity,
        changes: StreamChanges,
        *,
        fails: bool,
    ) -> None:
        self._access = access
        self._state = state
        self._identity = identity
        self._changes = changes
        self._labels = labels_of(state)
        self._fails = fails
        self._taken = 0
        self._held: dict[StreamKey | None, list[_Held]] = {}
        """By the stream that the rows say, or that their keys are of; None where their ids say
        it."""
        self._held_rows = 0
        self._held_bytes = 0
        self._refused: list[tuple[object, object, object]] = []
        self._places: list[int] = []
        self._count = 0
        self._unnamed = True
        """Whether no refused row was named with a version."""
        self.updated = 0
        self.inserted = 0
        self.unchanged = 0
        self.cells: Counter[str] = Counter()

    def take(self, batch: pa.RecordBatch) -> None:
        """Take rows, which follow those before."""
        first, self._taken = self._taken, self._taken + len(batch)
        names = batch.schema.names
        own = [name for name in names if name not in (ROW_ID, VERSION, *self._labels)]
        given = batch.column(VERSION) if VERSION in names else pa.nulls(len(batch), pa.int64())
        held = _Held(
            rows=cast_batch(batch.select(own), self._state.definition, first_row=first),
            ids=self._ids(batch),
            expected=column_like(given, pa.int64(), VERSION),
            places=pa.array(range(first, self._taken), pa.int64()),
        )
        for stream, _, which in by_labels(batch, self._labels, self._changes.own):
            if which is None:
                self._take(stream, held, said=False)
            else:
                self._take(stream, _of(held, which), said=True)
        if self._held_rows >= _AT_ONCE or self._held_bytes >= _HELD_BYTES:
            self._compare_all()

    def _take(self, stream: StreamKey, held: _Held, *, said: bool) -> None:
        named = held.expected.is_valid() if held.ids is None else held.ids.is_valid()
        if held.ids is not None or not self._fails:
            new = pc.invert(named)
            self._write(stream, held, new)
            self.inserted += pc.sum(new).as_py() or 0
            held = _of(held, named)
        if len(held.rows):
            by = None if held.ids is not None and not said else stream
            self._held.setdefault(by, []).append(held)
            self._held_rows += len(held.rows)
            self._held_bytes += held.rows.nbytes

    def end(self) -> None:
        """Compare and write what is left. Raises RowConflict and NotFound."""
        self._compare_all()
        if self._count:
            raise self._refusal()

    def _ids(self, batch: pa.RecordBatch) -> pa.Array | None:
        ids = ids_of(batch, self._identity)
        return None if ids is None else column_like(ids, pa.int64(), ROW_ID)

    def _compare_all(self) -> None:
        held, self._held = self._held, {}
        self._held_rows = self._held_bytes = 0
        for stream, some in held.items():
            self._compare(stream, _together(some))

    def _compare(self, stream: StreamKey | None, held: _Held) -> None:
        columns = [held.ids] if held.ids is not None else _key(held.rows, self._identity)
        values = identities(columns)
        names = self._identity.columns
        among = None if held.ids is not None else stream
        current = rows_with(self._access, self._state, names, values, among)
        own = identities([current.rows[name] for name in names])
        current = current.take(pc.index_in(values, value_set=own))
        there = current.rows
        found = there[VERSION].combine_chunks()
        bad = _bad(held.expected, found, by_id=held.ids is not None)
        for place in pc.indices_nonzero(bad).to_pylist():
            self._refuse(held, [plain(column[place]) for column in columns], place, found)
        named = found.is_valid()
        same = pc.and_(named, same_rows(held.rows, there, held.rows.schema.names))
        for one, which in current.each():
            if stream not in (None, one) and pc.any(pc.and_(which, named)).as_py():
                assert held.ids is not None, "a key is looked up in its own stream"
                _refuse_labels(held.ids.filter(which), one)
            changed = pc.and_not(which, same)
            as_it_was = pc.and_(which, same)
            self._changes.leave(one, [column.filter(as_it_was) for column in columns])
            self._write(one, held, changed, there.filter(changed))
        self.unchanged += pc.sum(same).as_py() or 0
        differ = pc.and_not(named, same)
        self.cells.update(
            other_cells(held.rows.filter(differ), there.filter(differ), held.rows.schema.names)
        )
        self.updated += pc.sum(differ).as_py() or 0
        self.inserted += pc.sum(pc.invert(named)).as_py() or 0

    def _write(
        self, stream: StreamKey, held: _Held, which: pa.Array, was: pa.Table | None = None
    ) -> None:
        """Write some rows; none once the set is refused."""
        if not self._count:
            some = _of(held, which)
            if len(some.rows):
                self._changes.put(stream, some.rows, some.ids, was=was, places=some.places)

    def _refuse(self, held: _Held, key: list[object], place: int, found: pa.Array) -> None:
        self._count += 1
        expected = held.expected[place].as_py()
        self._unnamed = self._unnamed and expected is None
        if len(self._refused) < MOST_REFUSED:
            one = key[0] if len(key) == 1 else tuple(key)
            self._refused.append((one, expected, found[place].as_py()))
            self._places.append(held.places[place].as_py())

    def _refusal(self) -> Exception:
        shown = ", ".join(map(_shown, self._refused[:_SHOWN]))
        more = ", …" if self._count > _SHOWN else ""
        if self._unnamed and isinstance(self._identity, RowIds):
            return NotFound(
                f"{self._count:,} of the rows are not in the table at version "
                f"{self._state.version}: {shown}{more}; nothing was applied"
            )
        return RowConflict(
            f"{self._count:,} of the rows are not as this row set expects: {shown}{more}; nothing "
            "was applied, read them again",
            rows=self._refused,
            places=self._places,
        )


def _refuse_labels(ids: pa.Array, stream: StreamKey) -> None:
    raise Invalid(
        f"row {ids[0]} has the labels {value_text(dict(stream.labels))}, and these rows say "
        "others: labels of a row never change; leave the columns of labels as they are, or leave "
        "them out"
    )


def _of(held: _Held, which: pa.Array) -> _Held:
    """Those of the rows."""
    return _Held(
        rows=held.rows.filter(which),
        ids=None if held.ids is None else held.ids.filter(which),
        expected=held.expected.filter(which),
        places=held.places.filter(which),
    )


def _together(held: list[_Held]) -> _Held:
    rows = pa.Table.from_batches([one.rows for one in held]).combine_chunks().to_batches()
    ids = [one.ids for one in held if one.ids is not None]
    return _Held(
        rows=rows[0],
        ids=pa.concat_arrays(ids) if ids else None,
        expected=pa.concat_arrays([one.expected for one in held]),
        places=pa.concat_arrays([one.places for one in held]),
    )


def _key(rows: pa.RecordBatch, identity: Identity) -> list[pa.Array]:
    return [rows.column(name) for name in identity.columns]


def _bad(expected: pa.Array, found: pa.Array, *, by_id: bool) -> pa.Array:
    """The rows that are not as expected: one with a version has it, one without is there if it has
    an id, and is not there if it has a key."""
    differs = pc.fill_null(pc.not_equal(expected, found), True)
    alone = found.is_null() if by_id else found.is_valid()
    return pc.if_else(expected.is_valid(), differs, alone)


def _shown(refused: tuple[object, object, object]) -> str:
    key, expected, found = refused
    one = row_text(key)
    if expected is None:
        return f"{one}" if found is None else f"row {one} is new and exists at version {found}"
    now = "is not in the table" if found is None else f"has version {found}"
    return f"row {one} was read at version {expected} and {now}"
