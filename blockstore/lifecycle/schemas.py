"""Under which schema the blocks of a listing are read, and what a table without an index is, as its blocks tell it.

Rules:
- Beside an index a listed block must be readable under the definition at N, by field ids: what append and discover ask
  of it too (3.3 step 3).
- Without an index the blocks' own schemas are the definition, merged as a table evolves: columns are added at the end
  and may be null, numbers widen. A column is its name there: writers who never met number theirs as they like.
- Where schemas contradict each other the older rows decide (by the least source, which a merge keeps), so that no block
  that comes later can push out those before it. Who contradicts is left out and named, like a malformed block.
- The time column and the sort key are those of the newest block whose own fit the merged schema.

All pure; the same for everyone who sees the same blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache

import pyarrow as pa

from blockstore.errors import Invalid
from blockstore.format.block import BlockMeta
from blockstore.format.definition import Definition
from blockstore.format.fields import FIELD_ID, NOT_NULL, check_names, field_id, number
from blockstore.format.properties import Properties
from blockstore.format.schema import deserialize, readable_under, serialize
from blockstore.format.types import can_widen, canonical_type, is_sortable, is_time
from blockstore.lifecycle.cover import ChosenBlock

__all__ = ["derived", "fitting", "is_mergeable", "why_not_joined"]


def derived(
    metas: Iterable[BlockMeta], properties: Properties, *, given: Definition | None = None
) -> Definition | None:
    """The definition of a table without an index, from its blocks; None where there is none to tell.

    ``given`` is what a handle was created with: it comes after all blocks, and serves alone where there are none.
    """
    blocks = list(metas)
    first: dict[bytes, str] = {}
    for meta in blocks:
        first[meta.schema] = min(first.get(meta.schema, meta.sources[0]), meta.sources[0])
    schemas = [deserialize(data) for data in sorted(first, key=lambda data: (first[data], data))]
    schemas += [] if given is None else [given.schema]
    merged: dict[str, pa.Field] = {}
    for one in schemas:
        _merge(merged, one, empty=not merged)
    if not merged:
        return None
    fields, last = _numbered(list(merged.values()))
    schema = pa.schema(fields, schemas[0].metadata)
    time_column, sort_by = _order(blocks, schema, given)
    return Definition(
        schema=schema,
        schema_id=1,
        schemas={1: schema},
        last_field_id=last,
        time_column=time_column,
        sort_by=sort_by,
        labels={} if given is None else given.labels,
        properties=properties,
    )


def fitting(
    chosen: Iterable[ChosenBlock], definition: Definition, *, indexed: bool
) -> tuple[tuple[ChosenBlock, ...], dict[str, str]]:
    """The blocks that can be read under the definition, their schemas numbered as its own, and why others cannot."""
    kept: list[ChosenBlock] = []
    misfits: dict[str, str] = {}
    for block in chosen:
        meta = block.meta
        if indexed:
            problem = _unreadable(meta.schema, definition.schema_bytes)
            schema = meta.schema
        else:
            problem = _contradiction(meta.schema, definition.schema_bytes)
            schema = meta.schema if problem else _renumbered(meta.schema, definition.schema_bytes)
        if problem is not None:
            misfits[meta.ulid] = problem
        else:
            kept.append(block if schema == meta.schema else replace(block, meta=replace(meta, schema=schema)))
    return tuple(kept), misfits


def why_not_joined(schema: bytes, definition: Definition) -> str | None:
    """Why a table without an index, as its blocks define it, cannot take in a block with this schema; None if it can."""
    return _problem(deserialize(schema), {field.name: field for field in definition.schema})


def is_mergeable(meta: BlockMeta, definition: Definition) -> bool:
    """Whether the block's chunks can be merged as they are: its columns bear the ids that the definition gives them."""
    data = definition.schema_bytes
    return _contradiction(meta.schema, data) is None and _renumbered(meta.schema, data) == meta.schema


def _merge(merged: dict[str, pa.Field], schema: pa.Schema, *, empty: bool) -> None:
    """Take a schema's columns in, all of them or, where it contradicts what is there, none."""
    if _problem(schema, merged) is not None:
        return
    names = set(schema.names)
    for name, field in merged.items():
        if name not in names:
            merged[name] = _nullable(field)
    for field in schema:
        known = merged.get(field.name)
        if known is None:
            merged[field.name] = field if empty else _nullable(field)
            continue
        known = known.with_type(known.type if can_widen(field.type, known.type) else field.type)
        merged[field.name] = known if _is_required(field) else _nullable(known)


def _problem(schema: pa.Schema, known: Mapping[str, pa.Field]) -> str | None:
    """Why a schema cannot be merged with the columns known, as a clause."""
    try:
        check_names(schema.names)
        for field in schema:
            if not canonical_type(field.type, field.name).equals(field.type):
                return f"its column {field.name!r} has the type {field.type}, which no table has"
    except Invalid as error:
        return f"its schema is no table's: {error}"
    if not len(schema):
        return "its schema has no columns"
    spelled = {name.lower(): name for name in known}
    for field in schema:
        twin = spelled.get(field.name.lower())
        if twin is not None and twin != field.name:
            return f"its column {field.name!r} is {twin!r} in older blocks, upper and lower case aside"
        if twin is not None and not _agree(known[twin].type, field.type):
            return (
                f"its column {field.name!r} has the type {field.type}, and {known[twin].type} in older blocks"
            )
    return None


def _agree(one: pa.DataType, other: pa.DataType) -> bool:
    if one.equals(other):
        return True
    plain = not pa.types.is_nested(one) and not pa.types.is_nested(other)
    return plain and (can_widen(one, other) or can_widen(other, one))


def _is_required(field: pa.Field) -> bool:
    return (field.metadata or {}).get(NOT_NULL) == b"true"


def _nullable(field: pa.Field) -> pa.Field:
    metadata = {key: value for key, value in (field.metadata or {}).items() if key != NOT_NULL}
    return field.with_metadata(metadata or None)


def _numbered(fields: list[pa.Field]) -> tuple[list[pa.Field], int]:
    """The fields with ids of which none stands twice: their own where that is so, else fresh ones."""
    taken: set[int] = set()
    last = max((one for field in fields for one in _ids(field)), default=0)
    numbered = []
    for field in fields:
        own = _ids(field)
        if own and field_id(field) is not None and len(set(own)) == len(own) and taken.isdisjoint(own):
            taken.update(own)
        else:
            (field,), last = number([field], last)
        numbered.append(field)
    return numbered, max(last, 1)


def _ids(field: pa.Field) -> list[int]:
    """The ids of a field and of all below it."""
    own = field_id(field)
    inside = [field.type.field(place) for place in range(field.type.num_fields)]
    return ([] if own is None else [own]) + [one for child in inside for one in _ids(child)]


def _order(
    blocks: list[BlockMeta], schema: pa.Schema, given: Definition | None
) -> tuple[str | None, tuple[str, ...]]:
    """Time column and sort key: of the newest block whose own serve the schema."""
    asked = [(meta.time_column, meta.sort_by) for meta in sorted(blocks, key=lambda meta: meta.ulid)]
    if given is not None and not asked:
        asked = [(given.time_column, given.sort_by)]
    for time_column, sort_by in reversed(asked):
        timed = time_column is None or (
            time_column in schema.names and is_time(schema.field(time_column).type)
        )
        sorts = len(set(sort_by)) == len(sort_by) and all(
            name in schema.names and is_sortable(schema.field(name).type) for name in sort_by
        )
        if timed and sorts:
            return time_column, sort_by
    return None, ()


@lru_cache(maxsize=1024)
def _unreadable(data: bytes, table: bytes) -> str | None:
    if data == table or readable_under(deserialize(data), deserialize(table)):
        return None
    return "its schema cannot be read under the table's: a column that it has is missing there, or narrower"


@lru_cache(maxsize=1024)
def _contradiction(data: bytes, table: bytes) -> str | None:
    if data == table:
        return None
    known = {field.name: field for field in deserialize(table)}
    schema = deserialize(data)
    problem = _problem(schema, known)
    if problem is not None:
        return problem
    narrow = next(
        (one for one in schema if one.name not in known or not can_widen(one.type, known[one.name].type)),
        None,
    )
    return None if narrow is None else f"the table lacks its column {narrow.name!r} of type {narrow.type}"


@lru_cache(maxsize=1024)
def _renumbered(data: bytes, table: bytes) -> bytes:
    """The schema with the table's ids; the same bytes where they are the same already."""
    known = {field.name: field_id(field) for field in deserialize(table)}
    schema = deserialize(data)
    if all(field_id(field) == known[field.name] for field in schema):
        return data
    fields = [
        field.with_metadata({**(field.metadata or {}), FIELD_ID: str(known[field.name]).encode()})
        for field in schema
    ]
    return serialize(pa.schema(fields, schema.metadata))
