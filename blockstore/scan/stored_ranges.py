"""The ranges of a column over many stored blocks, read out of their statistics column by column.

Rules:
- They are those that ``sieve.py`` finds of the blocks as objects, or wider; never narrower.
- Only what is plain is read: integers, times as integers, floats as JSON numbers, texts, of the
  kind that the table's column has now. Anything else is left to the objects.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from blockstore.format.definition import Definition
from blockstore.index.derived import Arrays, Mask
from blockstore.index.documents import read_documents
from blockstore.index.rows import picked
from blockstore.predicate.literals import TIMED, Kind, kind_of, unit_ns
from blockstore.predicate.nodes import Column
from blockstore.scan.columns import Schemas
from blockstore.scan.ranges import GREATEST, LEAST, Ranges, holder

_JSON = {
    Kind.INTEGER: pa.int64(),
    Kind.DATE: pa.int64(),
    Kind.TIMESTAMP: pa.int64(),
    Kind.TIME: pa.int64(),
    Kind.FLOAT: pa.float64(),
    Kind.STRING: pa.string(),
}
"""What a plain bound of a column of this kind is in JSON."""

Keys = tuple[npt.NDArray[Any], Mask]
"""A bound of each part, and where it is unknown."""


def stored_ranges(
    rows: pa.Table, definition: Definition, column: Column, kind: Kind
) -> Arrays | None:
    """Return the ranges of a column, of a kind that can be held, over blocks as ``index/rows.py``
    stores them, and the blocks' numbers of chunks; None where the blocks must be looked at."""
    ids, schemas = rows["schema_id"].to_numpy(), Schemas(definition)
    every: Arrays = ()
    for id_ in np.unique(ids).tolist():
        if id_ not in definition.schemas:
            return None
        name = schemas.stored_names(id_)[column.name]
        field = None if name is None else schemas.schema(id_).field(name)
        if field is not None and (
            kind_of(field.type) is not kind or pa.types.is_dictionary(field.type)
        ):
            return None
        own = np.flatnonzero(ids == id_)
        found = _of_one_schema(picked(rows, own), field, kind)
        if found is None:
            return None
        every = every or tuple(np.zeros(len(rows), array.dtype) for array in found)
        for array, part in zip(every, found, strict=True):
            array[own] = part
    return every or None


def _of_one_schema(rows: pa.Table, field: pa.Field | None, kind: Kind) -> Arrays | None:
    """The same of blocks of one schema, which calls the column ``field``; None: it lacks it."""
    bound = _JSON[kind]
    bounds = pa.struct([("min", bound), ("max", bound), ("nans", pa.int64())])
    columns = [] if field is None else [("columns", pa.struct([(field.name, bounds)]))]
    files = pa.list_(pa.struct([("path", pa.string()), *columns]))
    documents = read_documents(rows, pa.field("blockstore", pa.struct([("files", files)])))
    if documents is None:
        return None
    import pyarrow.compute as pc

    listed = pc.struct_field(documents, [0])
    file, block = listed.flatten(), pc.list_parent_indices(listed)
    is_chunk = pc.fill_null(pc.starts_with(pc.struct_field(file, [0]), "chunks/"), False)
    count = np.bincount(block.filter(is_chunk).to_numpy(), minlength=len(rows))
    if field is None:
        held, missing = _outermost(np.minimum, _keys(pa.nulls(0, bound), kind, 1), count * 0, kind)
        return (held, held, missing, missing, count)
    low, high, nans = (
        pc.struct_field(file.filter(is_chunk), [1, 0, place]) for place in range(len(bounds))
    )
    if kind is Kind.FLOAT:
        high = pc.if_else(pc.equal(pc.fill_null(nans, 0), 0), high, None)
    unit = unit_ns(field.type) if kind in TIMED else 1
    lows = _outermost(np.minimum, _keys(low, kind, unit), count, kind)
    highs = _outermost(np.maximum, _keys(high, kind, unit), count, kind)
    return (*Ranges(lows[0], highs[0], lows[1], highs[1]), count)


def _keys(values: pa.Array, kind: Kind, unit: int) -> Keys:
    """Bounds as they are held and compared, in nanoseconds where they are times."""
    import pyarrow.compute as pc

    type_, unknown = holder(kind)
    missing = np.asarray(values.is_null().to_numpy(zero_copy_only=False), dtype=bool)
    held: npt.NDArray[Any] = np.asarray(
        pc.fill_null(values, unknown).to_numpy(zero_copy_only=False), dtype=type_
    )
    if unit == 1:
        return held, missing
    beyond = (held > GREATEST // unit) | (held < -(-LEAST // unit))
    missing |= beyond
    return np.where(missing, unknown, held) * unit, missing


def _outermost(choose: np.ufunc, keys: Keys, count: npt.NDArray[np.int64], kind: Kind) -> Keys:
    """The bound over the chunks of each block, which are ``count`` of the keys in turn; unknown
    where that of a chunk is, and of a block without chunks."""
    held, missing = keys
    some = count > 0
    first = (np.cumsum(count) - count)[some]
    # The placeholder of its kind: an unknown bound is compared all the same, texts with texts.
    values = np.full(len(count), holder(kind)[1], held.dtype)
    unknown = np.ones(len(count), dtype=bool)
    if len(first):
        values[some] = choose.reduceat(held, first)
        unknown[some] = np.logical_or.reduceat(missing, first)
    return values, unknown
