"""The definition that a rebuilt index has: the newest one that can be read, or what the blocks tell
of it.

Rules:
- A schema that blocks were written under, and that the newest readable definition does not know,
  was made by an alter that is lost: it becomes the next one. Schemas only grow, so of two the one
  that reads the other is the newer.
- A schema that neither reads nor is read by the others belongs to no history of this table: its
  blocks are named.
- Without any definition the time column and the sort key are those of the newest block, and default
  labels are those that every block has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from blockstore.format.block import BlockMeta
from blockstore.format.definition import Definition
from blockstore.format.fields import field_id
from blockstore.format.properties import Properties
from blockstore.format.schema import deserialize, readable_under

__all__ = ["define"]


def define(
    known: Definition | None, metas: Sequence[BlockMeta], properties: Properties
) -> tuple[Definition | None, frozenset[str]]:
    """The definition, and the blocks whose schema has no place in it; None where nothing tells of
    one.

    ``metas`` are blocks that no entry named, each with its schema; ``properties`` serve where no
    definition is left.
    """
    schemas = dict.fromkeys(meta.schema for meta in metas)
    if known is None:
        if not schemas:
            return None, frozenset()
        first = min(schemas, key=lambda data: _age(deserialize(data)))
        known = _first(deserialize(first), metas, properties)
    strange = set()
    for data in sorted(schemas, key=lambda data: _age(deserialize(data))):
        if known.id_of(data) is not None:
            continue
        schema = deserialize(data)
        if readable_under(known.schema, schema):
            known = _grown(known, [schema])
        elif readable_under(schema, known.schema):
            known = _grown(known, [schema, known.schema])
        else:
            strange.add(data)
    return known, frozenset(meta.ulid for meta in metas if meta.schema in strange)


def _age(schema: pa.Schema) -> tuple[int, int, str]:
    """Sorts schemas by when they were made: ids of fields only rise."""
    return _last_field_id(schema), len(schema), str(schema)


def _first(schema: pa.Schema, metas: Sequence[BlockMeta], properties: Properties) -> Definition:
    newest = max(metas, key=lambda meta: meta.ulid)
    labels = [dict(meta.labels) for meta in metas]
    return Definition(
        schema=schema,
        schema_id=1,
        schemas={1: schema},
        last_field_id=_last_field_id(schema),
        time_column=newest.time_column if newest.time_column in schema.names else None,
        sort_by=tuple(name for name in newest.sort_by if name in schema.names),
        labels=labels[0] if all(one == labels[0] for one in labels) else {},
        properties=properties,
    )


def _grown(known: Definition, schemas: Iterable[pa.Schema]) -> Definition:
    for schema in schemas:
        number = known.schema_id + 1
        known = replace(
            known,
            schema=schema,
            schema_id=number,
            schemas={**known.schemas, number: schema},
            last_field_id=max(known.last_field_id, _last_field_id(schema)),
        )
    return known


def _last_field_id(schema: pa.Schema) -> int:
    return max((_highest(field) for field in schema), default=0)


def _highest(field: pa.Field) -> int:
    kind = field.type
    children = [kind.field(place) for place in range(kind.num_fields)]
    return max([field_id(field) or 0, *(_highest(child) for child in children)])
