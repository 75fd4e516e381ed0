"""Under which schema the blocks of a listing are read, and what a table without an index is, as its
blocks describe it.

Rules:
- What cannot be read is not part of the cover: else it could push out blocks that can be, and their
  rows.
- Beside an index a listed block must have a schema that the definition at N knows, or be readable
  under it by field ids: what append and discover require of it too (3.3 step 3).
- Without an index the blocks' own schemas are the definition, merged as a table evolves: columns
  are added at the end and may be null, numbers widen. A column is its name there: writers that
  never met number theirs independently.
- All blocks that count have a say, those that others supersede too, in the order of (least source,
  ULID); none that a mark hides. A block that contradicts what came before it is left out and named,
  like a malformed one: so no block that comes later can push out those before it, and a merge is as
  old as its oldest source.
- A snapshot has the columns of the blocks that are read, and no others. Its time column and sort
  key are those of the newest of them whose own fit.

All pure; the same for all processes that see the same blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import pyarrow as pa

from blockstore.errors import Invalid
from blockstore.format.block import BlockMeta
from blockstore.format.constraints import is_enforced
from blockstore.format.definition import Definition
from blockstore.format.features import COLUMNS
from blockstore.format.fields import FIELD_ID, NOT_NULL, check_names, field_id, number
from blockstore.format.marks import MarkReason
from blockstore.format.properties import Properties
from blockstore.format.schema import deserialize, readable_under, serialize
from blockstore.format.types import can_widen, canonical_type, is_sortable, is_time
from blockstore.lifecycle.cover import HIDING, ChosenBlock, Cover, cover


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """What the schemas of blocks come to."""

    fields: tuple[pa.Field, ...] = ()
    """The merged columns, with the ids that their first writers gave them."""
    misfits: Mapping[str, str]
    """The blocks that cannot be read under them: ULID to why."""

    def definition(self, metas: Iterable[BlockMeta], properties: Properties) -> Definition | None:
        """The definition of a table of these blocks, of which some are in the agreement;

        None where none of them is.
        """
        blocks = sorted((meta for meta in metas if meta.ulid not in self.misfits), key=_rank)
        schemas = [
            deserialize(data) for data in dict.fromkeys(meta.schema for meta in blocks) if data
        ]
        borne = {name for schema in schemas for name in schema.names}
        fields, last = _numbered([one for one in self.fields if one.name in borne])
        if not fields:
            return None
        schema = pa.schema(fields, schemas[0].metadata)
        time_column, sort_by = _order(blocks, schema)
        return Definition(
            schema=schema,
            schema_id=1,
            schemas={1: schema},
            last_field_id=last,
            time_column=time_column,
            sort_by=sort_by,
            properties=properties,
            requires=(COLUMNS,) if is_enforced(schema) else (),
        )


def agreement(metas: Iterable[BlockMeta]) -> Agreement:
    """What these blocks' schemas come to."""
    blocks = sorted(metas, key=_rank)
    merged: dict[str, pa.Field] = {}
    tried: set[tuple[object, ...]] = set()
    for data in dict.fromkeys(meta.schema for meta in blocks):
        schema = deserialize(data) if data else pa.schema([])
        # However it is encoded, a schema is tried once: what it says is its columns.
        said = tuple((one.name, one.type, _is_required(one)) for one in schema)
        if said not in tried:
            tried.add(said)
            _merge(merged, schema, empty=not merged)
    fields = tuple(merged.values())
    table = serialize(pa.schema(fields))
    problems = {
        data: _contradiction(data, table) for data in {meta.schema for meta in blocks} if data
    }
    misfits = {meta.ulid: why for meta in blocks if (why := problems.get(meta.schema)) is not None}
    return Agreement(fields=fields, misfits=misfits)


def derived(metas: Iterable[BlockMeta], properties: Properties) -> Definition | None:
    """The definition of a table without an index, from its blocks;

    None where there is none.
    """
    blocks = list(metas)
    return agreement(blocks).definition(blocks, properties)


def fitting_cover(
    metas: Iterable[BlockMeta],
    marks: Mapping[str, MarkReason],
    definition: Definition | None = None,
) -> tuple[Cover, Agreement]:
    """The exact cover of the blocks that can be read, before marks are looked at, and what the
    others lack: under the ``definition`` of an index, or where there is none, under what the blocks
    agree on. One that a mark hides is read by no process, so it stays and keeps its sources."""
    blocks = list(metas)
    shown = [meta for meta in blocks if marks.get(meta.ulid) not in HIDING]
    if definition is None:
        agreed = agreement(shown)
    else:
        table = definition.schema_bytes
        problems = {
            meta.ulid: _unreadable(meta.schema, table)
            for meta in shown
            # A schema that the table had is readable, also one with a column that was dropped.
            if meta.schema and definition.id_of(meta.schema) is None
        }
        agreed = Agreement(misfits={ulid: why for ulid, why in problems.items() if why is not None})
    return cover(meta for meta in blocks if meta.ulid not in agreed.misfits), agreed


def renumbered(chosen: Iterable[ChosenBlock], definition: Definition) -> tuple[ChosenBlock, ...]:
    """The blocks of a table without an index, the columns of their schemas numbered as the
    definition's."""
    table = definition.schema_bytes
    return tuple(
        replace(block, meta=replace(block.meta, schema=_renumbered(block.meta.schema, table)))
        for block in chosen
    )


def why_not_joined(schema: bytes, definition: Definition) -> str | None:
    """Why a table without an index, as its blocks define it, cannot take in a block with this
    schema; None if it can."""
    return _problem(deserialize(schema), {field.name: field for field in definition.schema})


def is_mergeable(meta: BlockMeta, definition: Definition) -> bool:
    """Whether the block's chunks can be merged as they are: its columns bear the ids that the
    definition gives them."""
    data = definition.schema_bytes
    return (
        _contradiction(meta.schema, data) is None and _renumbered(meta.schema, data) == meta.schema
    )


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
                return (
                    f"its column {field.name!r} has the type {field.type}, which no table supports"
                )
    except Invalid as error:
        return f"its schema cannot be a table's: {error}"
    if not len(schema):
        return "its schema has no columns"
    spelled = {name.lower(): name for name in known}
    for field in schema:
        twin = spelled.get(field.name.lower())
        if twin is not None and twin != field.name:
            return (
                f"its column {field.name!r} is {twin!r} in older blocks, apart from upper and "
                "lower case"
            )
        if twin is not None and not _agree(known[twin].type, field.type):
            return (
                f"its column {field.name!r} has the type {field.type}, and {known[twin].type} in "
                "older blocks"
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
    """The fields with ids of which none occurs twice: their own where that is so, else fresh
    ones."""
    taken: set[int] = set()
    last = max((one for field in fields for one in _ids(field)), default=0)
    numbered = []
    for field in fields:
        own = _ids(field)
        if (
            own
            and field_id(field) is not None
            and len(set(own)) == len(own)
            and taken.isdisjoint(own)
        ):
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


def _rank(meta: BlockMeta) -> tuple[str, str]:
    """The order in which blocks say what the table is: the least source, which a merge keeps, then
    the ULID."""
    return meta.sources[0], meta.ulid


def _order(blocks: Iterable[BlockMeta], schema: pa.Schema) -> tuple[str | None, tuple[str, ...]]:
    """Time column and sort key: of the newest block whose own serve the schema."""
    for meta in sorted(blocks, key=lambda meta: meta.ulid, reverse=True):
        time_column, sort_by = meta.time_column, meta.sort_by
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
    return (
        "its schema cannot be read under the table's schema: the table's lacks one of its columns, "
        "or has it with a narrower type"
    )


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
        (
            one
            for one in schema
            if one.name not in known or not can_widen(one.type, known[one.name].type)
        ),
        None,
    )
    return (
        None
        if narrow is None
        else f"the table lacks its column {narrow.name!r} of type {narrow.type}"
    )


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
