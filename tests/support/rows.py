"""Rows as a multiset: what must not be lost and must not be doubled."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa

__all__ = ["multiset"]


def multiset(table: pa.Table) -> Counter[str]:
    """How often each row stands in a table, whatever the order of rows, columns and chunks."""
    names = sorted(table.column_names)
    return Counter(repr([row[name] for name in names]) for row in table.to_pylist())
