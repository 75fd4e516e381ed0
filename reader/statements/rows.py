"""The SELECT whose rows are the changes of a statement: what to do with each row, and its complete
new image.

One query does it all, under the same lock as any query: which rows a statement is about, and what
they become, is decided by DuckDB alone. What is done with the rows is the business of
``changing.py``.

Each row of the SELECT has, in this order:

- ``_blockstore_do``: a number, the place in ``Selected.acts`` (from 1);
- ``_blockstore_row``: the row id of an existing row, null for a new one, and with a key; where rows
  have no identity, the source of an existing row;
- ``_blockstore_hash``: where rows have no identity, a hash of an existing row as it is; else null;
- the columns ``Selected.columns`` of the table, under its own types;
- what RETURNING asks for, if it does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from blockstore.format.casting import defaults_in
from blockstore.format.definition import Definition
from blockstore.format.identity import ROW_ID, VERSION, Key
from blockstore.reader.errors import BadSql
from blockstore.reader.query.sql.types import quoted, sql_type, text
from blockstore.reader.statements.clauses import (
    Act,
    Assignment,
    Clause,
    Delete,
    Dml,
    Insert,
    Merge,
    OnConflict,
    Update,
    When,
)
from blockstore.reader.statements.tokens import Piece, error_at
from blockstore.reader.tables.names import folded

PREFIX = "_blockstore_"
_DO, _ROW, _HASH, _IN = (f"{PREFIX}{name}" for name in ("do", "row", "hash", "in"))
_NEW = f"{PREFIX}new"
_TARGET, _SOURCE = f"{PREFIX}target", f"{PREFIX}source"
FIXED = 3
"""So many columns come before those of the table."""

_NO_ID, _NO_HASH = "CAST(NULL AS BIGINT)", "CAST(NULL AS UBIGINT)"

Probe = Callable[[str], Sequence[str]]
"""Returns the names of the columns of a query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """A SELECT of changes."""

    sql: str
    acts: tuple[Act, ...]
    columns: tuple[str, ...]
    """The columns of the table that it has: all, or those of the identity if rows only go."""


class Selects:
    """Makes the SELECT of a statement over one table."""

    def __init__(self, dml: Dml, table: str, definition: Definition, probe: Probe) -> None:
        self._dml = dml
        self._table = table
        self._definition = definition
        self._probe = probe
        self._offered: tuple[str, ...] | None = None
        """The columns of the source of a merge."""
        self._own = quoted(dml.target.alias)
        self._key = definition.identity.columns if isinstance(definition.identity, Key) else ()
        self._hidden = "_source" if definition.identity is None else ROW_ID
        """What identifies a row, or the block that it is in."""

    def select(self) -> Selected:
        """The SELECT. Raises BadSql for what cannot be changed so."""
        dml = self._dml
        match dml:
            case Insert():
                found = self._insert(dml)
            case Update():
                found = self._update(dml)
            case Delete():
                found = self._delete(dml)
            case Merge():
                found = self._merge(dml)
        if dml.returning is None:
            return Selected(sql=f"{dml.withs}{found.sql}", acts=found.acts, columns=found.columns)
        names = [_DO, _ROW, _HASH, *found.columns]
        shown = f"{', '.join(map(quoted, names))}, {dml.returning.text}"
        sql = (
            f"{dml.withs}SELECT {shown}\nFROM ({found.sql}\n) AS "
            f"{self._own}({', '.join(map(quoted, names))})"
        )
        return Selected(sql=sql, acts=found.acts, columns=found.columns)

    @property
    def _schema(self) -> pa.Schema:
        return self._definition.schema

    def _update(self, dml: Update) -> Selected:
        given = self._given(dml.assignments)
        images = [self._new(field, given) for field in self._schema]
        return Selected(
            sql=f"SELECT 1, {self._id()}, {self._hash()}, {', '.join(images)}\n{self._from(dml)}",
            acts=(Act.UPDATE,),
            columns=tuple(self._schema.names),
        )

    def _delete(self, dml: Delete) -> Selected:
        columns = tuple(self._schema.names) if dml.returning is not None else self._key
        listed = ", ".join(
            ["1", self._id(), self._hash(), *(self._column(name) for name in columns)]
        )
        source = f"FROM {quoted(self._table)} AS {self._own}"
        return Selected(
            sql=f"SELECT {listed}\n{source}\nWHERE {goes(dml)}",
            acts=(Act.DELETE,),
            columns=columns,
        )

    def _from(self, dml: Update) -> str:
        others = f",\n{dml.others.text}" if dml.others is not None else ""
        where = f"\nWHERE {dml.where.text}" if dml.where is not None else ""
        return f"FROM {quoted(self._table)} AS {self._own}{others}{where}"

    def _id(self) -> str:
        return self._column(self._hidden) if not self._key else _NO_ID

    def _hash(self) -> str:
        if self._definition.identity is not None:
            return _NO_HASH
        return hash_of(self._own, self._schema.names)

    def _column(self, name: str) -> str:
        return f"{self._own}.{quoted(name)}"

    def _new(self, field: pa.Field, given: Mapping[str, Piece]) -> str:
        """The new value of a column of an existing row."""
        value = given.get(field.name)
        return self._column(field.name) if value is None else self._value(value, field)

    def _value(self, value: Piece, field: pa.Field) -> str:
        if value.word == "DEFAULT":
            return self._default(field)
        return f"CAST(({value.text}\n) AS {sql_type(field.type)})"

    def _default(self, field: pa.Field) -> str:
        found = defaults_in(self._definition).get(field.name)
        if found is None:
            return f"CAST(NULL AS {sql_type(field.type)})"
        value = found.as_py()
        shown = value.isoformat() if hasattr(value, "isoformat") else str(value)
        return f"CAST({text(shown)} AS {sql_type(field.type)})"

    def _given(self, assignments: Sequence[Assignment]) -> Mapping[str, Piece]:
        """The new values by column. Raises BadSql for a column that cannot be set."""
        found: dict[str, Piece] = {}
        for one in assignments:
            field = self._field(one.column, one.at)
            if field.name in self._key:
                raise self._error(
                    one.at,
                    f"the statement sets {field.name}, which is part of the key: delete the row, "
                    "and insert one with the new key",
                )
            if field.name in found:
                raise self._error(one.at, f"the statement sets {field.name} twice: keep one")
            found[field.name] = one.value
        return found

    def _field(self, name: str, at: int) -> pa.Field:
        for field in self._schema:
            if folded(field.name) == folded(name):
                return field
        raise self._error(
            at,
            f"table {self._table} has no column {name} that can be set; its columns are "
            f"{', '.join(self._schema.names)}",
        )

    def _error(self, at: int, message: str) -> BadSql:
        return error_at(self._dml.source, at, message)

    def _insert(self, dml: Insert) -> Selected:
        if dml.on_conflict is not OnConflict.FAIL and not self._key:
            raise self._error(
                dml.target.at,
                f"ON CONFLICT is about keys, and table {self._table} has none: use MERGE",
            )
        if dml.conflict_columns is not None:
            named = {self._field(name, dml.target.at).name for name in dml.conflict_columns}
            if named != set(self._key):
                raise self._error(
                    dml.target.at,
                    f"ON CONFLICT names ({', '.join(dml.conflict_columns)}), and the key of table "
                    f"{self._table} is ({', '.join(self._key)}): name the key, or nothing",
                )
        fields, rows = self._rows(dml)
        names = [f"{_IN}{place}" for place in range(len(fields))]
        values = dict(zip(fields, (f"s.{quoted(name)}" for name in names), strict=True))
        source = f"(\n{rows}\n) AS s({', '.join(map(quoted, names))})" if rows else None
        images = [
            f"CAST({values[field.name]} AS {sql_type(field.type)})"
            if field.name in values
            else self._default(field)
            for field in self._schema
        ]
        if dml.on_conflict in (OnConflict.UPDATE, OnConflict.REPLACE):
            return self._upsert(dml, images, source)
        once = ""
        if dml.on_conflict is OnConflict.NOTHING:
            own = dict(zip(self._schema.names, images, strict=True))
            once = f"DISTINCT ON ({', '.join(own[name] for name in self._key)}) "
        listed = ", ".join(["1", _NO_ID, _NO_HASH, *images])
        return Selected(
            sql=f"SELECT {once}{listed}" + (f"\nFROM {source}" if source else ""),
            acts=(Act.INSERT,),
            columns=tuple(self._schema.names),
        )

    def _upsert(self, dml: Insert, images: Sequence[str], source: str | None) -> Selected:
        """New rows, and those in whose place they come. The values of a new row are fields of one
        column, so that a plain name means the existing row, as DuckDB has it."""
        fields = [
            f"{quoted(field.name)} := {image}"
            for field, image in zip(self._schema, images, strict=True)
        ]
        given = self._given(dml.assignments)
        new = [f"{_NEW}.excluded.{quoted(field.name)}" for field in self._schema]
        if dml.on_conflict is OnConflict.REPLACE:
            values = new
        else:
            values = [
                f"CASE WHEN {self._column(VERSION)} IS NULL THEN {fresh} "
                f"ELSE {self._new(field, given)} END"
                for field, fresh in zip(self._schema, new, strict=True)
            ]
        meets = f"WHEN NOT coalesce(({dml.where.text}\n), false) THEN 3 " if dml.where else ""
        act = f"CASE WHEN {self._column(VERSION)} IS NULL THEN 1 {meets}ELSE 2 END"
        on = " AND ".join(
            f"{self._column(name)} = {_NEW}.excluded.{quoted(name)}" for name in self._key
        )
        made = f"SELECT struct_pack({', '.join(fields)}) AS excluded" + (
            f" FROM {source}" if source else ""
        )
        return Selected(
            sql=f"SELECT {act}, {_NO_ID}, {_NO_HASH}, {', '.join(values)}\nFROM ({made}) AS "
            f"{_NEW} LEFT JOIN {quoted(self._table)} AS {self._own} ON {on}",
            acts=(Act.INSERT, Act.UPDATE, Act.NOTHING),
            columns=tuple(self._schema.names),
        )

    def _rows(self, dml: Insert) -> tuple[list[str], str | None]:
        """The columns that are inserted, and the query of their values."""
        if dml.rows is None:
            return [], None
        listed = [
            self._field(name, dml.target.at).name for name in dml.columns or self._schema.names
        ]
        twice = next((name for name in listed if listed.count(name) > 1), None)
        if twice is not None:
            raise self._error(dml.target.at, f"column {twice} is inserted twice: keep one")
        if dml.rows.tokens[0].word == "VALUES":
            return listed, self._values(dml.rows, listed)
        names = self._probe(f"{dml.withs}SELECT * FROM (\n{dml.rows.text}\n) LIMIT 0")
        if dml.by_name:
            return [self._field(name, dml.rows.start).name for name in names], dml.rows.text
        if len(names) != len(listed):
            raise self._error(dml.rows.start, _columns_and_values(self._table, listed, len(names)))
        return listed, dml.rows.text

    def _values(self, rows: Piece, listed: Sequence[str]) -> str:
        made = []
        for row in Piece(rows.source, rows.tokens[1:]).split():
            inner = row.inside()
            values = [] if inner is None else inner.split()
            if len(values) != len(listed):
                raise self._error(row.start, _columns_and_values(self._table, listed, len(values)))
            made.append(
                ", ".join(
                    self._default(self._schema.field(name))
                    if value.word == "DEFAULT"
                    else f"{value.text}\n"
                    for name, value in zip(listed, values, strict=True)
                )
            )
        return f"VALUES {', '.join(f'({row})' for row in made)}"

    def _merge(self, dml: Merge) -> Selected:
        if not dml.clauses:
            raise self._error(dml.target.at, "MERGE has nothing to do: add a WHEN")
        kinds = {clause.when for clause in dml.clauses}
        if When.BY_SOURCE in kinds:
            join = "FULL" if When.NOT_MATCHED in kinds else "LEFT"
        else:
            join = "RIGHT" if When.NOT_MATCHED in kinds else "INNER"
        row = f", {quoted(self._hidden)} AS {quoted(_ROW)}" if not self._key else ""
        target = f"(SELECT *{row}, true AS {quoted(_TARGET)} FROM {quoted(self._table)})"
        alias = using_name(dml)
        source = f"(SELECT *, true AS {quoted(_SOURCE)} FROM {dml.using.text}\n)"
        on = f"ON {matches(dml)}"
        images = ", ".join(self._merged(field, dml, alias) for field in self._schema)
        own = f"{self._own}.{quoted(_ROW)}" if not self._key else _NO_ID
        return Selected(
            sql=f"SELECT {_chosen(dml, self._own, alias)} AS {quoted(_DO)}, {own}, "
            f"{self._hash()}, {images}\n"
            f"FROM {target} AS {self._own} {join} JOIN {source} AS {alias} {on}\n"
            f"WHERE {quoted(_DO)} IS NOT NULL",
            acts=tuple(clause.act for clause in dml.clauses),
            columns=tuple(self._schema.names),
        )

    def _merged(self, field: pa.Field, dml: Merge, alias: str) -> str:
        """The value of a column in each clause."""
        parts = [
            f"WHEN {number} THEN {self._in_clause(field, clause, dml, alias)}"
            for number, clause in enumerate(dml.clauses, 1)
            if clause.act not in (Act.NOTHING, Act.ERROR)
        ]
        if not parts:
            return f"CAST(NULL AS {sql_type(field.type)})"
        return f"CASE {quoted(_DO)} {' '.join(parts)} END"

    def _in_clause(self, field: pa.Field, clause: Clause, dml: Merge, alias: str) -> str:
        match clause.act:
            case Act.DELETE:
                return self._column(field.name)
            case Act.UPDATE if clause.assignments is not None:
                return self._new(field, self._given(clause.assignments))
            case Act.INSERT if clause.defaults:
                return self._default(field)
            case Act.INSERT if clause.values is not None:
                return self._inserted(field, clause, clause.values)
        taken = self._taken(clause, dml).get(field.name)
        if taken is not None:
            return f"CAST({alias}.{quoted(taken)} AS {sql_type(field.type)})"
        return self._column(field.name) if clause.act is Act.UPDATE else self._default(field)

    def _inserted(self, field: pa.Field, clause: Clause, values: Sequence[Piece]) -> str:
        names = [self._field(name, clause.at).name for name in clause.columns or self._schema.names]
        if len(names) != len(values):
            raise self._error(clause.at, _columns_and_values(self._table, names, len(values)))
        given = dict(zip(names, values, strict=True))
        return (
            self._value(given[field.name], field) if field.name in given else (self._default(field))
        )

    def _taken(self, clause: Clause, dml: Merge) -> Mapping[str, str]:
        """The column of the source for each column of the table, where the clause names none."""
        if self._offered is None:
            sql = f"{dml.withs}SELECT * FROM {dml.using.text}\nLIMIT 0"
            self._offered = tuple(self._probe(sql))
        names = self._offered
        if clause.by_name:
            found = {self._field(name, clause.at).name: name for name in names}
        else:
            listed = clause.columns or self._schema.names
            if len(listed) != len(names):
                raise self._error(clause.at, _columns_and_values(self._table, listed, len(names)))
            own = (self._field(name, clause.at).name for name in listed)
            found = dict(zip(own, names, strict=True))
        if clause.act is Act.UPDATE:
            # The source's key may be the target's in another form; the row keeps its own.
            return {own: name for own, name in found.items() if own not in self._key}
        return found


def _columns_and_values(table: str, columns: Sequence[str], values: int) -> str:
    return (
        f"{values} values are given for {len(columns)} columns of table {table} "
        f"({', '.join(columns)}): give one for each"
    )


def hash_of(table: str, columns: Sequence[str]) -> str:
    """A hash of a complete row of a table, whose name is quoted."""
    return f"hash({', '.join(f'{table}.{quoted(name)}' for name in columns)})"


def goes(dml: Delete) -> str:
    """The condition of the rows that go, each once, however many rows of USING match it."""
    where = "true" if dml.where is None else f"({dml.where.text}\n)"
    if dml.others is None:
        return where
    return f"EXISTS (SELECT 1 FROM {dml.others.text}\nWHERE {where})"


def using_name(dml: Merge) -> str:
    """The source of a merge in its expressions, quoted."""
    return quoted(dml.using_alias or f"{PREFIX}using")


def matches(dml: Merge) -> str:
    """The condition of a match."""
    if dml.condition is not None:
        return f"({dml.condition.text}\n)"
    own, alias = quoted(dml.target.alias), using_name(dml)
    return " AND ".join(f"{own}.{quoted(name)} = {alias}.{quoted(name)}" for name in dml.columns)


def first_of(dml: Merge, when: When) -> str:
    """The number of the first clause that speaks of a row of this kind; null if none does."""
    parts = [
        f"WHEN {'true' if one.condition is None else f'({one.condition.text}{chr(10)})'} "
        f"THEN {number}"
        for number, one in enumerate(dml.clauses, 1)
        if one.when is when
    ]
    return f"CASE {' '.join(parts)} END" if parts else "NULL"


def _chosen(dml: Merge, own: str, alias: str) -> str:
    """The number of the first clause that speaks of a row; null if none does."""
    there, given = f"{own}.{quoted(_TARGET)}", f"{alias}.{quoted(_SOURCE)}"
    tests = {
        When.MATCHED: f"{there} AND {given}",
        When.NOT_MATCHED: f"{there} IS NULL",
        When.BY_SOURCE: f"{given} IS NULL",
    }
    parts = []
    for number, clause in enumerate(dml.clauses, 1):
        test = tests[clause.when]
        if clause.condition is not None:
            test += f" AND ({clause.condition.text}\n)"
        result = str(number)
        if clause.act is Act.ERROR:
            said = (
                text("MERGE found a row of which a clause says ERROR")
                if clause.message is None
                else f"({clause.message.text}\n)"
            )
            result = f"CAST(error(CAST({said} AS VARCHAR)) AS INTEGER)"
        parts.append(f"WHEN {test} THEN {result}")
    return f"CASE {' '.join(parts)} END"
