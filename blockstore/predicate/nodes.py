"""A condition on rows, as a tree in negation normal form.

Rules:
- NOT occurs only inside leaves, so that a row is kept exactly if the tree is *true* for it: null
  and false need not be distinguished, and AND and OR are ordinary two-valued logic.
- A leaf is never true for a null, save ``IsNull``.
- Floats are ordered as SQL engines do it: NaN equals itself and is greater than everything else.
- The value in a leaf is a key: a Python value in which the column's values are ordered
  (``literals.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import TypeAlias

import pyarrow as pa

Key: TypeAlias = bool | int | float | Decimal | str | bytes


class Op(StrEnum):
    """A comparison of a column with a value."""

    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="

    @property
    def negated(self) -> Op:
        """What holds, for values that are not null, exactly when this does not."""
        return _NEGATED[self]

    @property
    def flipped(self) -> Op:
        """The same comparison with its sides exchanged."""
        return _FLIPPED[self]


_NEGATED = {Op.EQ: Op.NE, Op.NE: Op.EQ, Op.LT: Op.GE, Op.GE: Op.LT, Op.GT: Op.LE, Op.LE: Op.GT}
_FLIPPED = {Op.EQ: Op.EQ, Op.NE: Op.NE, Op.LT: Op.GT, Op.GT: Op.LT, Op.LE: Op.GE, Op.GE: Op.LE}


@dataclass(frozen=True, slots=True)
class Column:
    """A top-level column, by its exact name."""

    name: str
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Always:
    """True for every row, or for none."""

    value: bool


@dataclass(frozen=True, slots=True)
class Compare:
    """``column op key``."""

    column: Column
    op: Op
    key: Key


@dataclass(frozen=True, slots=True)
class OneOf:
    """The column is not null and is among the keys, or is among none of them."""

    column: Column
    keys: tuple[Key, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class IsNull:
    """The column is null, or is not."""

    column: Column
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Prefix:
    """The text starts with the prefix, or is not null and does not."""

    column: Column
    prefix: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class And:
    """Every part is true. At least two parts."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Some part is true. At least two parts."""

    parts: tuple[Node, ...]


Node: TypeAlias = Always | Compare | OneOf | IsNull | Prefix | And | Or

TRUE, FALSE = Always(True), Always(False)


def conjunction(*parts: Node) -> Node:
    """Return the conjunction of the parts, flattened, without parts that change nothing."""
    kept: list[Node] = []
    for part in parts:
        if part == FALSE:
            return FALSE
        if part != TRUE:
            kept.extend(part.parts if isinstance(part, And) else (part,))
    return And(tuple(kept)) if len(kept) > 1 else kept[0] if kept else TRUE


def disjunction(*parts: Node) -> Node:
    """Return the disjunction of the parts, flattened, without parts that change nothing."""
    kept: list[Node] = []
    for part in parts:
        if part == TRUE:
            return TRUE
        if part != FALSE:
            kept.extend(part.parts if isinstance(part, Or) else (part,))
    return Or(tuple(kept)) if len(kept) > 1 else kept[0] if kept else FALSE


def columns_of(node: Node) -> Iterator[Column]:
    """Every column that the tree looks at, once for each leaf."""
    if isinstance(node, And | Or):
        for part in node.parts:
            yield from columns_of(part)
    elif not isinstance(node, Always):
        yield node.column


def find_column(schema: pa.Schema, name: str) -> Column | None:
    """Return the column of this name; upper and lower case differ only where the schema needs
    it."""
    names = schema.names
    if name not in names:
        alike = [other for other in names if other.lower() == name.lower()]
        if len(alike) != 1:
            return None
        name = alike[0]
    return Column(name, schema.field(names.index(name)).type)
