"""Rows as a multiset: what must not be lost and must not be doubled."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa

__all__ = ["multiset", "same_rows"]


def multiset(table: pa.Table) -> Counter[str]:
    """How often each row stands in a table, whatever the order of rows, columns and chunks.

    For small tables.
    """
    names = sorted(table.column_names)
    return Counter(repr([row[name] for name in names]) for row in table.to_pylist())


def same_rows(one: pa.Table, other: pa.Table) -> bool:
    """Whether two tables of plain columns hold the same rows equally often, in whatever order.

    For large tables.
    """
    keys = [(name, "ascending") for name in one.column_names]
    ordered = [
        table.select(one.column_names).sort_by(keys).combine_chunks() for table in (one, other)
    ]
    return bool(ordered[0].equals(ordered[1]))
