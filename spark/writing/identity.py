"""Which writes fit a table: its rows have a key, or row ids, or no identity.

- An append adds rows, which a table with a key cannot take: it would not look for rows with the
  same one.
- An upsert finds rows by their key.
- An overwrite removes complete blocks, which versions of rows hide from one another.
- A merge changes rows that it has read, by their key or their id.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from blockstore.errors import Invalid
from blockstore.format import Definition
from blockstore.format.identity import DELETED, ROW_ID, Key
from blockstore.rows.last import check_sequence
from blockstore.rows.parts import EFFECT
from blockstore.spark.writing.options import WriteMode, WriteOptions


def without_deleted(rows: pa.Schema, options: WriteOptions) -> pa.Schema:
    """The columns of an upsert's rows without ``_deleted``, by which a source sends deletions.

    Raises Invalid if that is not true or false.
    """
    if options.mode is WriteMode.MERGE:
        own = [field for field in rows if field.name not in (ROW_ID, DELETED, EFFECT)]
        return pa.schema(own, rows.metadata)
    at = rows.get_field_index(DELETED)
    if options.mode is not WriteMode.UPSERT or at < 0:
        return rows
    kind = rows.field(at).type
    if not pt.is_boolean(kind):
        raise Invalid(
            f"column {DELETED!r} has the type {kind}, expected bool: true for a row that is to be "
            "deleted, false for others"
        )
    return rows.remove(at)


def check_mode(definition: Definition, options: WriteOptions) -> None:
    """Raise Invalid if the table's rows cannot be written in this way."""
    identity = definition.identity
    if options.overwrite and identity is not None:
        instead = (
            "replace rows with write_mode='upsert', which also deletes those with _deleted=true"
            if isinstance(identity, Key)
            else "append new rows, and change others with the methods of bs.open(url)"
        )
        raise Invalid(
            f"the rows of {options.url} have versions, and an overwrite would remove blocks in "
            f"which these hide one another: {instead}"
        )
    if options.mode is WriteMode.APPEND:
        if isinstance(identity, Key) and not options.overwrite:
            raise Invalid(
                f"the table at {options.url} has the key {', '.join(identity.columns)}, and an "
                "append does not look for rows with the same one: use write_mode='upsert', or "
                "blockstore.spark.upsert"
            )
        return
    if options.mode is WriteMode.MERGE:
        if identity is None:
            raise Invalid(
                f"a merge changes rows, and the rows of {options.url} have no identity: create the "
                "table with a key or with row ids, or use overwrite with where"
            )
        return
    if identity is None:
        raise Invalid(
            f"an upsert finds rows by their key, and the rows of {options.url} have none: create "
            "the table with a key (an upsert creates a missing one: key='id'), or append"
        )
    if not isinstance(identity, Key):
        raise Invalid(
            f"an upsert finds rows by their key, and {options.url} has row ids: append new rows, "
            "and change others with the methods of bs.open(url)"
        )
    if options.sequence_by is not None:
        check_sequence(definition.schema, options.sequence_by)
