"""What a pyarrow expression can keep of many sets of rows of which only bounds are known.

An expression cannot be taken apart from Python. So Arrow is asked: the bounds of each set become a
guarantee of a fragment, and a filter of fragments leaves out those that its guarantee contradicts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pd
import pyarrow.fs as fs
import pyarrow.types as pt

from blockstore.predicate.arrow import shown, to_scalar
from blockstore.predicate.prune import Bounds


def may_keep(
    expression: pc.Expression, schema: pa.Schema, sets: Sequence[Mapping[str, Bounds]]
) -> list[int]:
    """Return the places of the sets of which the expression may keep a row, in order.

    Args:
        expression: A condition on columns of ``schema``.
        schema: The columns.
        sets: By set, the bounds of columns; a column that is missing may have any values.
    """
    # An ordering with NaN is false for every value, so its negation is true: no bounds say so.
    may_hold_nan = "nan" in shown(expression).lower()
    fragments = pd.FileSystemDataset.from_paths(
        [str(place) for place in range(len(sets))],
        schema=schema,
        format=pd.ParquetFileFormat(),
        filesystem=fs.LocalFileSystem(),
        partitions=[_guarantee(schema, bounds, floats=not may_hold_nan) for bounds in sets],
    )
    try:
        return sorted(int(one.path) for one in fragments.get_fragments(filter=expression))
    except pa.ArrowException:
        # It cannot compare a bound with the expression's values, as where one is not in the
        # other's type.
        return list(range(len(sets)))


def _guarantee(schema: pa.Schema, bounds: Mapping[str, Bounds], *, floats: bool) -> pc.Expression:
    parts = [
        part
        for name, own in bounds.items()
        if (floats or not pt.is_floating(schema.field(name).type))
        and (part := _of_column(name, schema.field(name).type, own)) is not None
    ]
    return reduce(and_, parts, pc.scalar(True))


def _of_column(name: str, kind: pa.DataType, bounds: Bounds) -> pc.Expression | None:
    field = pc.field(name)
    if bounds.all_null:
        return field.is_null()
    if pt.is_floating(kind) and bounds.nans != 0:
        return None  # NaN is within no bounds.
    ends = []
    if bounds.low is not None:
        ends.append(field >= to_scalar(kind, bounds.low))
    if bounds.high is not None:
        ends.append(field <= to_scalar(kind, bounds.high))
    if not bounds.no_null:
        ends = [end | field.is_null() for end in ends]  # Arrow takes each for itself
    return reduce(and_, ends) if ends else None
