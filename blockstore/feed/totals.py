"""Totals of a table by groups, kept up to date from its changes: a table of their own.

Rules:
- The changes say which groups are touched. Only their rows are read again, as they are in the
  version that the totals then have: so a smallest value is right after its row was deleted.
- A step is one version of the target, and the job of the source's version: it counts once, however
  often it is repeated, and the target always holds the totals of one version of the source.
- Where the changes since the last step are no longer known, or a name means another column than
  before, all groups are counted again.
- A step says which history of the source it has counted, by the chain of its entries. Another
  table, and one that was put back, is refused: its changes say nothing of these totals. One that
  was dropped and created again is counted from its first row.
- NaN is above all numbers, as in queries.
- The identities and totals of the touched groups are in memory, and no row is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from blockstore.errors import Invalid, VersionExpired
from blockstore.feed.changes import changes
from blockstore.feed.form import Form
from blockstore.format.block import Job
from blockstore.format.fields import ids_by_name
from blockstore.format.identity import Key
from blockstore.index.batches import AppBatches
from blockstore.index.lives import check_there
from blockstore.index.state import State
from blockstore.operations.access import Access
from blockstore.rows.attempts import Said
from blockstore.rows.merge import Merge
from blockstore.rows.reading import range_of
from blockstore.scan.execute import read_plan
from blockstore.scan.identities import identities
from blockstore.scan.plan import plan_scan
from blockstore.scan.snapshot import Snapshot

APP = "materialize"
_HISTORY = "history"
ROWS = "rows"
_EXACT = pa.decimal128(38, 0)
_AT_ONCE = 500_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which totals: by which columns, and of which columns the sum, smallest or largest value."""

    by: tuple[str, ...]
    sums: tuple[str, ...] = ()
    smallest: tuple[str, ...] = ()
    largest: tuple[str, ...] = ()

    @property
    def totals(self) -> tuple[tuple[str, str, str], ...]:
        """Each total's column, what is computed, and of which column."""
        every = (("sum", self.sums), ("min", self.smallest), ("max", self.largest))
        return tuple((f"{how}_{name}", how, name) for how, names in every for name in names)

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """Return the columns of the target. Raises Invalid."""
        kinds = {field.name: field.type for field in rows}
        lost = [name for name in (*self.by, *(of for *_, of in self.totals)) if name not in kinds]
        if lost or not self.by:
            raise Invalid(
                f"the totals name {lost[0]!r}, which is no column of the table: {', '.join(kinds)}"
                if lost
                else "the totals name no column to group by: give at least one"
            )
        fields = [pa.field(name, kinds[name]) for name in self.by]
        fields.append(pa.field(ROWS, pa.int64()))
        fields += [pa.field(column, _kind(how, kinds[of], of)) for column, how, of in self.totals]
        return pa.schema(fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Materialized:
    """What a step did."""

    source: int
    """The version of the source whose totals the target has."""
    version: int | None
    """The version of the target that the step wrote; None if there was nothing to write."""
    groups: int
    """How many groups were counted."""
    complete: bool
    """Whether all groups were counted, not only those that were touched."""


def materialize(source: Access, target: Access, wanted: Wanted) -> Materialized:
    """Bring totals up to the newest version of their source.

    Raises Invalid where the target is no table for these totals, or has those of another history,
    or a group is null; Conflict where another process brought it further meanwhile.
    """
    newest, held = source.log.poll(), target.log.poll()
    check_there(newest, source.log.bucket.url)
    check_there(held, target.log.bucket.url)
    form = Form.of(newest)
    schema = wanted.schema(form.columns.visible)
    _check_target(held, wanted, schema)
    batches = held.batches.get(APP)
    after = 0 if batches is None else batches.last
    known = batches is not None and _follows(source, target, batches, newest, wanted)
    if after == newest.version:
        return Materialized(source=after, version=None, groups=0, complete=False)
    groups = _touched(source, wanted, after, newest.version) if known else None
    if groups is not None and not groups.num_rows:
        return Materialized(source=newest.version, version=None, groups=0, complete=False)
    found = _Totals(wanted, schema, groups)
    for rows in _rows(source, form, newest, wanted, groups):
        found.add(rows)
    totals = found.table()
    said = Said(
        job=Job(app=APP, batch=newest.version),
        message=f"totals of {newest.version}",
        parameters={_HISTORY: _history_of(newest)},
    )
    merge = Merge(target, totals, wanted.by, said)
    merge.when_matched_delete(condition=pc.field(f"source.{ROWS}") == 0).when_matched_update()
    merge.when_not_matched_insert(condition=pc.field(f"source.{ROWS}") > 0)
    if groups is None:
        merge.when_not_matched_by_source_delete()
    did = merge.execute()
    return Materialized(
        source=newest.version,
        version=did.version,
        groups=totals.num_rows,
        complete=groups is None,
    )


def _history_of(state: State) -> str:
    return state.last.chain or state.last.commit


def _follows(
    source: Access, target: Access, batches: AppBatches, newest: State, wanted: Wanted
) -> bool:
    """Whether the newest state of the source is known to be a later one, or the same, of the
    history that the target has counted, with the same columns under the names of the totals.
    Raises Invalid where it is another history."""
    after, written = batches.last, batches.written(batches.last)
    try:
        entries = [] if written is None else target.log.entries(written.version, written.version)
        said = next((entry.parameters.get(_HISTORY) for entry in entries), None)
        counted = None if after > newest.version else source.log.at(after, dropped=True)
    except VersionExpired:
        return False
    if counted is None or said not in (None, _history_of(counted)):
        raise Invalid(
            f"the target has the totals of version {after} of another table, or of this one before "
            "it was made again or put back: name another target, or drop this one and make it again"
        )
    return said is not None and _means(counted, wanted) == _means(newest, wanted)


def _means(state: State, wanted: Wanted) -> list[int | None]:
    """The columns that the names of the totals mean. One that was renamed, or dropped, and another
    one that got its name, have other values in rows that no version changed."""
    ids = ids_by_name(state.definition.schema)
    return [ids.get(name) for name in (*wanted.by, *(of for *_, of in wanted.totals))]


def _check_target(held: State, wanted: Wanted, schema: pa.Schema) -> None:
    found = held.definition
    same = [(field.name, field.type) for field in found.schema] == [
        (field.name, field.type) for field in schema
    ]
    if found.identity != Key(wanted.by) or not same:
        raise Invalid(
            f"the target is not a table for these totals: it needs the key {', '.join(wanted.by)} "
            f"and the columns {', '.join(f'{one.name}:{one.type}' for one in schema)}"
        )


def _touched(source: Access, wanted: Wanted, after: int, until: int) -> pa.Table | None:
    """The groups that versions changed, each once; None where all are to be counted."""
    found: pa.Table | None = None
    try:
        for batch in changes(source, after=after, until=until, before_images=True):
            if any(batch[name].null_count for name in wanted.by):
                return None  # a group that the target cannot have: is it still there?
            some = _grouped(pa.table(batch).select(wanted.by), wanted.by, [])
            found = (
                some if found is None else _grouped(pa.concat_tables([found, some]), wanted.by, [])
            )
    except VersionExpired:
        return None
    if found is None:
        return Wanted(by=wanted.by).schema(Form.of(source.log.state).columns.visible).empty_table()
    return found


def _rows(
    source: Access, form: Form, state: State, wanted: Wanted, groups: pa.Table | None
) -> Iterator[pa.Table]:
    """The rows of the touched groups, or all, as they are in a version."""
    names = list(dict.fromkeys((*wanted.by, *(of for *_, of in wanted.totals))))
    snapshot = Snapshot.of(state)
    values = None if groups is None else identities([groups[name] for name in wanted.by])
    where = None if values is None else range_of(snapshot, wanted.by, values)
    plan = plan_scan(snapshot, columns=names, where=where, labels=form.labels)
    for batch in read_plan(source.bucket, plan, source.world, reads=source.reads):
        for name in wanted.by:
            if batch[name].null_count:
                raise Invalid(
                    f"a row has no {name}, by which it would be counted: give it a value, or group "
                    "by columns without nulls"
                )
        if values is None:
            yield pa.table(batch)
            continue
        among = pc.is_in(identities([batch[name] for name in wanted.by]), value_set=values)
        yield pa.table(batch.filter(among))


@dataclass(slots=True)
class _Totals:
    """The totals of some rows, and groups that have none any more."""

    wanted: Wanted
    schema: pa.Schema
    groups: pa.Table | None
    _parts: list[pa.Table] = field(default_factory=list)
    _held: int = 0

    def add(self, rows: pa.Table) -> None:
        """Count some rows."""
        if not rows.num_rows:
            return
        columns = {name: rows[name] for name in self.wanted.by}
        columns[ROWS] = pa.array([1]).take(pa.array([0] * rows.num_rows))
        for column, how, of in self.wanted.totals:
            values = rows[of]
            columns[column] = values.cast(_summing(values.type)) if how == "sum" else values
        self._put(pa.table(columns))

    def table(self) -> pa.Table:
        """Return the totals, as the target has them; those of groups without rows have 0 rows."""
        found = self._merged()
        if self.groups is not None:
            names = self.wanted.by
            keys = identities([self.groups[name] for name in names])
            there = (
                pa.array([], keys.type) if found is None else identities([found[n] for n in names])
            )
            gone = self.groups.filter(pc.invert(pc.is_in(keys, value_set=there))).select(names)
            gone = gone.append_column(ROWS, pa.array([0] * gone.num_rows, pa.int64()))
            for one in list(self.schema)[len(names) + 1 :]:
                gone = gone.append_column(one, pa.nulls(gone.num_rows, one.type))
            rest = gone.cast(self.schema)
        else:
            rest = self.schema.empty_table()
        try:
            own = self.schema.empty_table() if found is None else found.cast(self.schema)
        except pa.ArrowInvalid as error:
            raise Invalid(f"a sum does not fit its column ({error}): nothing was written") from None
        return pa.concat_tables([own, rest])

    def _put(self, rows: pa.Table) -> None:
        self._parts.append(_summed(rows, self.wanted))
        self._held += self._parts[-1].num_rows
        if self._held > _AT_ONCE:
            merged = self._merged()
            self._parts = [] if merged is None else [merged]
            self._held = 0

    def _merged(self) -> pa.Table | None:
        return _summed(pa.concat_tables(self._parts), self.wanted) if self._parts else None


def _summed(rows: pa.Table, wanted: Wanted) -> pa.Table:
    """One row a group: of counts and sums the sum, of others the smallest or largest."""
    how = [(ROWS, "sum"), *((column, how) for column, how, _ in wanted.totals)]
    floats = [
        one for one, how, _ in wanted.totals if how == "max" and pt.is_floating(rows[one].type)
    ]
    # Arrow leaves NaN out of a maximum.
    flags = {f"{column}?": pc.is_nan(rows[column]) for column in floats}
    for name, flag in flags.items():
        rows = rows.append_column(name, flag)
    found = _grouped(rows, wanted.by, [*how, *((name, "max") for name in flags)])
    for column in floats:
        with_nan = pc.fill_null(found[f"{column}?"], False)
        place = found.schema.get_field_index(column)
        highest = pc.if_else(with_nan, pa.scalar(float("nan"), found[column].type), found[column])
        found = found.set_column(place, column, highest)
    found = found.select([name for name in found.column_names if name not in flags])
    return found.cast(pa.schema([rows.schema.field(name) for name in found.column_names]))


def _grouped(rows: pa.Table, by: Sequence[str], how: Iterable[tuple[str, str]]) -> pa.Table:
    wanted = list(how)
    found = rows.group_by(list(by), use_threads=False).aggregate(wanted)
    return found.rename_columns([*by, *(name for name, _ in wanted)])


def _summing(kind: pa.DataType) -> pa.DataType:
    """The type in which values are added up: wide enough for every sum on the way."""
    if pt.is_integer(kind):
        return _EXACT
    return pa.decimal256(76, kind.scale) if pt.is_decimal(kind) else pa.float64()


def _kind(how: str, kind: pa.DataType, name: str) -> pa.DataType:
    """The type of a total."""
    if how == "sum":
        if pt.is_integer(kind):
            return pa.int64()
        if pt.is_floating(kind):
            return pa.float64()
        if pt.is_decimal(kind):
            return pa.decimal128(38, kind.scale)
        raise Invalid(f"{name!r} of type {kind} has no sum: name a column of numbers")
    if (
        pt.is_nested(kind)
        or pt.is_binary(kind)
        or pt.is_fixed_size_binary(kind)
        or pt.is_duration(kind)
    ):
        raise Invalid(f"{name!r} of type {kind} has no order: name another column")
    return kind
