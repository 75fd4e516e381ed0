"""MERGE: source rows are matched with current rows, which are then updated or deleted, and source
rows without a match inserted; one version.

Rules:
- Clauses are tried in the order in which they were named, and the first whose condition is true for
  a row decides. A matched row of which no clause speaks stays as it is.
- Of the target it reads the rows whose keys may be among the source's, and with a clause of rows
  by source all of them; where the source has new values for all columns, only their keys.
- Rows of all streams are matched, and keep their labels; ``on`` may name labels. Inserted rows have
  the labels that they say, or those of the call, or the table's own.
- A null matches nothing, as in SQL, and no more does a value that the table's column cannot have.
- Where its isolation is ``serializable``, all rows of the keys were read, also those that stay as
  they are, and those that do not exist; with a clause of rows by source, the complete table.
- A row that is inserted replaces none: a key that exists is a conflict, unless ``on`` has already
  found that it does not.
- A row of the target that several source rows would change is an error: which of them counts would
  be a matter of chance. Several may match it, if for one of them at most a clause is true.
- A column of which an inserted row says nothing has its default, or null.
- Conditions and values are expressions over the columns ``target.<name>`` and ``source.<name>``; a
  text of that form means the column.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from blockstore.errors import Invalid
from blockstore.files.named import columns_with_files
from blockstore.format.block import StreamKey
from blockstore.format.casting import defaults_in
from blockstore.format.identity import Key
from blockstore.format.value_text import plain, plain_keys, row_text, value_text
from blockstore.index.entry import Operation
from blockstore.index.state import State
from blockstore.operations.access import Access
from blockstore.operations.incoming import table_of
from blockstore.predicate import Predicate
from blockstore.rows.attempts import Said, change_rows, identity_of
from blockstore.rows.insert import check_new
from blockstore.rows.joined import joined_rows, of_side
from blockstore.rows.labelled import by_labels, labels_of
from blockstore.rows.merge_rules import KEY_EXISTS, refuse_other_case
from blockstore.rows.reading import (
    current_rows,
    gathered,
    identities_of,
    ids_of,
    likely_rows,
    range_of,
    schema_of,
)
from blockstore.rows.results import RowsChanged
from blockstore.rows.source_keys import Pairs, SourceKeys
from blockstore.rows.streams import StreamChanges
from blockstore.rows.update import Value, evaluated
from blockstore.scan.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

_PAIRS = 500_000
"""So many pairs of rows are compared at once, where several source rows match one row."""
_MATCHED, _UNMATCHED, _BY_SOURCE = "matched", "not matched", "not matched by source"


@dataclass(frozen=True, slots=True)
class _Clause:
    of: str
    values: Mapping[str, Value] | None
    """New values by column; None deletes, or takes all columns of the source."""
    deletes: bool
    condition: pc.Expression | None


@dataclass(frozen=True, slots=True)
class _Sink:
    """Takes the changes of rows of one stream."""

    changes: StreamChanges
    stream: StreamKey

    def put(self, rows: pa.RecordBatch, ids: pa.Array | None, was: pa.RecordBatch) -> None:
        self.changes.put(self.stream, rows, ids, was=was)

    def delete(self, keys: pa.RecordBatch) -> None:
        self.changes.delete(self.stream, keys)


class Merge:
    """A merge that is being said; ``execute`` carries it out. Made by ``Table.merge``."""

    def __init__(self, access: Access, source: Any, on: str | Iterable[str], said: Said) -> None:
        self._access = access
        self._source = table_of(source)
        self._on = (on,) if isinstance(on, str) else tuple(on)
        self._said = said
        self._clauses: list[_Clause] = []
        self._identity = identity_of(access.log.state.definition, "a merge")
        for name in self._on or ("",):
            if name not in self._source.schema.names:
                raise Invalid(
                    f"the merge is on {name!r}, which the source does not have: "
                    f"{', '.join(self._source.schema.names)}"
                )

    def when_matched_update(
        self,
        set: Mapping[str, Value] | None = None,  # noqa: A002
        *,
        condition: pc.Expression | None = None,
    ) -> Merge:
        """Give matched rows new values: those of ``set``, or all columns of the source."""
        return self._with(_Clause(_MATCHED, set, False, condition))

    def when_matched_delete(self, *, condition: pc.Expression | None = None) -> Merge:
        """Delete matched rows."""
        return self._with(_Clause(_MATCHED, None, True, condition))

    def when_not_matched_insert(
        self, values: Mapping[str, Value] | None = None, *, condition: pc.Expression | None = None
    ) -> Merge:
        """Insert source rows without a match: ``values``, or all columns of the source."""
        return self._with(_Clause(_UNMATCHED, values, False, condition))

    def when_not_matched_by_source_update(
        self,
        set: Mapping[str, Value],  # noqa: A002
        *,
        condition: pc.Expression | None = None,
    ) -> Merge:
        """Give new values to rows that no source row matches."""
        return self._with(_Clause(_BY_SOURCE, set, False, condition))

    def when_not_matched_by_source_delete(self, *, condition: pc.Expression | None = None) -> Merge:
        """Delete rows that no source row matches."""
        return self._with(_Clause(_BY_SOURCE, None, True, condition))

    def execute(self) -> RowsChanged:
        """Carry it out, as one version. Raises Invalid, RowConflict, Unavailable or Indeterminate;
        then nothing was applied."""
        if not self._clauses:
            raise Invalid("the merge has nothing to do: name a clause, as when_matched_update")
        return change_rows(self._access, Operation.MERGE, self._write, self._said, reads=True)

    def _with(self, clause: _Clause) -> Merge:
        self._clauses.append(clause)
        return self

    def _check_names(self, state: State) -> None:
        """Raise Invalid for a merge on, or a clause that sets, what the table does not have."""
        there = schema_of(state).names
        for name in self._on:
            if name not in there:
                raise Invalid(
                    f"the merge is on {name!r}, which the table does not have; its columns are "
                    f"{', '.join(there)}"
                )
        for clause in self._clauses:
            labels = labels_of(state) if clause.of == _UNMATCHED else ()
            known = [*state.definition.schema.names, *labels]
            strange = [name for name in clause.values or () if name not in known]
            if strange:
                raise Invalid(
                    f"the merge sets {strange[0]!r}, which the table does not have; its columns "
                    f"are {', '.join(known)}"
                )
            if clause.values is None and not clause.deletes:
                refuse_other_case(self._source.schema.names, [*known, *labels_of(state)])
            for name, value in (clause.values or {}).items():
                if isinstance(value, str):
                    self._check_reference(clause, name, value, there)

    def _check_reference(
        self, clause: _Clause, name: str, value: str, there: Sequence[str]
    ) -> None:
        """Raise Invalid for a text that has the form of a column's name, and names none. As a value
        it would be stored."""
        side, dot, column = value.partition(".")
        columns = {"source": self._source.schema.names, "target": there}.get(side)
        if not dot or columns is None:
            return
        if clause.of == (_BY_SOURCE if side == "source" else _UNMATCHED):
            why = f"a row that is {clause.of} has no {side} row"
        elif column not in columns:
            why = f"the {side} has no column {column!r}: it has {', '.join(columns)}"
        else:
            return
        raise Invalid(
            f"the merge sets {name!r} to {value!r}, and {why}; if this text itself is the value, "
            "say pyarrow.compute.scalar(…)"
        )

    def _of(self, kind: str) -> list[_Clause]:
        return [clause for clause in self._clauses if clause.of == kind]

    def _write(self, state: State, changes: StreamChanges) -> RowsChanged:
        self._identity = identity_of(state.definition, "a merge")
        self._check_names(state)
        keys = SourceKeys.of(self._source, self._on, schema_of(state))
        counts = Counter[str]()
        named = self._see_keys(state, changes, keys)
        for stream, target in self._targets(state, keys.values):
            matched, pairs = keys.match(identities_of(target, self._on))
            if changes.seen is not None and not named:
                mine = target.filter(matched)
                changes.seen.rows(stream, [mine.column(name) for name in self._identity.columns])
            sink = _Sink(changes, stream)
            if len(pairs):
                self._apply_matched(state, sink, target.filter(matched), pairs, counts)
            if by_source := self._of(_BY_SOURCE):
                rest = joined_rows(target.filter(pc.invert(matched)), None)
                self._apply(state, sink, by_source, rest, counts)
        joined = joined_rows(None, self._source.filter(keys.fresh()))
        self._apply(state, _Sink(changes, changes.own), self._of(_UNMATCHED), joined, counts)
        return RowsChanged(
            operation=str(Operation.MERGE),
            inserted=counts["inserted"],
            updated=counts["updated"],
            deleted=counts["deleted"],
            unchanged=counts["unchanged"],
        )

    def _targets(self, state: State, keys: pa.Array) -> Iterator[tuple[StreamKey, pa.RecordBatch]]:
        """The rows that matter, those of each stream: many together, since the keys are prepared
        once for each."""
        parts: Iterator[tuple[StreamKey, pa.Table]]
        if self._of(_BY_SOURCE):
            read = groupby(current_rows(self._access, state), lambda pair: pair[0])
            parts = (
                (stream, some)
                for stream, rows in read
                for some in gathered((batch for _, batch in rows), len(keys))
            )
        else:
            needed = self._columns(state)
            parts = likely_rows(self._access, state, self._on, keys, None, needed)
        for stream, some in parts:
            for batch in some.combine_chunks().to_batches():
                yield stream, batch

    def _columns(self, state: State) -> list[str] | None:
        """The columns of matched rows that are read; None for all. Where the source has new values
        for all columns, the others of the target would be read in vain."""
        definition = state.definition
        whole = set(definition.schema.names) <= set(self._source.schema.names)
        for clause in self._of(_MATCHED):
            takes = clause.deletes or (clause.values is None and whole)
            if clause.condition is not None or not takes:
                return None
        needed = {*self._on, *self._identity.columns, *labels_of(state)}
        needed |= {*columns_with_files(definition)}
        return [name for name in schema_of(state).names if name in needed]

    def _see_keys(self, state: State, changes: StreamChanges, keys: SourceKeys) -> bool:
        """Note which rows this merge looks for; return whether that names those that it matches."""
        seen = changes.seen
        if seen is None:
            return False
        if self._of(_BY_SOURCE):
            seen.everything()
        elif isinstance(self._identity, Key) and self._on == self._identity.columns:
            seen.keys([*state.blocks.streams(), changes.own], keys.whole())
            return True
        elif len(keys.values):
            seen.where(range_of(Snapshot.of(state), self._on, keys.values) or Predicate())
        return False

    def _apply_matched(
        self,
        state: State,
        sink: _Sink,
        target: pa.RecordBatch,
        pairs: Pairs,
        counts: Counter[str],
    ) -> None:
        """Apply the clauses of matched rows to rows of the table, each matched by some rows of the
        source. Raises Invalid for one that several of these would change."""
        clauses = self._of(_MATCHED)
        if not clauses:
            counts["unchanged"] += len(target)
        elif pairs.single:
            joined = joined_rows(target, self._source.take(pa.array(pairs.one())))
            self._apply(state, sink, clauses, joined, counts)
        elif any(clause.condition is None for clause in clauses):
            raise self._changed_twice(pairs.two())
        else:
            for piece, own, source in pairs.pieces(_PAIRS):
                rows = target.slice(piece.start, piece.stop - piece.start)
                joined = joined_rows(rows.take(pa.array(own)), self._source.take(pa.array(source)))
                met = [_meets(clause.condition, joined) for clause in clauses]
                fires = functools.reduce(pc.or_, met)
                which = fires.to_numpy(zero_copy_only=False)
                times = np.bincount(own[which], minlength=len(rows))
                if (times > 1).any():
                    raise self._changed_twice(source[which & (times[own] > 1)][0])
                counts["unchanged"] += int((times == 0).sum())
                self._apply(state, sink, clauses, joined.filter(fires), counts)

    def _changed_twice(self, source: int | None) -> Invalid:
        key = plain_keys(self._source.slice(source or 0, 1).select(list(self._on)))[0]
        return Invalid(
            f"several source rows match the row with {', '.join(self._on)} = {row_text(key)}, "
            "and each would change it: keep one of them"
        )

    def _apply(
        self,
        state: State,
        sink: _Sink,
        clauses: list[_Clause],
        rows: pa.RecordBatch,
        counts: Counter[str],
    ) -> None:
        for clause in clauses:
            meets = _meets(clause.condition, rows)
            self._carry_out(state, sink, clause, rows.filter(meets), counts)
            rows = rows.filter(pc.invert(meets))
        if any(name.startswith("target.") for name in rows.schema.names):
            counts["unchanged"] += rows.num_rows

    def _carry_out(
        self,
        state: State,
        sink: _Sink,
        clause: _Clause,
        rows: pa.RecordBatch,
        counts: Counter[str],
    ) -> None:
        if not rows.num_rows:
            return
        own = of_side(rows, "target.")
        if clause.deletes:
            sink.delete(own.select(list(self._identity.columns)))
            counts["deleted"] += rows.num_rows
            return
        schema = state.definition.schema
        defaults = defaults_in(state.definition)
        columns = [self._value(clause, rows, field, defaults) for field in schema]
        fresh = pa.RecordBatch.from_arrays(columns, schema=schema)
        if clause.of == _UNMATCHED:
            for name in labels_of(state):
                if _says(clause, rows, name):
                    value = self._value(clause, rows, pa.field(name, pa.string()), {})
                    fresh = fresh.append_column(name, value)
            for stream, some, _ in by_labels(fresh, labels_of(state), sink.stream):
                if isinstance(self._identity, Key) and not self._are_new(clause):
                    check_new(self._access, state, some, self._identity, stream, remedy=KEY_EXISTS)
                sink.changes.put(stream, some)
            counts["inserted"] += rows.num_rows
        else:
            self._refuse_moved(fresh, own)
            for name in labels_of(state) if clause.values is None else ():
                _refuse_other_label(rows, name)
            sink.put(fresh, ids_of(own, self._identity), own)
            counts["updated"] += rows.num_rows

    def _are_new(self, clause: _Clause) -> bool:
        """Whether rows that a clause inserts can have no key that exists: they have the values by
        which no row was found, and these are of the key. Any other column of ``on``, or another
        value, says nothing of the key."""
        values = clause.values
        return set(self._on) <= set(self._identity.columns) and (
            values is None
            or all(_is_column(values.get(name), "source." + name) for name in self._on)
        )

    def _refuse_moved(self, fresh: pa.RecordBatch, own: pa.RecordBatch) -> None:
        """Raise Invalid for a row that would get another key, which is another row's."""
        for name in self._identity.columns if isinstance(self._identity, Key) else ():
            same = pc.equal(fresh.column(name), own.column(name))
            if not pc.all(same).as_py():
                at = pc.index(same, False).as_py()
                before = value_text(plain(own.column(name)[at]))
                after = value_text(plain(fresh.column(name)[at]))
                raise Invalid(
                    f"the merge gives the row with {name} = {before} the {name} {after}, and "
                    f"{name!r} is part of the key: delete the row, and insert one with the new key"
                )

    def _value(
        self,
        clause: _Clause,
        rows: pa.RecordBatch,
        field: pa.Field,
        defaults: Mapping[str, pa.Scalar],
    ) -> pa.Array:
        values, name = clause.values, field.name
        if values is None and "source." + name in rows.schema.names:
            value: Value = pc.field("source." + name)
        elif values is not None and name in values:
            value = values[name]
            if isinstance(value, str) and value in rows.schema.names:
                value = pc.field(value)
        elif "target." + name in rows.schema.names:
            value = pc.field("target." + name)
        elif name in defaults:
            return pa.repeat(defaults[name], rows.num_rows)
        else:
            value = None
        return evaluated(value, rows, field)


def _is_column(value: Value, name: str) -> bool:
    if isinstance(value, pc.Expression):
        return bool(value.equals(pc.field(name)))
    return isinstance(value, str) and value == name


def _says(clause: _Clause, rows: pa.RecordBatch, name: str) -> bool:
    """Whether new rows say a label themselves."""
    if clause.values is None:
        return "source." + name in rows.schema.names
    return name in clause.values


def _refuse_other_label(rows: pa.RecordBatch, name: str) -> None:
    """Raise Invalid for a matched row whose source row says another label."""
    if "source." + name not in rows.schema.names:
        return
    said = evaluated(pc.field("source." + name), rows, pa.field(name, pa.string()))
    here = rows.column("target." + name)
    same = pc.equal(pc.fill_null(said, ""), pc.fill_null(here, ""))
    if not pc.all(pc.and_(same, pc.equal(said.is_null(), here.is_null()))).as_py():
        raise Invalid(
            f"a source row says another {name} than the row that it matches, and labels of a row "
            f"never change: match on {name!r} too, or name the columns to update"
        )


def _meets(condition: pc.Expression | None, rows: pa.RecordBatch) -> pa.Array:
    if condition is None:
        return pa.repeat(pa.scalar(True), rows.num_rows)
    found = evaluated(condition, rows, pa.field("the condition", pa.bool_()))
    return found.fill_null(False)
