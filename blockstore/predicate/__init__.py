"""Conditions on rows: a stated subset of SQL, pyarrow expressions and filters; evaluated, and
pruned by."""

from blockstore.predicate.parse import (
    Condition,
    Predicate,
    between,
    parse,
    parse_filters,
    parse_weakened,
)

__all__ = ["Condition", "Predicate", "between", "parse", "parse_filters", "parse_weakened"]
