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

from collections.abc import Sequence
from dataclasses import replace

from blockstore.format.identity import VERSION
from blockstore.reader.query.sql.types import quoted
from blockstore.reader.statements.alike import alike
from blockstore.reader.statements.canonical import cast
from blockstore.reader.statements.clauses import Act, Delete, Insert, Merge, OnConflict, Update
from blockstore.reader.statements.images import (
    DO,
    HASH,
    NO_HASH,
    NO_ID,
    PREFIX,
    ROW,
    Images,
    Selected,
    columns_and_values,
)
from blockstore.reader.statements.merging import Merging, returned
from blockstore.reader.statements.tokens import Piece

_IN, _NEW = f"{PREFIX}in", f"{PREFIX}new"


class Selects(Images):
    """Makes the SELECT of a statement over one table."""

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
                found = Merging(dml, self._table, self._shape, self._probe).select()
        found = replace(found, labels=self._labels)
        if dml.returning is None:
            return replace(found, sql=f"{dml.withs}{found.sql}")
        names = [DO, ROW, HASH, *found.columns]
        given = dml.returning.text
        if isinstance(dml, Merge):
            given = returned(dml, found.acts, self._schema.names)
        shown = f"{', '.join(map(quoted, names))}, {given}"
        sql = (
            f"{dml.withs}SELECT {shown}\nFROM ({found.sql}\n) AS "
            f"{self._own}({', '.join(map(quoted, names))})"
        )
        return replace(found, sql=sql)

    def _update(self, dml: Update) -> Selected:
        given = self._given(dml.assignments)
        images = [self._new(field, given) for field in self._schema]
        return Selected(
            sql=f"SELECT 1, {self._id()}, {self._hash()}, {', '.join(images)}\n{self._from(dml)}",
            acts=(Act.UPDATE,),
            columns=tuple(self._schema.names),
        )

    def _delete(self, dml: Delete) -> Selected:
        all_of_it = dml.returning is not None
        columns = tuple(self._schema.names) if all_of_it else (*self._key, *self._labels)
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

    def _insert(self, dml: Insert) -> Selected:
        if dml.on_conflict is not OnConflict.FAIL and not self._key:
            raise self._error(
                dml.target.at,
                f"ON CONFLICT is about keys, and table {self._table} has none: use MERGE",
            )
        if dml.conflict_columns is not None:
            named = {self._field(name, dml.target.at).name for name in dml.conflict_columns}
            if named - set(self._labels) != set(self._key):
                raise self._error(
                    dml.target.at,
                    f"ON CONFLICT names ({', '.join(dml.conflict_columns)}), and the key of table "
                    f"{self._table} is ({', '.join(self._key)}): name the key, or nothing",
                )
        fields, rows = self._rows(dml)
        says = not set(self._labels).isdisjoint(fields)
        names = [f"{_IN}{place}" for place in range(len(fields))]
        values = dict(zip(fields, (f"s.{quoted(name)}" for name in names), strict=True))
        source = f"(\n{rows}\n) AS s({', '.join(map(quoted, names))})" if rows else None
        images = [
            cast(values[field.name], field) if field.name in values else self._default(field)
            for field in self._schema
        ]
        if dml.on_conflict in (OnConflict.UPDATE, OnConflict.REPLACE):
            return self._upsert(dml, images, source, says=says)
        once = ""
        if dml.on_conflict is OnConflict.NOTHING:
            own = dict(zip(self._schema.names, images, strict=True))
            alike = (own[name] for name in (*self._key, *self._labels))
            once = f"DISTINCT ON ({', '.join(alike)}) "
        listed = ", ".join(["1", NO_ID, NO_HASH, *images])
        return Selected(
            sql=f"SELECT {once}{listed}" + (f"\nFROM {source}" if source else ""),
            acts=(Act.INSERT,),
            columns=tuple(self._schema.names),
            says_labels=says,
        )

    def _upsert(
        self, dml: Insert, images: Sequence[str], source: str | None, *, says: bool
    ) -> Selected:
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
        # Labels are part of what makes a row the same, and a row can lack one.
        on = " AND ".join(
            f"{self._column(name)} {'=' if name in self._key else 'IS NOT DISTINCT FROM'} "
            f"{_NEW}.excluded.{quoted(name)}"
            for name in (*self._key, *self._labels)
        )
        made = f"SELECT struct_pack({', '.join(fields)}) AS excluded" + (
            f" FROM {source}" if source else ""
        )
        return Selected(
            sql=f"SELECT {act}, {NO_ID}, {NO_HASH}, {', '.join(values)}\nFROM ({made}) AS "
            f"{_NEW} LEFT JOIN {quoted(self._table)} AS {self._own} ON {on}",
            acts=(Act.INSERT, Act.UPDATE, Act.NOTHING),
            columns=tuple(self._schema.names),
            says_labels=says,
        )

    def _rows(self, dml: Insert) -> tuple[list[str], str | None]:
        """The columns that are inserted, and the query of their values."""
        if dml.rows is None:
            return [], None
        values = _unwrapped(dml.rows)
        valued = values.tokens[0].word == "VALUES"
        rows = _rows_of(values) if valued else []
        names: Sequence[str] = ()
        if not valued:
            names = self._probe(f"{dml.withs}SELECT * FROM (\n{dml.rows.text}\n) LIMIT 0")
        given = self._listed(dml.columns, len(rows[0][1]) if valued else len(names))
        listed = [self._field(name, dml.target.at).name for name in given]
        twice = next((name for name in listed if listed.count(name) > 1), None)
        if twice is not None:
            raise self._error(dml.target.at, f"column {twice} is inserted twice: keep one")
        if valued:
            return listed, self._values(rows, listed)
        if dml.by_name:
            return [self._field(name, dml.rows.start).name for name in names], dml.rows.text
        if len(names) != len(listed):
            raise self._error(dml.rows.start, columns_and_values(self._table, listed, len(names)))
        return listed, dml.rows.text

    def _values(self, rows: Sequence[tuple[int, Sequence[Piece]]], listed: Sequence[str]) -> str:
        """Each value is cast to its column by itself where DuckDB, which gives a column of VALUES
        one type first, could change it by that."""
        made = []
        for start, values in rows:
            if len(values) != len(listed):
                raise self._error(start, columns_and_values(self._table, listed, len(values)))
            made.append(values)
        fields = [self._schema.field(name) for name in listed]
        plain = [
            alike([values[place] for values in made], field.type, self._parameters)
            for place, field in enumerate(fields)
        ]
        given = (
            ", ".join(
                f"{value.text}\n" if bare and value.word != "DEFAULT" else self._value(value, field)
                for value, field, bare in zip(values, fields, plain, strict=True)
            )
            for values in made
        )
        return f"VALUES {', '.join(f'({row})' for row in given)}"


def _unwrapped(rows: Piece) -> Piece:
    """A VALUES without the parentheses around it; anything else as it is."""
    inner: Piece | None = rows
    while inner is not None and inner.tokens and inner.tokens[0].word != "VALUES":
        inner = inner.inside()
    return inner if inner is not None and inner.tokens else rows


def _rows_of(rows: Piece) -> list[tuple[int, Sequence[Piece]]]:
    """The values of each row of a VALUES, and where it begins."""
    split = Piece(rows.source, rows.tokens[1:]).split()
    inside = ((row.start, row.inside()) for row in split)
    return [(start, [] if inner is None else inner.split()) for start, inner in inside]


def goes(dml: Delete) -> str:
    """The condition of the rows that go, each once, however many rows of USING match it."""
    where = "true" if dml.where is None else f"({dml.where.text}\n)"
    if dml.others is None:
        return where
    return f"EXISTS (SELECT 1 FROM {dml.others.text}\nWHERE {where})"
