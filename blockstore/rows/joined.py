"""Rows of a table and of a merge's source side by side, under ``target.`` and ``source.``."""

from __future__ import annotations

import pyarrow as pa


def joined_rows(target: pa.RecordBatch | None, source: pa.Table | None) -> pa.RecordBatch:
    """The rows of both, side by side."""
    columns: list[pa.Array] = []
    names: list[str] = []
    for prefix, rows in (("target.", target), ("source.", source)):
        if rows is not None:
            names += [prefix + name for name in rows.schema.names]
            columns += [
                column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
                for column in rows.columns
            ]
    return pa.RecordBatch.from_arrays(columns, names=names)


def of_side(rows: pa.RecordBatch, prefix: str) -> pa.RecordBatch:
    """The columns of one side, under their own names."""
    names = [name for name in rows.schema.names if name.startswith(prefix)]
    return rows.select(names).rename_columns([name.removeprefix(prefix) for name in names])
