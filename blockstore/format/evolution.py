"""How a definition becomes the next one: columns are added, widened, renamed, dropped, reordered,
and get other rules.

Rules:
- A change makes a new schema under the next id; all schemas before it are kept. A column keeps its
  field id for life, so that old chunks stay readable, and an id is never given again: a new column
  with the name of a dropped one has none of its values.
- ``rename``, ``drop``, ``widen`` and ``columns`` name columns as they are before; ``reorder`` and
  the texts of new checks as they are after.
- The time column, the sort key and the key follow a rename. They are never dropped, and a key is
  never widened.
- A check that names a renamed column is written again with its new name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.types as pt

from blockstore.errors import Invalid
from blockstore.format.column import rules_of
from blockstore.format.constraints import check_schema, is_enforced
from blockstore.format.definition import Definition
from blockstore.format.features import COLUMNS
from blockstore.format.fields import (
    NOT_NULL,
    canonical_field,
    check_names,
    check_new_names,
    field_id,
    named,
    number,
)
from blockstore.format.identity import Identity, Key
from blockstore.format.labels import labels_like
from blockstore.format.types import can_widen, canonical_type
from blockstore.predicate.stored import names_in, renamed


@dataclass(frozen=True, slots=True, kw_only=True)
class Alteration:
    """What an ``alter`` changes; ``evolve`` explains the parts."""

    add: tuple[pa.Field, ...] = ()
    widen: Mapping[str, pa.DataType] = field(default_factory=dict)
    rename: Mapping[str, str] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    reorder: tuple[str, ...] = ()
    columns: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    properties: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        add: Iterable[pa.Field] = (),
        widen: Mapping[str, pa.DataType] | None = None,
        rename: Mapping[str, str] | None = None,
        drop: Iterable[str] = (),
        reorder: Iterable[str] = (),
        columns: Mapping[str, Mapping[str, object]] | None = None,
        properties: Mapping[str, object] | None = None,
    ) -> Alteration:
        """Return the alteration of a call. Raises Invalid for what is not a list."""
        return cls(
            add=tuple(add),
            widen=dict(widen or {}),
            rename=dict(rename or {}),
            drop=_listed(drop, "drop"),
            reorder=_listed(reorder, "reorder"),
            columns=dict(columns or {}),
            properties=dict(properties or {}),
        )

    @property
    def by_name(self) -> bool:
        """Whether it does what a table without an index, whose columns are their names, cannot
        do."""
        return bool(self.rename or self.drop or self.reorder or self.columns)

    def applied(self, definition: Definition) -> Definition:
        """Return the definition with these changes; itself if they change nothing. Raises
        Invalid."""
        wanted = evolve(
            definition,
            add=self.add,
            widen=self.widen,
            rename=self.rename,
            drop=self.drop,
            reorder=self.reorder,
            columns=self.columns,
        )
        if not self.properties:
            return wanted
        return replace(wanted, properties=wanted.properties.changed(self.properties))


def evolve(
    definition: Definition,
    *,
    add: Iterable[pa.Field] = (),
    widen: Mapping[str, pa.DataType] | None = None,
    rename: Mapping[str, str] | None = None,
    drop: Iterable[str] = (),
    reorder: Iterable[str] = (),
    columns: Mapping[str, Mapping[str, object]] | None = None,
) -> Definition:
    """Return the definition with these changes, under the next schema id; itself if nothing
    changes. Pure.

    Args:
        definition: The definition before.
        add: Columns to add at the end.
        widen: Columns and their wider types.
        rename: Columns and their new names.
        drop: Columns to drop.
        reorder: The columns in their new order; those that it leaves out follow as they were.
        columns: Columns and what changes of their rules: ``not_null``, ``max_length``,
            ``pattern``, ``default``, ``check``, ``description``; None takes a rule away.

    Raises:
        Invalid: A name, a type or a rule cannot be, or values could be lost.
    """
    wider, other = dict(widen or {}), dict(columns or {})
    names = {old: new for old, new in (rename or {}).items() if old != new}
    dropped = _listed(drop, "drop")
    for what, given in (
        ("rename", names),
        ("drop", dropped),
        ("widen", wider),
        ("change the rules of", other),
    ):
        _check_known(definition, what, given)
    _check_dropped(definition, dropped, [*names, *wider, *other])
    kept = [column for column in definition.schema if column.name not in dropped]
    fields = [
        _changed(definition, column, wider.get(column.name), other.get(column.name))
        for column in kept
    ]
    fields = _renamed(definition, fields, names, other)
    added = [_added(column) for column in add]
    check_new_names([*names.values(), *(column.name for column in added)])
    check_names([column.name for column in (*fields, *added)])
    fresh, last = number(added, definition.last_field_id)
    ordered = _ordered([*fields, *fresh], _listed(reorder, "reorder"))
    if not ordered:
        raise Invalid(
            f"cannot drop {named(dropped)}: a table keeps at least one column; add another one in "
            "the same alter"
        )
    schema = pa.schema(ordered, definition.schema.metadata)
    if schema.equals(definition.schema, check_metadata=True):
        return definition
    check_schema(schema, definition.schema)
    schema_id = definition.schema_id + 1
    needs = bool(names or dropped) or is_enforced(schema)
    return replace(
        definition,
        schema=schema,
        schema_id=schema_id,
        schemas={**definition.schemas, schema_id: schema},
        last_field_id=last,
        time_column=names.get(definition.time_column or "", definition.time_column),
        sort_by=tuple(names.get(name, name) for name in definition.sort_by),
        identity=_identity(definition, names),
        requires=_requires(definition.requires, COLUMNS) if needs else definition.requires,
    )


def evolved_for(definition: Definition, rows: pa.Schema) -> Definition:
    """Return the definition with what rows of this schema need: their new columns, at the end, and
    wider types; itself if they fit. Raises Invalid."""
    own = {column.name: column for column in definition.schema}
    key = definition.identity.columns if isinstance(definition.identity, Key) else ()
    wider = {}
    for found in rows:
        column = own.get(found.name)
        if column is None or pt.is_null(found.type) or found.name in key:
            continue
        kind = canonical_type(found.type, found.name)
        if pt.is_nested(kind) or can_widen(kind, column.type):
            continue
        if can_widen(column.type, kind):
            wider[found.name] = kind
    # What the metadata of other tables says of a column is not taken over.
    new = [pa.field(found.name, found.type) for found in rows if found.name not in own]
    return evolve(definition, add=new, widen=wider)


def check_no_label_is_hidden(read: Definition, wanted: Definition, labels: Iterable[str]) -> None:
    """Raise Invalid for a new column of ``wanted`` that has the name of a label."""
    added = [name for name in wanted.schema.names if name not in read.schema.names]
    hiding = labels_like(added, {*labels, *read.labels})
    if hiding:
        raise Invalid(
            f"column {hiding[0]!r} has the name of a label of the table, apart from upper and "
            "lower case, and would hide it: choose another name"
        )


def under(definition: Definition, schema: pa.Schema) -> Definition:
    """Return the definition with another schema as the next one: the names of the time column, the
    sort key and the key are those that the schema gives their columns."""
    names = {
        before: after
        for own, before in _ids(definition.schema).items()
        if (after := _ids(schema).get(own)) is not None and after != before
    }
    needs = bool(names) or is_enforced(schema)
    schema_id = definition.schema_id + 1
    return replace(
        definition,
        schema=schema,
        schema_id=schema_id,
        schemas={**definition.schemas, schema_id: schema},
        time_column=names.get(definition.time_column or "", definition.time_column),
        sort_by=tuple(names.get(name, name) for name in definition.sort_by),
        identity=_identity(definition, names),
        requires=_requires(definition.requires, COLUMNS) if needs else definition.requires,
    )


def named_as(before: Definition, after: Definition) -> pa.Schema:
    """Return the columns of ``before`` that ``after`` still has, under its names, with the rules
    that they had; for a comparison of rules."""
    names = _ids(after.schema)
    left = {column.name: names[own] for own, column in _by_id(before.schema) if own in names}
    was = pa.schema([column for column in before.schema if column.name in left])
    changed = {old: new for old, new in left.items() if old != new}
    fields = []
    for column in was:
        rules = rules_of(column)
        if rules.check is not None and set(names_in(rules.check, before.schema)) <= set(left):
            text = renamed(rules.check, was, changed)
            column = rules.changed({"check": text}, column.name).on(column)
        elif rules.check is not None:
            column = rules.changed({"check": None}, column.name).on(column)
        fields.append(column.with_name(left[column.name]))
    return pa.schema(fields)


def _by_id(schema: pa.Schema) -> list[tuple[int, pa.Field]]:
    return [(own, column) for column in schema if (own := field_id(column)) is not None]


def _ids(schema: pa.Schema) -> dict[int, str]:
    return {own: column.name for own, column in _by_id(schema)}


def _requires(before: tuple[str, ...], feature: str) -> tuple[str, ...]:
    return before if feature in before else tuple(sorted((*before, feature)))


def _listed(names: Iterable[str], what: str) -> tuple[str, ...]:
    if isinstance(names, str):
        raise Invalid(f"{what} is the text {names!r}, expected a list of columns: [{names!r}]")
    found = tuple(names)
    twice = next((name for place, name in enumerate(found) if name in found[:place]), None)
    if twice is not None:
        raise Invalid(f"{what} names column {twice!r} twice, expected each column once")
    return found


def _check_known(definition: Definition, what: str, names: Iterable[str]) -> None:
    unknown = [name for name in names if name not in definition.schema.names]
    if unknown:
        raise Invalid(
            f"cannot {what} {named(unknown)}: no such column; the columns are "
            f"{named(definition.schema.names)}"
        )


def _check_dropped(definition: Definition, dropped: Sequence[str], changed: Iterable[str]) -> None:
    key = definition.identity.columns if isinstance(definition.identity, Key) else ()
    roles = [(definition.time_column, "is the time column")]
    roles += [(name, "is in the sort key") for name in definition.sort_by]
    roles += [(name, "is in the key") for name in key]
    for name, role in roles:
        if name in dropped:
            raise Invalid(
                f"column {name!r} {role} and cannot be dropped: write the rows to another table "
                "that is made without it"
            )
    both = [name for name in changed if name in dropped]
    if both:
        raise Invalid(f"column {both[0]!r} is dropped and changed at once: name it once")


def _changed(
    definition: Definition,
    column: pa.Field,
    kind: pa.DataType | None,
    rules: Mapping[str, object] | None,
) -> pa.Field:
    key = definition.identity.columns if isinstance(definition.identity, Key) else ()
    if kind is not None:
        if column.name in key:
            raise Invalid(
                f"column {column.name!r} is in the key, whose types are fixed: leave its type"
            )
        column = _widened(column, kind)
    if rules is None:
        return column
    if not isinstance(rules, Mapping):
        raise Invalid(
            f"the rules of column {column.name!r} are {rules!r}, expected a mapping such as "
            "{'max_length': 100}"
        )
    if column.name in key and not rules.get("not_null", True):
        raise Invalid(f"column {column.name!r} is in the key, which is never null: leave it so")
    return rules_of(column).changed(rules, column.name).on(column)


def _renamed(
    definition: Definition,
    kept: list[pa.Field],
    names: Mapping[str, str],
    other: Mapping[str, Mapping[str, object]],
) -> list[pa.Field]:
    """The columns under their new names, and in their checks too; a check that is new has them
    already."""
    left = [column.name for column in kept]
    before = pa.schema([column for column in definition.schema if column.name in left])
    made = []
    for column in kept:
        check = rules_of(column).check
        if check is not None and "check" not in other.get(column.name, {}):
            gone = [name for name in names_in(check, definition.schema) if name not in left]
            if gone:
                raise Invalid(
                    f"column {gone[0]!r} cannot be dropped, because the check of column "
                    f"{column.name!r} names it: {check}; change that check in the same alter"
                )
            text = renamed(check, before, names) if names else check
            column = rules_of(column).changed({"check": text}, column.name).on(column)
        name = names.get(column.name, column.name)
        if not isinstance(name, str):
            raise Invalid(f"column {column.name!r} is renamed to {name!r}, expected a text")
        made.append(column.with_name(name))
    return made


def _ordered(fields: list[pa.Field], names: Sequence[str]) -> list[pa.Field]:
    by_name = {field.name: field for field in fields}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise Invalid(
            f"cannot reorder {named(unknown)}: no such column; the columns are {named(by_name)}"
        )
    return [by_name[name] for name in names] + [one for one in fields if one.name not in names]


def _identity(definition: Definition, names: Mapping[str, str]) -> Identity | None:
    identity = definition.identity
    if not isinstance(identity, Key):
        return identity
    return Key(tuple(names.get(name, name) for name in identity.columns))


def _added(field: pa.Field) -> pa.Field:
    fresh = canonical_field(field)
    if (fresh.metadata or {}).get(NOT_NULL) == b"true":
        raise Invalid(
            f"column {field.name!r} cannot be added as not null, because existing rows have no "
            "value for it: add it as nullable"
        )
    return fresh


def _widened(field: pa.Field, kind: pa.DataType) -> pa.Field:
    wanted = canonical_type(kind, field.name)
    if not can_widen(field.type, wanted) or field.type.equals(wanted):
        raise Invalid(
            f"column {field.name!r} cannot be widened from {field.type} to {wanted}: integers "
            "widen to larger integers, float to double, decimals to more digits at the same scale"
        )
    if pt.is_nested(field.type):
        raise Invalid(
            f"column {field.name!r} is nested ({field.type}): only plain columns can be widened"
        )
    return field.with_type(wanted)
