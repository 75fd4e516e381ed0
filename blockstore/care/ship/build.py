"""Build finished blocks in a local folder, without a network; ``ship`` uploads them later.

Rules:
- The bytes are those of an append: the same writer, ``visible_by: age``, one source, meta.json
  last. The disk has the same order: a chunk is durable before meta.json names it.
- A folder remembers the definition of its blocks (``blockstore.table.json``, with a checksum), so a
  device needs it once. Building under another definition in the same folder is refused, unless it
  is a later one of the same table.
- An error leaves only chunks that no meta.json lists: no block.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import orjson
import pyarrow as pa

from blockstore.bucket import Bucket, open_bucket
from blockstore.bucket.local import LocalBucket
from blockstore.errors import Conflict, Corrupt, Invalid, NewerFormat, ObjectMissing
from blockstore.files.look import NoFiles
from blockstore.format.block import BlockMeta, VisibleBy
from blockstore.format.block_writer import BlockWriter
from blockstore.format.definition import Definition
from blockstore.format.document import parse, sealed
from blockstore.format.features import FORMAT_VERSION, refuse_newer
from blockstore.format.identity import Key
from blockstore.format.labels import check_new_labels
from blockstore.format.meta import encode
from blockstore.format.properties import Properties
from blockstore.format.schema import serialize
from blockstore.index.log import Log
from blockstore.lifecycle.catalog import Catalog
from blockstore.names import FOLDER_TABLE, meta_key
from blockstore.operations.append import NOTHING, AppendedBlock
from blockstore.operations.incoming import batches_of
from blockstore.operations.place import never_indexed
from blockstore.operations.unindexed import Unindexed
from blockstore.world import World

_PRODUCER = "build"


def build(
    folder: str,
    data: Any,
    *,
    schema: pa.Schema | None = None,
    time_column: str | None = None,
    sort_by: Iterable[str] = (),
    like: str | Definition | None = None,
    labels: Mapping[str, str] | None = None,
    world: World | None = None,
) -> AppendedBlock:
    """Build a finished block in a folder, to be shipped later.

    The definition of the rows is given once for each folder; later calls may leave it out.

    Args:
        folder: a path on this machine.
        data: the rows, in any form that ``Table.append`` takes.
        schema: the columns, with ``time_column`` and ``sort_by`` as for ``create``.
        time_column: the timestamp or date by which blocks are pruned and merged.
        sort_by: the columns by which rows are sorted in every file.
        like: instead of ``schema``, the definition of a table, or its URL, from which it is read.
        labels: the labels of the block.
        world: the clock, ids and threads; real ones by default.
    """
    world = world or World.real()
    place = folder_at(folder, world)
    if like is not None and (schema is not None or time_column is not None or tuple(sort_by)):
        raise Invalid(
            "build takes either like=, or schema= with time_column= and sort_by=: found both"
        )
    wanted = like if isinstance(like, Definition) else None
    if isinstance(like, str):
        wanted = definition_at(like, world)
    elif schema is not None:
        wanted = Definition.create(schema, time_column=time_column, sort_by=sort_by)
    meta = build_block(place, world, remember(place, wanted), data, labels=labels)
    if meta is None:
        return NOTHING
    return AppendedBlock(
        ulid=meta.ulid,
        version=None,
        published=False,
        rows=meta.rows,
        bytes=meta.bytes,
        chunks=len(meta.chunks),
    )


def build_block(
    folder: Bucket,
    world: World,
    definition: Definition,
    data: Any,
    *,
    labels: Mapping[str, str] | None = None,
    producer: str = _PRODUCER,
) -> BlockMeta | None:
    """Write a finished block and return its meta; None, and no block, if there are no rows.

    Raises Invalid for rows that do not fit the definition.
    """
    if isinstance(definition.identity, Key):
        raise Invalid(
            "a block cannot be built for a table with a key: which of its rows are newer than the "
            "table's is known only where they are written; write them with upsert"
        )
    if labels is not None:
        check_new_labels(labels, definition.schema.names)
    with BlockWriter(
        folder,
        world,
        world.ids.ulid(),
        definition,
        labels=labels,
        producer=producer,
        accept=NoFiles(definition).take,
    ) as writer:
        for batch in batches_of(data):
            writer.write(batch)
        written = writer.finish_block()
    if not written.rows:
        return None
    meta = writer.describe(written, visible_by=VisibleBy.AGE, uploaded_time=world.clock.now_ms())
    folder.put(meta_key(meta.ulid), sealed(encode(meta)))
    return meta


def folder_at(path: str, world: World) -> Bucket:
    """Open a local folder. Raises Invalid for any other store."""
    bucket = open_bucket(path, world)
    if not isinstance(bucket, LocalBucket):
        raise Invalid(
            f"{path} is not a local folder: build in a folder of this machine, and ship the blocks "
            f"to {path} later"
        )
    return bucket


def definition_at(url: str, world: World) -> Definition:
    """Read the definition of the table at ``url``, with an index or without.

    Raises NotFound if there is no table.
    """
    bucket = open_bucket(url, world)
    if never_indexed(bucket):
        return Unindexed.open(Catalog(bucket, world), Properties(), trusting=False).definition
    return Log(bucket, world).state.definition


def remembered(folder: Bucket) -> Definition | None:
    """Return the definition that a folder remembers, or None.

    Raises Corrupt if it is damaged.
    """
    subject = f"{FOLDER_TABLE} of {folder.url}"
    try:
        document = parse(folder.get(FOLDER_TABLE).data, subject)
    except ObjectMissing:
        return None
    refuse_newer(document.integer("version", low=1), subject)
    table = document.raw("table")
    if not isinstance(table, dict) or document.text("sha256") != _digest(table):
        raise Corrupt(
            f"{subject} was edited or truncated: delete it, and give the definition again "
            "(--like or --schema)"
        )
    return Definition.from_json(table, subject)


def remember(folder: Bucket, wanted: Definition | None) -> Definition:
    """Return the definition to build under: ``wanted``, which is stored, or the stored one."""
    try:
        known = remembered(folder)
    except Corrupt as error:
        if wanted is None or isinstance(error, NewerFormat):
            raise
        known = None
    if wanted is None:
        if known is None:
            raise Invalid(
                f"the definition of the rows in {folder.url} is not known yet: name the table that "
                "they are for (--like URL), or give the columns (--schema)"
            )
        return known
    if wanted == known:
        return wanted
    if known is not None and not _is_later(known, wanted):
        raise Conflict(
            f"the blocks in {folder.url} have another definition than this one: use one folder for "
            "each table"
        )
    table = wanted.to_json()
    folder.put(
        FOLDER_TABLE,
        orjson.dumps(
            {"version": FORMAT_VERSION, "table": table, "sha256": _digest(table)},
            option=orjson.OPT_INDENT_2,
        ),
    )
    return wanted


def _is_later(known: Definition, wanted: Definition) -> bool:
    """Return whether ``wanted`` is a later definition of the same table: it has every schema of
    ``known``."""
    return all(
        number in wanted.schemas and serialize(wanted.schemas[number]) == serialize(schema)
        for number, schema in known.schemas.items()
    )


def _digest(table: object) -> str:
    return hashlib.sha256(orjson.dumps(table, option=orjson.OPT_SORT_KEYS)).hexdigest()
