"""The definition of a table: its schemas, its time column, its sort key, its properties.

It is stored in the index, in each entry that changes it. Invariants, checked when a value is built:
- ``schema`` is ``schemas[schema_id]``; ids of schemas are 1, 2, … and every schema of the table is
  kept, since old blocks are read under the schema that their entry names. A table that follows on a
  dropped one begins above the ids of that one.
- Every field of the schema has a permanent id, at most ``last_field_id``, which never decreases.
- The time column, if any, is a timestamp or a date; the sort key names plain columns, none twice.
- A table whose rows have an identity (``identity.py``) requires the feature ``rows``; one whose
  columns have rules (``constraints.py``), or were renamed or dropped (``evolution.py``),
  ``columns``.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from dataclasses import fields as fields_of
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from blockstore.errors import Corrupt, Invalid
from blockstore.format.constraints import check_schema, is_enforced
from blockstore.format.document import Document
from blockstore.format.features import COLUMNS, ROWS, refuse_unknown
from blockstore.format.fields import field_id, number
from blockstore.format.identity import (
    Identity,
    Key,
    check_identity,
    identity_of,
    identity_to_json,
    wanted_identity,
    with_key,
)
from blockstore.format.labels import check_labels, check_new_labels
from blockstore.format.properties import Properties
from blockstore.format.schema import canonical, deserialize, serialize
from blockstore.format.types import is_sortable, is_time

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What every writer and reader of a table must agree on."""

    schema: pa.Schema = field(compare=False)
    schema_id: int
    schemas: Mapping[int, pa.Schema] = field(compare=False, repr=False)
    last_field_id: int
    time_column: str | None = None
    sort_by: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    identity: Identity | None = None
    """What makes two rows versions of one; None: rows never change."""
    properties: Properties = field(default_factory=Properties)
    requires: tuple[str, ...] = ()
    schema_bytes: bytes = field(init=False, repr=False)
    """The current schema as an Arrow IPC message, metadata included: what equality compares."""
    _memo: dict[str, Any] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema_bytes", serialize(self.schema))
        _check_schemas(self)
        _check_time_column(self.schema, self.time_column)
        _check_sort_key(self.schema, self.sort_by)
        check_identity(self.schema, self.identity)
        check_labels(self.labels)
        if self.identity is None and self.properties.row_history_s is not None:
            raise Invalid(
                "row_history is set, and the rows of this table have no identity, so none has "
                "former versions: leave it out, or create the table with row_ids=True or a key"
            )

    @classmethod
    def create(
        cls,
        schema: pa.Schema,
        *,
        time_column: str | None = None,
        sort_by: Iterable[str] = (),
        labels: Mapping[str, str] | None = None,
        row_ids: bool = False,
        key: str | Iterable[str] = (),
        properties: Properties | None = None,
    ) -> Definition:
        """Return the first definition of a table: canonical types, field ids from 1. Raises
        Invalid."""
        if not isinstance(schema, pa.Schema):
            raise Invalid(
                f"the schema is {schema!r}, expected a pyarrow Schema such as pa.schema([('id', "
                "pa.int64())])"
            )
        plain = canonical(schema)
        if len(plain) == 0:
            raise Invalid("the schema has no columns, expected at least one")
        check_new_labels(labels or {}, plain.names)
        identity = wanted_identity(row_ids=row_ids, key=key)
        check_identity(plain, identity)
        plain = with_key(plain, identity)
        check_schema(plain)
        fields, last = number(plain, 0)
        own = pa.schema(fields, plain.metadata)
        return cls(
            schema=own,
            schema_id=1,
            schemas={1: own},
            last_field_id=last,
            time_column=time_column,
            sort_by=(sort_by,) if isinstance(sort_by, str) else tuple(sort_by),
            labels=dict(labels or {}),
            identity=identity,
            properties=properties or Properties(),
            requires=_features(own, identity),
        )

    def following(self, before: Definition) -> Definition:
        """Return this definition of a new table as the one after that of a dropped table: its ids
        of schemas and of fields are above those given before, so that nothing of that table can be
        taken for its own. It knows no schema of before."""
        fields, last = number(self.schema, before.last_field_id)
        schema = pa.schema(fields, self.schema.metadata)
        schema_id = before.schema_id + 1
        return replace(
            self,
            schema=schema,
            schema_id=schema_id,
            schemas={schema_id: schema},
            last_field_id=last,
        )

    def identifies_as(self, other: Definition) -> bool:
        """Return whether rows have the same identity under both: a key may have other names."""
        return _identity_by_id(self) == _identity_by_id(other)

    def id_of(self, schema: bytes) -> int | None:
        """Return this table's id of a serialized schema, newest first, or None."""
        known = self.memo(
            "ids", lambda: {serialize(own): key for key, own in sorted(self.schemas.items())}
        )
        return known.get(schema)

    def memo(self, name: str, make: Callable[[], T]) -> T:
        """Return ``make()``, computed once for this definition, for values derived from it."""
        memo = self._memo
        if name not in memo:
            memo[name] = make()
        return memo[name]

    def __reduce__(self) -> tuple[partial[Definition], tuple[()]]:
        """Pickle the values only; a worker of a cluster derives the rest again."""
        values = {one.name: getattr(self, one.name) for one in fields_of(self) if one.init}
        return partial(Definition, **values), ()

    def to_json(self) -> dict[str, object]:
        """Return the definition as an index entry and a checkpoint hold it."""
        return {
            "schema_id": self.schema_id,
            "schemas": {
                str(key): base64.b64encode(serialize(schema)).decode()
                for key, schema in sorted(self.schemas.items())
            },
            "last_field_id": self.last_field_id,
            "time_column": self.time_column,
            "sort_by": list(self.sort_by),
            "labels": dict(sorted(self.labels.items())),
            **identity_to_json(self.identity),
            "properties": self.properties.to_json(),
            "requires": list(self.requires),
        }

    @classmethod
    def from_json(
        cls, value: Mapping[str, object], subject: str = "the table's definition"
    ) -> Definition:
        """Return the definition of ``to_json``; raise Corrupt or NewerFormat, naming ``subject``
        and the field."""
        document = Document(value, subject)
        requires = document.texts("requires", ())
        refuse_unknown(requires, subject)
        listed = document.document("schemas")
        schemas = {
            _schema_id(name, subject): deserialize(listed.base64(name), f"{subject}: schema {name}")
            for name in listed.names()
        }
        schema_id = document.integer("schema_id", low=1)
        if schema_id not in schemas:
            document.fail("schema_id", f"one of the schemas listed, {sorted(schemas)}")
        try:
            return cls(
                schema=schemas[schema_id],
                schema_id=schema_id,
                schemas=schemas,
                last_field_id=document.integer("last_field_id", low=1, high=2**31 - 1),
                time_column=document.text("time_column") if document.has("time_column") else None,
                sort_by=document.texts("sort_by", ()),
                labels=document.pairs("labels"),
                identity=identity_of(document),
                properties=Properties.parse(document.pairs("properties")),
                requires=requires,
            )
        except Invalid as error:
            raise Corrupt(f"{subject} contradicts itself: {error}") from None


def _features(schema: pa.Schema, identity: Identity | None) -> tuple[str, ...]:
    needed = ((COLUMNS, is_enforced(schema)), (ROWS, identity is not None))
    return tuple(feature for feature, is_needed in needed if is_needed)


def _identity_by_id(definition: Definition) -> object:
    """What identifies rows, the columns of a key by their field ids, which they keep for life."""
    identity = definition.identity
    if not isinstance(identity, Key):
        return identity
    columns = map(definition.schema.field, identity.columns)
    return tuple(column.name if (own := field_id(column)) is None else own for column in columns)


def _check_schemas(definition: Definition) -> None:
    if definition.schema_id != max(definition.schemas, default=0) or min(definition.schemas) < 1:
        raise Invalid(
            f"schema_id is {definition.schema_id}, expected the highest of the table's schemas, "
            f"{sorted(definition.schemas)}"
        )
    for column in definition.schema:
        own = field_id(column)
        if own is None or not 1 <= own <= definition.last_field_id:
            raise Invalid(
                f"column {column.name!r} has the field id {own}, expected one from 1 to "
                f"{definition.last_field_id}"
            )


def _check_time_column(schema: pa.Schema, name: str | None) -> None:
    if name is None:
        return
    if name not in schema.names:
        raise Invalid(
            f"the time column {name!r} is not in the schema; the columns are "
            f"{', '.join(schema.names)}"
        )
    kind = schema.field(name).type
    if not is_time(kind):
        raise Invalid(
            f"the time column {name!r} has the type {kind}, expected a timestamp or a date"
        )


def _check_sort_key(schema: pa.Schema, names: tuple[str, ...]) -> None:
    for position, name in enumerate(names):
        if name not in schema.names:
            raise Invalid(
                f"the sort key names {name!r}, which is not in the schema: "
                f"{', '.join(schema.names)}"
            )
        if name in names[:position]:
            raise Invalid(f"the sort key names {name!r} twice")
        if not is_sortable(schema.field(name).type):
            raise Invalid(
                f"the sort key names {name!r} of type {schema.field(name).type}, which has no order"
            )


def _schema_id(name: str, subject: str) -> int:
    if not (name.isascii() and name.isdigit() and len(name) < 10 and name[0] != "0"):
        raise Corrupt(f"{subject}: schemas names {name[:40]!r}, expected an id from 1")
    return int(name)
