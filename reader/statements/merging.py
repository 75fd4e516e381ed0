"""The SELECT of a MERGE: source and table joined, the clause that speaks of each row, and the row's
new image."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from blockstore.reader.query.sql.types import quoted, sql_type, text
from blockstore.reader.statements.canonical import cast
from blockstore.reader.statements.clauses import Act, Clause, Merge, When
from blockstore.reader.statements.images import (
    DO,
    NO_ID,
    PREFIX,
    ROW,
    Images,
    Probe,
    Selected,
    columns_and_values,
)
from blockstore.reader.statements.merge_names import replaced, resolved
from blockstore.reader.statements.shape import Shape
from blockstore.reader.statements.tokens import Piece
from blockstore.reader.tables.names import folded

_TARGET, _SOURCE, _CHOSEN = (f"{PREFIX}{name}" for name in ("target", "source", "chosen"))
_ACTION = "merge_action"
"""What RETURNING calls the deed of a row, as DuckDB does."""


class Merging(Images):
    """Makes the SELECT of a merge."""

    def __init__(self, dml: Merge, table: str, shape: Shape, probe: Probe) -> None:
        super().__init__(dml, table, shape, probe)
        self._names: tuple[str, ...] | None = None
        self._merge = dml
        self._alias = using_name(dml)
        self._merge = resolved(dml, self._schema.names, self._alias, self._offered)

    def select(self) -> Selected:
        """The SELECT. Raises BadSql for what cannot be changed so."""
        dml = self._merge
        if not dml.clauses:
            raise self._error(dml.target.at, "MERGE has nothing to do: add a WHEN")
        kinds = {clause.when for clause in dml.clauses}
        if When.BY_SOURCE in kinds:
            join = "FULL" if When.NOT_MATCHED in kinds else "LEFT"
        else:
            join = "RIGHT" if When.NOT_MATCHED in kinds else "INNER"
        row = f", {quoted(self._hidden)} AS {quoted(ROW)}" if not self._key else ""
        target = f"(SELECT *{row}, true AS {quoted(_TARGET)} FROM {quoted(self._table)})"
        source = f"(SELECT *, true AS {quoted(_SOURCE)} FROM {dml.using.text}\n)"
        on = f"ON {matches(dml)}"
        images = ", ".join(self._merged(field) for field in self._schema)
        own = f"{self._own}.{quoted(ROW)}" if not self._key else NO_ID
        # Chosen once for each row, also where it costs a query or is a matter of chance.
        chosen = f"LATERAL (SELECT {self._chosen()} AS {quoted(DO)}) AS {quoted(_CHOSEN)}"
        return Selected(
            sql=f"SELECT {quoted(DO)}, {own}, {self._hash()}, {images}\n"
            f"FROM {target} AS {self._own} {join} JOIN {source} AS {self._alias} {on},\n{chosen}\n"
            f"WHERE {quoted(DO)} IS NOT NULL",
            acts=tuple(clause.act for clause in dml.clauses),
            columns=tuple(self._schema.names),
            says_labels=any(map(self._says_labels, dml.clauses)),
        )

    def _merged(self, field: pa.Field) -> str:
        """The value of a column in each clause."""
        parts = [
            f"WHEN {number} THEN {self._in_clause(field, clause)}"
            for number, clause in enumerate(self._merge.clauses, 1)
            if clause.act not in (Act.NOTHING, Act.ERROR)
        ]
        if not parts:
            return f"CAST(NULL AS {sql_type(field.type)})"
        return f"CASE {quoted(DO)} {' '.join(parts)} END"

    def _in_clause(self, field: pa.Field, clause: Clause) -> str:
        match clause.act:
            case Act.DELETE:
                return self._column(field.name)
            case Act.UPDATE if clause.assignments is not None:
                given = self._given(clause.assignments, keys=True)
                if field.name in given and self._is_fixed(field):
                    return self._same(field, self._value(given[field.name], field))
                return self._new(field, given)
            case Act.INSERT if clause.defaults:
                return self._default(field)
            case Act.INSERT if clause.values is not None:
                return self._inserted(field, clause, clause.values)
        taken = self._taken(clause).get(field.name)
        if taken is not None:
            value = cast(f"{self._alias}.{quoted(taken)}", field)
            if clause.act is Act.UPDATE and self._is_fixed(field):
                return self._same(field, value)
            return value
        return self._column(field.name) if clause.act is Act.UPDATE else self._default(field)

    def _says_labels(self, clause: Clause) -> bool:
        """Whether a clause gives values to labels."""
        if not self._labels or clause.defaults or clause.act not in (Act.UPDATE, Act.INSERT):
            return False
        if clause.assignments is not None:
            named: Iterable[str] = (one.column for one in clause.assignments)
        elif clause.values is not None:
            named = self._listed(clause.columns, len(clause.values))
        else:
            named = self._taken(clause)
        return not set(map(folded, self._labels)).isdisjoint(map(folded, named))

    def _inserted(self, field: pa.Field, clause: Clause, values: Sequence[Piece]) -> str:
        listed = self._listed(clause.columns, len(values))
        names = [self._field(name, clause.at).name for name in listed]
        if len(names) != len(values):
            raise self._error(clause.at, columns_and_values(self._table, names, len(values)))
        given = dict(zip(names, values, strict=True))
        return (
            self._value(given[field.name], field) if field.name in given else (self._default(field))
        )

    def _same(self, field: pa.Field, value: str) -> str:
        """The key of an existing row, or its label, where the clause gives the row the same
        one."""
        if folded(field.name) in map(folded, self._merge.columns):
            return self._column(field.name)
        said = text(
            f"the statement gives a row another {field.name}, which is {self._never_changes(field)}"
        )
        own, kind = self._column(field.name), sql_type(field.type)
        same = f"{own} IS NOT DISTINCT FROM {value}"
        return f"CASE WHEN {same} THEN {own} ELSE CAST(error({said}) AS {kind}) END"

    def _is_fixed(self, field: pa.Field) -> bool:
        """Whether a row keeps the value of this column."""
        return field.name in self._key or field.name in self._labels

    def _taken(self, clause: Clause) -> Mapping[str, str]:
        """The column of the source for each column of the table, where the clause names none."""
        names = self._offered()
        if clause.by_name:
            return {self._field(name, clause.at).name: name for name in names}
        listed = self._listed(clause.columns, len(names))
        if len(listed) != len(names):
            raise self._error(clause.at, columns_and_values(self._table, listed, len(names)))
        own = (self._field(name, clause.at).name for name in listed)
        return dict(zip(own, names, strict=True))

    def _offered(self) -> Sequence[str]:
        """The columns of the source."""
        if self._names is None:
            dml = self._merge
            self._names = tuple(self._probe(f"{dml.withs}SELECT * FROM {dml.using.text}\nLIMIT 0"))
        return self._names

    def _chosen(self) -> str:
        """The number of the first clause that speaks of a row; null if none does."""
        there, given = f"{self._own}.{quoted(_TARGET)}", f"{self._alias}.{quoted(_SOURCE)}"
        tests = {
            When.MATCHED: f"{there} AND {given}",
            When.NOT_MATCHED: f"{there} IS NULL",
            When.BY_SOURCE: f"{given} IS NULL",
        }
        parts = []
        for number, clause in enumerate(self._merge.clauses, 1):
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


def returned(dml: Merge, acts: Sequence[Act], columns: Sequence[str]) -> str:
    """What RETURNING shows, with ``merge_action`` as what was done with the row. A table with a
    column of that name shows the column."""
    assert dml.returning is not None, "the caller has looked"
    if _ACTION in map(folded, columns):
        return dml.returning.text
    cases = " ".join(
        f"WHEN {number} THEN {text(act.upper())}" for number, act in enumerate(acts, 1)
    )
    return with_deed(dml, f"CASE {quoted(DO)} {cases} END")


def with_deed(dml: Merge, deed: str) -> str:
    """What RETURNING shows, with this expression for ``merge_action``."""
    assert dml.returning is not None, "the caller has looked"
    shown = []
    for item in dml.returning.split():
        places = {
            token.start: deed
            for token in item.tokens
            if folded(token.text) == _ACTION and not token.is_text
        }
        named = f" AS {_ACTION}" if places and len(item.tokens) == 1 else ""
        shown.append(f"{replaced(item, places).text}{named}")
    return ", ".join(shown)


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
