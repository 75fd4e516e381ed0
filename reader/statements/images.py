"""The new image of a row in a statement's SELECT: the values of its columns, as the statement names
them, under the types of the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from blockstore.format.casting import defaults_in
from blockstore.format.identity import ROW_ID, Key
from blockstore.reader.errors import BadSql
from blockstore.reader.query.sql.types import quoted, sql_type, text
from blockstore.reader.statements.canonical import cast
from blockstore.reader.statements.clauses import Act, Assignment, Dml, Insert
from blockstore.reader.statements.doing import Parameters
from blockstore.reader.statements.shape import Shape
from blockstore.reader.statements.tokens import Piece, error_at
from blockstore.reader.tables.names import folded

PREFIX = "_blockstore_"
DO, ROW, HASH = (f"{PREFIX}{name}" for name in ("do", "row", "hash"))
FIXED = 3
"""So many columns come before those of the table."""

NO_ID, NO_HASH = "CAST(NULL AS BIGINT)", "CAST(NULL AS UBIGINT)"

Probe = Callable[[str], Sequence[str]]
"""Returns the names of the columns of a query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """A SELECT of changes."""

    sql: str
    acts: tuple[Act, ...]
    columns: tuple[str, ...]
    """The columns of the table that it has: all, or those of the identity if rows only go; then
    its labels."""
    labels: tuple[str, ...] = ()
    """The last of these columns, which say the stream of a row."""
    says_labels: bool = False
    """Whether the statement gives values to labels."""


class Images:
    """The values of the columns of one table, for one statement."""

    def __init__(
        self, dml: Dml, table: str, shape: Shape, probe: Probe, parameters: Parameters = None
    ) -> None:
        definition = shape.definition
        self._dml = dml
        self._table = table
        self._shape = shape
        self._definition = definition
        self._labels = shape.labels
        self._probe = probe
        self._parameters = parameters
        self._own = quoted(dml.target.alias)
        self._key = definition.identity.columns if isinstance(definition.identity, Key) else ()
        self._hidden = "_source" if definition.identity is None else ROW_ID
        """What identifies a row, or the block that it is in."""

    @property
    def _schema(self) -> pa.Schema:
        """The columns of the table, and its labels."""
        return self._shape.columns

    @property
    def _plain(self) -> list[str]:
        """The columns of the table alone."""
        names: list[str] = self._definition.schema.names
        return names

    def _listed(self, columns: Sequence[str] | None, values: int) -> Sequence[str]:
        """The columns of so many values: those that are named, or else all of the table, with its
        labels or without."""
        if columns is not None:
            return columns
        return self._plain if values == len(self._plain) else self._schema.names

    def _id(self) -> str:
        return self._column(self._hidden) if not self._key else NO_ID

    def _hash(self) -> str:
        if self._definition.identity is not None:
            return NO_HASH
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
        return cast(f"({value.text}\n)", field)

    def _default(self, field: pa.Field) -> str:
        if field.name in self._labels:
            label = self._definition.labels.get(field.name)
            return f"CAST({'NULL' if label is None else text(label)} AS VARCHAR)"
        found = defaults_in(self._definition).get(field.name)
        if found is None:
            return f"CAST(NULL AS {sql_type(field.type)})"
        value = found.as_py()
        shown = value.isoformat() if hasattr(value, "isoformat") else str(value)
        return f"CAST({text(shown)} AS {sql_type(field.type)})"

    def _given(
        self, assignments: Sequence[Assignment], *, keys: bool = False
    ) -> Mapping[str, Piece]:
        """The new values by column; with ``keys`` also of those of the key, and of labels. Raises
        BadSql for a column that cannot be set."""
        found: dict[str, Piece] = {}
        for one in assignments:
            field = self._field(one.column, one.at)
            if field.name in self._key and self._keeps(field, one.value):
                continue
            if not keys and field.name in (*self._key, *self._labels):
                raise self._error(
                    one.at,
                    f"the statement sets {field.name}, which is {self._never_changes(field)}",
                )
            if field.name in found:
                raise self._error(one.at, f"the statement sets {field.name} twice: keep one")
            found[field.name] = one.value
        return found

    def _keeps(self, field: pa.Field, value: Piece) -> bool:
        """Whether ON CONFLICT gives a column of the key the value that it has: the new row and the
        old one have the same key."""
        words = [folded(token.text) for token in value.tokens]
        return isinstance(self._dml, Insert) and words == ["excluded", ".", folded(field.name)]

    def _never_changes(self, field: pa.Field) -> str:
        """Why a row keeps the value of a column of the key or of a label."""
        if field.name in self._key:
            return "part of the key: delete the row, and insert one with the new key"
        return (
            "a label, and labels of a row never change: delete the row, and insert one with the "
            "other label"
        )

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


def columns_and_values(table: str, columns: Sequence[str], values: int) -> str:
    return (
        f"{values} values are given for {len(columns)} columns of table {table} "
        f"({', '.join(columns)}): give one for each"
    )


def hash_of(table: str, columns: Sequence[str]) -> str:
    """A hash of a complete row of a table, whose name is quoted."""
    return f"hash({', '.join(f'{table}.{quoted(name)}' for name in columns)})"
