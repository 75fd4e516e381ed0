"""The columns of a scan, and where chunks of every schema that the table had store them.

Rules:
- A column is the same under every schema that has its field id (its name, where ids are missing).
- The columns of a scan are the table's, then the labels in the order of their names; hidden columns
  only if the scan names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from blockstore.errors import Invalid
from blockstore.format.definition import Definition
from blockstore.format.fields import field_id
from blockstore.format.schema import deserialize
from blockstore.predicate.nodes import find_column
from blockstore.scan.chunk import HIDDEN, ColumnRead


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Every column that a scan could read."""

    table: pa.Schema
    labels: tuple[str, ...]
    _reads: dict[int, tuple[pa.Schema, Mapping[str, ColumnRead]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @classmethod
    def of(cls, definition: Definition, labels: Iterable[str]) -> Columns:
        """Return the table's columns, and those labels that have another name than all of them."""
        taken = {name.lower() for name in definition.schema.names}
        return cls(
            table=definition.schema,
            labels=tuple(sorted(name for name in set(labels) if name.lower() not in taken)),
        )

    @cached_property
    def visible(self) -> pa.Schema:
        """The columns of a scan that names none."""
        return pa.schema(
            [*self.table, *(pa.field(name, pa.string()) for name in self.labels)],
            self.table.metadata,
        )

    @cached_property
    def all(self) -> pa.Schema:
        """The columns that a condition may name."""
        return pa.schema([*self.visible, *HIDDEN])

    @cached_property
    def by_name(self) -> Mapping[str, pa.Field]:
        """The same by name: Arrow makes a field at each look into a schema."""
        return {field.name: field for field in self.all}

    def reads(self, id_: int, stored: pa.Schema) -> Mapping[str, ColumnRead]:
        """Return how each column of the table is read out of chunks of the schema ``stored``.

        It is kept under ``id_`` for the plans that follow, as long as they have the same schema.
        """
        kept = self._reads.get(id_)
        if kept is None or kept[0] is not stored:
            kept = self._reads[id_] = stored, reads_of(stored, self.table)
        return kept[1]

    def select(self, names: Iterable[str] | None) -> pa.Schema:
        """Return the output schema of these columns, in this order; of all visible ones for None.

        Raises Invalid.
        """
        if names is None:
            return self.visible
        if isinstance(names, str):
            raise Invalid(
                f"columns is the text {names!r}, expected a list of column names: [{names!r}]"
            )
        every, by_name = self.all, self.by_name
        fields = []
        for name in names:
            if not isinstance(name, str):
                raise Invalid(f"the scan names the column {name!r:.100}, expected its name, a text")
            found = by_name.get(name) or _regardless_of_case(every, by_name, name)
            if found is None:
                raise Invalid(
                    f"the scan names column {name!r}, which the table does not have; its columns "
                    f"are {', '.join(map(repr, every.names))}"
                )
            fields.append(found)
        if not fields:
            raise Invalid("the scan names no column, expected at least one")
        chosen = [field.name for field in fields]
        if len(set(chosen)) < len(chosen):
            raise Invalid(
                f"the scan names a column twice: {', '.join(map(repr, chosen))}; name each once"
            )
        return pa.schema(fields, self.table.metadata)


def _regardless_of_case(
    schema: pa.Schema, by_name: Mapping[str, pa.Field], name: str
) -> pa.Field | None:
    found = find_column(schema, name)
    return None if found is None else by_name[found.name]


class Schemas:
    """The schemas of the chunks of one scan, by id: the table's own, and below zero all others."""

    def __init__(self, definition: Definition, columns: Columns | None = None) -> None:
        """``columns`` are those of the scan, which keep what follows from a schema."""
        self._definition = definition
        self._columns = Columns.of(definition, ()) if columns is None else columns
        self._foreign: dict[bytes, int] = {}
        self._by_id: dict[int, pa.Schema] = dict(definition.schemas)
        self._names: dict[int, dict[str, str | None]] = {}

    def id_of(self, schema_id: int, schema: bytes, block: str) -> int:
        """Return the id of a block's schema, from the index's id and the schema in meta.json."""
        if schema_id in self._definition.schemas:
            return schema_id
        if not schema:
            raise Invalid(
                f"block {block} has the schema id {schema_id}, expected one of "
                f"{sorted(self._definition.schemas)}: read a newer version of the table"
            )
        known = self._definition.id_of(schema)
        if known is not None:
            return known
        if schema not in self._foreign:
            self._foreign[schema] = -1 - len(self._foreign)
            self._by_id[self._foreign[schema]] = deserialize(schema, f"the schema of block {block}")
        return self._foreign[schema]

    def is_of_table(self, schema_id: int, schema: bytes) -> bool:
        """Whether a block's schema is one of the table's, so that its id is the same for every
        scan."""
        own = self._definition
        return schema_id in own.schemas or own.id_of(schema) is not None

    def schema(self, id_: int) -> pa.Schema:
        """Return the schema of an id that ``id_of`` returned."""
        return self._by_id[id_]

    def stored_names(self, id_: int) -> Mapping[str, str | None]:
        """Return the name under which chunks of this schema store each of the table's columns.

        None = they lack it.
        """
        if id_ not in self._names:
            reads = self._columns.reads(id_, self._by_id[id_])
            self._names[id_] = {name: read.stored_as for name, read in reads.items()}
        return self._names[id_]

    def all(self) -> Mapping[int, pa.Schema]:
        """Return all schemas, by id."""
        return dict(self._by_id)


def reads_of(stored: pa.Schema, table: pa.Schema) -> dict[str, ColumnRead]:
    """Return how each column of the table is read out of chunks whose schema is ``stored``."""
    by_id = {own: field for field in stored if (own := field_id(field)) is not None}
    by_name = {field.name: field for field in stored if field_id(field) is None}
    reads = {}
    for column in table:
        own = field_id(column)
        found = by_id.get(own) if own is not None and own in by_id else by_name.get(column.name)
        reads[column.name] = ColumnRead(
            name=column.name,
            type=column.type,
            stored_as=None if found is None else found.name,
            widened=found is not None and not found.type.equals(column.type),
        )
    return reads
