"""Row sets: complete rows, those with an identity in place of the row that has it, the others new;
as one version, whatever their number.

Rules:
- Rows are written as they come, and are not kept. Of a row that names an existing one, its identity
  and the expected version are kept until a million of them are compared with the table, at the
  version at which the set was planned.
- All rows are compared before the set is refused, so that the caller hears of all of them.
- A row that is not as its caller expects refuses the set: nothing of it is applied.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from blockstore.errors import Invalid, NotFound, RowConflict
from blockstore.format.identity import ROW_ID, VERSION, Identity, RowIds
from blockstore.index.entry import Operation
from blockstore.index.state import State
from blockstore.operations.access import Access
from blockstore.rows.again import Again
from blockstore.rows.attempts import Said, change_rows, identity_of
from blockstore.rows.block import ChangesWriter
from blockstore.rows.reading import column_like, ids_of, versions_of
from blockstore.rows.results import RowsChanged
from blockstore.scan.identities import identities

FAIL, REPLACE = "fail", "replace"
MOST_REFUSED = 1_000
"""So many refused rows are listed."""
_AT_ONCE = 1_000_000
"""So many rows are compared with the table at once."""
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
    identity = identity_of(access.log.state.definition, "a row set")
    if on_conflict not in (FAIL, REPLACE):
        raise Invalid(f'on_conflict is {on_conflict!r}, expected "replace" or "fail"')
    rows = Again(data)

    def write(state: State, writer: ChangesWriter) -> RowsChanged:
        look = _Look(access, state, identity, fails=on_conflict == FAIL)
        for batch in rows:
            _check_named(batch, identity)
            own = [name for name in batch.schema.names if name not in (ROW_ID, VERSION)]
            look.take(batch, writer.rows)
            writer.put(batch.select(own), ids_of(batch, identity))
        look.end()
        fresh = writer.rows - look.named
        counted = isinstance(identity, RowIds) or on_conflict == FAIL or not fresh
        return RowsChanged(
            operation=str(Operation.UPSERT),
            updated=look.named if counted else None,
            inserted=fresh if counted else None,
        )

    return change_rows(access, Operation.UPSERT, write, said, reads=True)


def _check_named(batch: pa.RecordBatch, identity: Identity) -> None:
    missing = [name for name in identity.columns if name not in batch.schema.names]
    if missing:
        raise Invalid(
            f"the rows lack {missing[0]!r}, which identifies a row: add the column, null for new "
            "rows"
        )


@dataclass(slots=True)
class _Waiting:
    """Rows that are not compared yet, by column."""

    identity: list[list[pa.Array]] = field(default_factory=list)
    expected: list[pa.Array] = field(default_factory=list)
    places: list[pa.Array] = field(default_factory=list)
    rows: int = 0


class _Look:
    """Compares the rows of a set with those of a version."""

    def __init__(self, access: Access, state: State, identity: Identity, *, fails: bool) -> None:
        self._access = access
        self._state = state
        self._identity = identity
        self._fails = fails
        self._waiting = _Waiting()
        self._refused: list[tuple[object, object, object]] = []
        self._places: list[int] = []
        self._count = 0
        self._unnamed = True
        """Whether no refused row was named with a version."""
        self.named = 0
        """Rows that replace one."""

    def take(self, batch: pa.RecordBatch, first: int) -> None:
        """Take rows, of which the first has this number in the set."""
        names = batch.schema.names
        given = batch.column(VERSION) if VERSION in names else pa.nulls(len(batch), pa.int64())
        expected = column_like(given, pa.int64(), VERSION)
        by_id = isinstance(self._identity, RowIds)
        named = batch.column(ROW_ID).is_valid() if by_id else expected.is_valid()
        self.named += pc.sum(named).as_py() or 0
        asked = named if by_id or not self._fails else pa.repeat(pa.scalar(True), len(batch))
        places = pc.indices_nonzero(asked)
        if not len(places):
            return
        kinds = self._state.definition.schema
        columns = [
            column_like(
                batch.column(name).take(places),
                pa.int64() if name == ROW_ID else kinds.field(name).type,
                name,
            )
            for name in self._identity.columns
        ]
        self._waiting.identity.append(columns)
        self._waiting.expected.append(expected.take(places))
        self._waiting.places.append(pc.add(places.cast(pa.int64()), first))
        self._waiting.rows += len(places)
        if self._waiting.rows >= _AT_ONCE:
            self._compare()

    def end(self) -> None:
        """Compare what is left. Raises RowConflict and NotFound."""
        if self._waiting.rows:
            self._compare()
        if self._count:
            raise self._refusal()

    def _compare(self) -> None:
        waiting, self._waiting = self._waiting, _Waiting()
        columns = [pa.concat_arrays(list(one)) for one in zip(*waiting.identity, strict=True)]
        values = identities(columns)
        expected, places = pa.concat_arrays(waiting.expected), pa.concat_arrays(waiting.places)
        own, versions = versions_of(self._access, self._state, self._identity, values)
        found = versions.take(pc.index_in(values, value_set=own))
        for place in _bad(expected, found, by_id=isinstance(self._identity, RowIds)):
            self._count += 1
            if expected[place].is_valid:
                self._unnamed = False
            if len(self._refused) < MOST_REFUSED:
                key = tuple(column[place].as_py() for column in columns)
                one = key[0] if len(key) == 1 else key
                self._refused.append((one, expected[place].as_py(), found[place].as_py()))
                self._places.append(places[place].as_py())

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


def _bad(expected: pa.Array, found: pa.Array, *, by_id: bool) -> Iterator[int]:
    """The places of rows that are not as expected: one with a version has it, one without is there
    if it has an id, and is not there if it has a key."""
    differs = pc.fill_null(pc.not_equal(expected, found), True)
    alone = found.is_null() if by_id else found.is_valid()
    yield from pc.indices_nonzero(pc.if_else(expected.is_valid(), differs, alone)).to_pylist()


def _shown(refused: tuple[object, object, object]) -> str:
    one, expected, found = refused
    if expected is None:
        return f"{one!r}" if found is None else f"row {one!r} is new and exists at version {found}"
    now = "is not in the table" if found is None else f"has version {found}"
    return f"row {one!r} was read at version {expected} and {now}"
