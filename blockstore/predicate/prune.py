"""What bounds say about a condition, without reading a row: may it be true, must it be, and in
which range.

Rules:
- ``may`` never returns False for rows among which one matches; ``must`` never returns True unless
  all match.
- A bound that is missing bounds nothing. Cut texts stay bounds: ``low`` at or below, ``high`` at or
  above all values.
- NaN is in no bound and greater than every number: where a float column may hold one, ``high`` is
  no upper bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from blockstore.predicate.literals import Kind, kind_of
from blockstore.predicate.nodes import (
    Always,
    And,
    Column,
    Compare,
    IsNull,
    Key,
    Node,
    OneOf,
    Op,
    Or,
    Prefix,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What is known of one column over some rows."""

    low: Any = None
    """A Key at or below all values;

    None = not known. Keys of one column compare, which ``Key`` cannot say.
    """
    high: Any = None
    nulls: int | None = None
    """None = not known."""
    nans: int | None = None
    rows: int

    @property
    def all_null(self) -> bool:
        return self.nulls == self.rows

    @property
    def no_null(self) -> bool:
        return self.nulls == 0

    @classmethod
    def constant(cls, key: Key | None, rows: int) -> Bounds:
        """The bounds of a column with one value, or with none."""
        return cls(low=key, high=key, nulls=rows if key is None else 0, nans=0, rows=rows)


BoundsOf: TypeAlias = Callable[[Column], Bounds]


def may(node: Node, bounds_of: BoundsOf) -> bool:
    """Whether the tree could be true for some row."""
    if isinstance(node, Always):
        return node.value
    if isinstance(node, And):
        return all(may(part, bounds_of) for part in node.parts)
    if isinstance(node, Or):
        return any(may(part, bounds_of) for part in node.parts)
    bounds = bounds_of(node.column)
    if bounds.rows == 0:
        return False
    if isinstance(node, IsNull):
        return not bounds.all_null if node.negated else not bounds.no_null
    if bounds.all_null:
        return False
    if isinstance(node, Compare):
        return _may_compare(node.op, node.key, bounds, _holds_nan(node.column, bounds))
    if isinstance(node, OneOf):
        if node.negated:
            return _holds_nan(node.column, bounds) or not (
                _single(bounds) and bounds.low in node.keys
            )
        return any(_may_compare(Op.EQ, key, bounds, nan=False) for key in node.keys)
    return _may_prefix(node, bounds)


def must(node: Node, bounds_of: BoundsOf) -> bool:
    """Whether the tree is certainly true for every row."""
    if isinstance(node, Always):
        return node.value
    if isinstance(node, And):
        return all(must(part, bounds_of) for part in node.parts)
    if isinstance(node, Or):
        return any(must(part, bounds_of) for part in node.parts)
    bounds = bounds_of(node.column)
    if bounds.rows == 0:
        return True
    if isinstance(node, IsNull):
        return bounds.no_null if node.negated else bounds.all_null
    if not bounds.no_null:
        return False
    if isinstance(node, Compare):
        # All rows match if none can match the opposite.
        return not _may_compare(node.op.negated, node.key, bounds, _holds_nan(node.column, bounds))
    if isinstance(node, OneOf):
        if node.negated:
            return not any(_may_compare(Op.EQ, key, bounds, nan=False) for key in node.keys)
        return not _holds_nan(node.column, bounds) and _single(bounds) and bounds.low in node.keys
    return not _may_prefix(Prefix(node.column, node.prefix, not node.negated), bounds)


def _may_compare(op: Op, key: Any, bounds: Bounds, nan: bool) -> bool:
    """Whether ``value op key`` can hold for a value in the bounds;

    ``nan``: the column could also hold NaN.
    """
    low, high = bounds.low, bounds.high
    if op is Op.EQ:
        return (low is None or low <= key) and (high is None or high >= key)
    if op is Op.NE:
        return nan or not (_single(bounds) and low == key)
    if op is Op.LT:
        return low is None or low < key
    if op is Op.LE:
        return low is None or low <= key
    if nan or high is None:
        return True
    return high > key if op is Op.GT else high >= key


def _may_prefix(node: Prefix, bounds: Bounds) -> bool:
    low, high = bounds.low, bounds.high
    if node.negated:
        if low is None or high is None:
            return True
        return not (low.startswith(node.prefix) and high.startswith(node.prefix))
    if high is not None and high < node.prefix:
        return False
    return low is None or low < node.prefix or low.startswith(node.prefix)


def _single(bounds: Bounds) -> bool:
    return bounds.low is not None and bounds.low == bounds.high


def _holds_nan(column: Column, bounds: Bounds) -> bool:
    return bounds.nans != 0 and kind_of(column.type) is Kind.FLOAT


@dataclass(frozen=True, slots=True)
class Hull:
    """The closed range outside of which a condition on one column is never true; None = open."""

    low: Any = None
    high: Any = None
    empty: bool = False


def hull(node: Node, name: str) -> Hull:
    """The range of values of the column ``name`` that rows for which the tree is true can have;

    NaN counts as infinity.
    """
    if isinstance(node, And):
        found = Hull()
        for part in node.parts:
            found = _intersect(found, hull(part, name))
        return found
    if isinstance(node, Or):
        found = Hull(empty=True)
        for part in node.parts:
            found = _unite(found, hull(part, name))
        return found
    if isinstance(node, Always):
        return Hull(empty=not node.value)
    if node.column.name != name:
        return Hull()
    if isinstance(node, Compare) and node.op is not Op.NE:
        return Hull(
            low=node.key if node.op in (Op.EQ, Op.GT, Op.GE) else None,
            high=node.key if node.op in (Op.EQ, Op.LT, Op.LE) else None,
        )
    if isinstance(node, OneOf) and not node.negated:
        return Hull(min(node.keys), max(node.keys)) if node.keys else Hull(empty=True)
    return Hull()


def _intersect(a: Hull, b: Hull) -> Hull:
    lows = [low for low in (a.low, b.low) if low is not None]
    highs = [high for high in (a.high, b.high) if high is not None]
    low = max(lows) if lows else None
    high = min(highs) if highs else None
    crossed = low is not None and high is not None and low > high
    return Hull(low, high, a.empty or b.empty or crossed)


def _unite(a: Hull, b: Hull) -> Hull:
    if a.empty or b.empty:
        return b if a.empty else a
    low = None if a.low is None or b.low is None else min(a.low, b.low)
    high = None if a.high is None or b.high is None else max(a.high, b.high)
    return Hull(low, high)
