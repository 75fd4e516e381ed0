"""``merge_into``: MERGE of a DataFrame into a table whose rows have an identity.

Spark joins the source with the rows of one version of the table. The executors write what the
clauses make of it as one block of changes, and the commit publishes it, as one version.

- The clauses are those of ``Table.merge``: they are tried in the order in which they were named,
  and the first whose condition is true for a row decides.
- Values and conditions are Spark's expressions over ``source`` and ``target``, as texts or columns.
- A null matches nothing. A row that several source rows would change is an error.
- Where others have changed one of its rows meanwhile, all is read and joined again.
- Rows of the target are those with the labels of the merge.
- A row to insert whose key exists is a RowConflict. Where ``on`` does not say that there is none,
  the new rows are joined with the keys of the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from blockstore.errors import Invalid, NotFound, RowConflict
from blockstore.format import Definition, Job
from blockstore.format.casting import defaults_in
from blockstore.format.identity import DELETED, ROW_ID, Identity, Key, RowIds
from blockstore.rows.merge_rules import refuse_other_case
from blockstore.rows.parts import EFFECT, Effect
from blockstore.spark.options import checked_url, column_names
from blockstore.spark.reading.dataframe import read
from blockstore.spark.settings import TIME_TYPE, held
from blockstore.spark.types import literal, quoted, spark_schema
from blockstore.spark.writing.assigning import assigned
from blockstore.spark.writing.dataframe import run
from blockstore.spark.writing.merge_keys import OWN, are_new, every, looked_up
from blockstore.spark.writing.options import (
    DEFAULT_BUFFER_BYTES,
    DEFAULT_CHUNK_BYTES,
    WriteMode,
    WriteOptions,
)
from blockstore.spark.writing.result import Written
from blockstore.table import open_any
from blockstore.world import World

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

Expression = Any
"""A text in Spark's SQL, a column, or a value of Python's."""

_TRIES = 5
_SOURCE, _TARGET = "source", "target"
_HERE, _THERE, _ACTION = OWN + "in_source", OWN + "in_target", OWN + "action"
_MATCHED, _UNMATCHED, _BY_SOURCE = "matched", "not matched", "not matched by source"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Clause:
    of: str
    condition: Expression | None
    deletes: bool = False
    values: Mapping[str, Expression] | None = None
    """New values by column; None: all columns of the source."""


def merge_into(
    source: DataFrame,
    url: str,
    on: str | Iterable[str] | Column,
    *,
    job: Job | None = None,
    any_order: bool = False,
    labels: Mapping[str, str] | None = None,
    buffer_bytes: int = DEFAULT_BUFFER_BYTES,
    chunk_bytes: int = DEFAULT_CHUNK_BYTES,
    tune: bool = True,
    message: str = "",
) -> MergeInto:
    """Begin a merge of ``source`` into the table at ``url``; name what happens to matched and
    unmatched rows, then ``execute`` it.

    Args:
        source: the rows.
        url: a table with a key or with row ids.
        on: the columns that must be equal, or a condition over ``source`` and ``target``:
            ``sf.expr("source.id = target.id AND target.open")``.
        labels: those of new rows; only rows with these labels are matched. Default: the table's.

    The other arguments are those of ``append``.

    Raises:
        Invalid: the rows of the table have no identity, or the source lacks a column of ``on``.
        NotFound: there is no such table.
    """
    return MergeInto(
        source,
        WriteOptions(
            url=checked_url(url),
            job=job,
            any_order=any_order,
            labels=dict(labels or {}),
            buffer_bytes=buffer_bytes,
            chunk_bytes=chunk_bytes,
            mode=WriteMode.MERGE,
            message=message,
        ),
        on,
        tune=tune,
        session=source.sparkSession,
    )


class MergeInto:
    """A merge that is being said; made by ``merge_into``. Without a source no row is matched."""

    def __init__(
        self,
        source: DataFrame | None,
        options: WriteOptions,
        on: str | Iterable[str] | Column | None,
        *,
        tune: bool,
        session: Any,
        names: tuple[str, str] = (_SOURCE, _TARGET),
        equal: Mapping[str, str] | None = None,
    ) -> None:
        """``names`` are those of source and target in expressions. ``equal`` has the source's
        column for each of the target where these are equal, and ``on`` says nothing else."""
        self._session = session
        self._source = source
        self._given = () if source is None else tuple(source.columns)
        self._options = options
        self._tune = tune
        self._names = names
        self._clauses: list[_Clause] = []
        table = open_any(options.url, world=World.real())
        if table.definition.identity is None:
            raise Invalid(
                f"a merge changes rows, and the rows of {table.url} have no identity: create the "
                "table with a key or with row ids, or use overwrite with where"
            )
        self._equal = equal
        self._on = None if on is None else self._condition(on)

    def when_matched_update(
        self,
        set: Mapping[str, Expression] | None = None,  # noqa: A002
        *,
        condition: Expression | None = None,
    ) -> MergeInto:
        """Give matched rows new values: those of ``set``, or all columns of the source."""
        return self._with(_Clause(of=_MATCHED, values=set, condition=condition))

    def when_matched_delete(self, *, condition: Expression | None = None) -> MergeInto:
        """Delete matched rows."""
        return self._with(_Clause(of=_MATCHED, deletes=True, condition=condition))

    def when_not_matched_insert(
        self,
        values: Mapping[str, Expression] | None = None,
        *,
        condition: Expression | None = None,
    ) -> MergeInto:
        """Insert source rows without a match: ``values``, or all columns of the source."""
        return self._with(_Clause(of=_UNMATCHED, values=values, condition=condition))

    def when_not_matched_by_source_update(
        self,
        set: Mapping[str, Expression],  # noqa: A002
        *,
        condition: Expression | None = None,
    ) -> MergeInto:
        """Give new values to rows that no source row matches."""
        return self._with(_Clause(of=_BY_SOURCE, values=set, condition=condition))

    def when_not_matched_by_source_delete(
        self, *, condition: Expression | None = None
    ) -> MergeInto:
        """Delete rows that no source row matches."""
        return self._with(_Clause(of=_BY_SOURCE, deletes=True, condition=condition))

    def execute(self) -> Written:
        """Carry it out, as one version.

        Raises:
            Invalid: A clause or a row does not fit the table, or several source rows change one
                row.
            RowConflict: Others change the same rows all the while. Nothing was applied.
        """
        if not self._clauses:
            raise Invalid("the merge has nothing to do: name a clause, as when_matched_update")
        problem: RowConflict | None = None
        for _ in range(_TRIES):
            table = open_any(self._options.url, world=World.real())
            snapshot = table.snapshot()
            options = replace(self._options, read_version=snapshot.version)
            definition = table.definition
            with held(self._session, {TIME_TYPE: "true"} if _has_times(definition) else {}):
                frame = self._changes(definition, snapshot.version)
                try:
                    return run(
                        frame, options, tune=self._tune, cluster=False, read_under=definition
                    )
                except RowConflict as error:
                    problem = error
        raise RowConflict(
            f"this merge was computed {_TRIES} times, and each time others changed its rows first; "
            f"nothing of it was applied, run it again: {problem}"
        )

    def _with(self, clause: _Clause) -> MergeInto:
        self._clauses.append(clause)
        return self

    def _condition(self, on: str | Iterable[str] | Column) -> Column:
        from pyspark.sql import Column

        if isinstance(on, Column):
            return on
        names = column_names((on,) if isinstance(on, str) else on)
        if not names:
            raise Invalid("the merge matches rows by no column: name some, as on='id'")
        for name in names:
            if name not in self._given:
                raise Invalid(
                    f"the merge is on {name!r}, which the source does not have: "
                    f"{', '.join(self._given)}"
                )
        self._equal = {name: name for name in names}
        return every([self._of(0, name) == self._of(1, name) for name in names])

    def _of(self, side: int, name: str) -> Column:
        """A column of the source (0) or of the target (1)."""
        from pyspark.sql import functions as sf

        return sf.col(f"{quoted(self._names[side])}.{quoted(name)}")

    # What the clauses make of the joined rows

    def _changes(self, definition: Definition, version: int | None) -> DataFrame:
        """The changes of the merge at this version of the table: complete rows, and deletions."""
        from pyspark.sql import functions as sf

        identity = definition.identity
        if identity is None:
            raise NotFound(f"the table at {self._options.url} was replaced: begin the merge again")
        self._check_values(definition)
        joined = self._joined(definition, version).withColumn(_ACTION, self._action())
        rows = joined.where(sf.col(_ACTION).isNotNull())
        rows = self._computed(rows, definition.schema.names)
        types = {field.name: field.dataType for field in rows.schema if OWN in field.name}
        columns = [self._value(definition, identity, field, types) for field in definition.schema]
        if isinstance(identity, RowIds):
            columns.append(self._of(1, ROW_ID).alias(ROW_ID))
        columns += [self._is(self._places(deletes=True), DELETED), self._effect(identity)]
        rows = rows.select(*columns)
        if isinstance(identity, Key) and not self._are_new(definition, identity):
            rows = looked_up(rows, self._target(definition, version), identity, definition)
        return rows

    def _joined(self, definition: Definition, version: int | None) -> DataFrame:
        from pyspark.sql import functions as sf

        target = self._target(definition, version).withColumn(_THERE, sf.lit(True))
        target = target.alias(self._names[1])
        if self._source is None:
            return target
        kinds = {clause.of for clause in self._clauses}
        how = "full" if _BY_SOURCE in kinds else "left" if _UNMATCHED in kinds else "inner"
        source = self._source.withColumn(_HERE, sf.lit(True)).alias(self._names[0])
        return source.join(target, self._on, how)

    def _target(self, definition: Definition, version: int | None) -> DataFrame:
        """The rows of the stream that the merge changes."""
        from pyspark.sql import functions as sf

        own = dict(self._options.labels or definition.labels)
        session, url = self._session, self._options.url
        every = read(session, url, version=version)
        named = [name for name in every.columns if name not in definition.schema.names]
        hidden = [ROW_ID] if isinstance(definition.identity, RowIds) else []
        if hidden:
            columns = [*every.columns, *hidden]
            every = read(session, url, version=version, columns=columns)
        for name in named:
            is_own = sf.col(quoted(name)) == own[name] if name in own else sf.isnull(quoted(name))
            every = every.where(is_own)
        if set(own) - set(named):
            every = every.where(sf.lit(False))
        return every

    def _action(self) -> Column:
        """The place of the clause that decides for a row; null if none does."""
        from pyspark.sql import functions as sf

        here = sf.lit(False) if self._source is None else self._of(0, _HERE).isNotNull()
        there = self._of(1, _THERE).isNotNull()
        cases = {_MATCHED: here & there, _UNMATCHED: ~there, _BY_SOURCE: ~here}
        action = sf.lit(None)
        for place, clause in reversed(list(enumerate(self._clauses))):
            case = cases[clause.of]
            if clause.condition is not None:
                case = case & self._column(clause.condition)
            action = sf.when(case, sf.lit(place)).otherwise(action)
        return action

    def _computed(self, rows: DataFrame, names: Sequence[str]) -> DataFrame:
        """The rows with the values that clauses compute, each in a column of its own, for the rows
        of its clause: so that their types are known, and each is computed once."""
        from pyspark.sql import functions as sf

        return rows.withColumns(
            {
                _computed(place, name): sf.when(sf.col(_ACTION) == place, self._column(value))
                for place, clause in enumerate(self._clauses)
                for name, value in self._said(clause).items()
                if name in names
            }
        )

    def _said(self, clause: _Clause) -> Mapping[str, Expression]:
        """What a clause gives columns, by their names."""
        if clause.values is None and not clause.deletes:
            return {name: self._of(0, name) for name in self._given}
        return clause.values or {}

    def _value(
        self,
        definition: Definition,
        identity: Identity,
        field: pa.Field,
        types: Mapping[str, DataType],
    ) -> Column:
        """A column after the merge."""
        from pyspark.sql import functions as sf

        name, (shown,) = field.name, spark_schema(pa.schema([field]))
        kind, default = shown.dataType, defaults_in(definition).get(name)
        value = sf.lit(None).cast(kind)
        for place, clause in enumerate(self._clauses):
            if clause.of != _UNMATCHED and name in identity.columns:
                found = self._of(1, name)
            elif clause.deletes:
                continue
            elif name in self._said(clause):
                own = _computed(place, name)
                found = assigned(sf.col(quoted(own)), types[own], field, kind)
            elif clause.of != _UNMATCHED:
                found = self._of(1, name)
            elif default is not None:
                found = literal(default, name)
            else:
                continue
            value = sf.when(sf.col(_ACTION) == place, found).otherwise(value)
        return value.alias(name)

    def _effect(self, identity: Identity) -> Column:
        """What each row is, as far as its clause says it."""
        from pyspark.sql import functions as sf

        action, effect = sf.col(_ACTION), sf.lit(int(Effect.CHANGED))
        effect = sf.when(action.isin(self._places(of=_UNMATCHED)), int(Effect.NEW)).otherwise(
            effect
        )
        said = [name for name in identity.columns if name in self._given]
        takes_all = [
            place for place in self._places(of=_MATCHED) if self._clauses[place].values is None
        ]
        if isinstance(identity, Key) and said and takes_all:
            same = every([self._of(0, name).eqNullSafe(self._of(1, name)) for name in said])
            effect = sf.when(action.isin(takes_all) & ~same, int(Effect.MOVED)).otherwise(effect)
        return effect.alias(EFFECT)

    def _are_new(self, definition: Definition, key: Key) -> bool:
        """Whether rows that clauses insert can have no key that exists."""
        places = self._places(of=_UNMATCHED)
        if self._source is None or not places:
            return True
        here = {field.name: field.dataType for field in self._source.schema.fields}
        inserts = [self._clauses[place].values for place in places]
        return are_new(key, definition, self._equal or {}, here, inserts, self._names[0])

    def _places(self, *, of: str | None = None, deletes: bool = False) -> list[int]:
        """The places of the clauses about such rows, or of those that delete."""
        return [
            place
            for place, one in enumerate(self._clauses)
            if one.deletes == deletes and of in (None, one.of)
        ]

    def _is(self, places: list[int], name: str) -> Column:
        from pyspark.sql import functions as sf

        return sf.col(_ACTION).isin(places).alias(name) if places else sf.lit(False).alias(name)

    def _column(self, expression: Any) -> Column:
        from pyspark.sql import Column
        from pyspark.sql import functions as sf

        if isinstance(expression, str):
            return sf.expr(expression)
        return expression if isinstance(expression, Column) else sf.lit(expression)

    def _check_values(self, definition: Definition) -> None:
        identity = definition.identity
        assert identity is not None, "the caller has looked"
        for clause in self._clauses:
            if clause.values is None and not clause.deletes:
                refuse_other_case(self._given, definition.schema.names)
            for name in clause.values or ():
                if name not in definition.schema.names:
                    raise Invalid(
                        f"the merge sets {name!r}, which the table does not have; its columns are "
                        f"{', '.join(definition.schema.names)}"
                    )
                if name in identity.columns and clause.of != _UNMATCHED:
                    raise Invalid(
                        f"the merge sets {name!r}, which is part of the key: delete the row, and "
                        "insert one with the new key"
                    )


def _computed(place: int, name: str) -> str:
    return f"{OWN}{place}_{name}"


def _has_times(definition: Definition) -> bool:
    return any(pt.is_time(field.type) for field in definition.schema)
