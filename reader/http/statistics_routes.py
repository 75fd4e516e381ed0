"""What is known of the columns of a table without reading its rows.

Rules:
- The smallest and the largest value of a column are values of rows: a table that a policy restricts
  is refused, and the audit log has the request.
- Of a table with more than ``MOST`` blocks nothing is added up.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from fastapi import APIRouter

from blockstore.predicate.literals import TIMED, unit_ns
from blockstore.reader.audit import running
from blockstore.reader.forms.text import readable
from blockstore.reader.http.callers import Here, Reading
from blockstore.reader.http.query_routes import ERRORS
from blockstore.reader.http.shapes import ColumnStatistics, StatisticsShown, ValueCount
from blockstore.reader.http.table_routes import Moment, Name, Tag, Version, at_of_query
from blockstore.scan.column_totals import ColumnTotal, totals

router = APIRouter(responses=ERRORS, tags=["tables"])

MOST = 20_000
"""The blocks of a table whose statistics are added up."""
_VALUES = 24


@router.get("/v1/tables/{table:path}/statistics")
def statistics(
    gateway: Here,
    caller: Reading,
    table: Name,
    version: Version = None,
    as_of: Moment = None,
    tag: Tag = None,
) -> StatisticsShown:
    """The bounds, the nulls and the distribution of each column, from the statistics of the table's
    chunks; no row is read. They are of the stored rows: also of those that newer versions hide."""
    snapshot = gateway.tables.snapshot(table, at_of_query(version, as_of, tag), caller.tables)
    name = gateway.tables.find(table, caller.tables)
    running().reads({name: snapshot.version})
    blocks = len(snapshot.snapshot)
    if blocks > MOST:
        return StatisticsShown(
            table=name, version=snapshot.version, rows=None, current=False, columns=[]
        )
    found = totals(snapshot.snapshot)
    types = {field.name: field.type for field in snapshot.definition.schema}
    labels = [
        ColumnStatistics(
            name=name,
            nulls=values.get(None, 0),
            values=[
                ValueCount(value=value, rows=rows)
                for value, rows in sorted(values.items(), key=lambda one: (-one[1], one[0] or ""))
                if value is not None
            ][:_VALUES],
        )
        for name, values in found.labels.items()
    ]
    return StatisticsShown(
        table=name,
        version=snapshot.version,
        rows=found.rows,
        current=snapshot.snapshot.count() == found.rows,
        columns=[*(_shown(one, types[one.name]) for one in found.columns), *labels],
    )


def _shown(one: ColumnTotal, type_: pa.DataType) -> ColumnStatistics:
    return ColumnStatistics(
        name=one.name,
        min=_text(one, type_, one.low),
        max=_text(one, type_, one.high),
        nulls=one.nulls,
        nans=one.nans,
        bins=list(one.bins),
    )


def _text(one: ColumnTotal, type_: pa.DataType, value: Any) -> str | None:
    """A bound as a result in JSON or CSV shows it."""
    if value is None:
        return None
    if one.kind in TIMED:
        raw = pa.array([value // unit_ns(type_)], pa.int64())
        stored = raw.cast(pa.int32()) if type_.bit_width == 32 else raw
        return str(readable(stored.cast(type_))[0].as_py())
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value + 0.0 if isinstance(value, float) else value)  # 0.0 of -0.0
