"""The rows of a client's data file, under the table's columns.

Rules:
- A column is found by its field id, whatever its name; labels are known from the manifest, so their
  columns are left out. A column that the file lacks is null.
- A type that Iceberg does not take for the column's own is refused, and the column is named: two
  processes may have given out one id.
- A file that has more or fewer rows than its manifest says is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from blockstore.bucket.api import Bucket
from blockstore.errors import Invalid, NotFound
from blockstore.export.iceberg.schema import label_ids, type_of
from blockstore.format.definition import Definition
from blockstore.format.fields import FIELD_ID
from blockstore.format.types import canonical_type
from blockstore.reader.iceberg.commits.files import NewFile

_ROWS = 65_536
_PIECE = 8 << 20
_PROMOTED = {("int", "long"), ("float", "double")}


def rows_of(
    bucket: Bucket, file: NewFile, definition: Definition, scratch: Callable[[], Path]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file, some ten thousand at once; ``scratch`` names a file for its bytes.

    Raises Invalid.
    """
    with _local(bucket, file.key, scratch) as path:
        try:
            opened = pq.ParquetFile(path, page_checksum_verification=True)
        except (pa.ArrowException, OSError) as error:
            raise Invalid(f"{file.key} cannot be read as Parquet ({error!s:.200})") from error
        with opened:
            if opened.metadata.num_rows != file.rows:
                raise Invalid(
                    f"{file.key} has {opened.metadata.num_rows:,} rows, and its manifest says "
                    f"{file.rows:,}"
                )
            places = _places(opened.schema_arrow, file, definition)
            try:
                for batch in opened.iter_batches(_ROWS):
                    yield _under(batch, places, definition, file.key)
            except (pa.ArrowException, OSError) as error:
                raise Invalid(f"{file.key} cannot be read ({error!s:.200})") from error


def _places(schema: pa.Schema, file: NewFile, definition: Definition) -> list[int | None]:
    """Where the file has each column of the table."""
    own = {_id(column): place for place, column in enumerate(schema)}
    if None in own or len(own) != len(schema):
        raise Invalid(f"{file.key} has columns without a field id of their own")
    known = {_id(column) for column in definition.schema}
    named = {*(name for name, _ in file.labels), *file.unlabelled}
    labels = set(label_ids(named).values())
    others = [schema[place].name for one, place in own.items() if one not in known | labels]
    if others:
        raise Invalid(
            f"{file.key} has the column {others[0]!r}, whose field id the table does not have"
        )
    found = []
    for column in definition.schema:
        place = own.get(_id(column))
        if place is not None:
            _check_type(schema[place].type, column, file.key)
        found.append(place)
    return found


def _check_type(kind: pa.DataType, column: pa.Field, key: str) -> None:
    plain = canonical_type(kind, column.name)
    if not _has_ids(plain):
        raise Invalid(f"{key} has fields without a field id within the column {column.name!r}")
    has, wants = type_of(plain, column.name), type_of(column.type, column.name)
    if has != wants and (has, wants) not in _PROMOTED:
        raise Invalid(
            f"{key} has {has} in column {column.name!r}, and the table has {wants}: load the "
            "table again"
        )


def _under(
    batch: pa.RecordBatch, places: list[int | None], definition: Definition, key: str
) -> pa.RecordBatch:
    columns = []
    for column, place in zip(definition.schema, places, strict=True):
        if place is None:
            columns.append(pa.nulls(len(batch), column.type))
            continue
        try:
            columns.append(batch.column(place).cast(column.type))
        except pa.ArrowException as error:
            raise Invalid(
                f"{key} has a value in column {column.name!r} that {column.type} cannot hold "
                f"({error!s:.200})"
            ) from error
    return pa.RecordBatch.from_arrays(columns, names=definition.schema.names)


def _has_ids(kind: pa.DataType) -> bool:
    """Whether all fields within a type have ids."""
    within = [kind.field(place) for place in range(kind.num_fields)]
    if pa.types.is_map(kind):
        within = [kind.key_field, kind.item_field]
    return all(_id(one) is not None and _has_ids(one.type) for one in within)


def _id(column: pa.Field) -> int | None:
    said = (column.metadata or {}).get(FIELD_ID)
    return None if said is None else int(said)


@contextmanager
def _local(bucket: Bucket, key: str, scratch: Callable[[], Path]) -> Iterator[Path]:
    """The file on a local disk."""
    try:
        there = bucket.path_of(key)
        size = bucket.head(key).size
        if there is not None:
            yield Path(there)
            return
        path = scratch()
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(path, "wb") as out:
                for start in range(0, size, _PIECE):
                    out.write(bucket.get_range(key, start, min(_PIECE, size - start)))
            yield path
        finally:
            path.unlink(missing_ok=True)
    except NotFound as error:
        raise Invalid(f"the commit names {key}, which is not there") from error
