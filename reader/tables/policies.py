"""Policies: which rows and columns of some tables a caller may see, as an operator configures them.

Rules:
- A table that a policy concerns is taken out of what its caller may reach (``names.py``): every
  door and route refuses it, whatever it does, but the one that carries a policy out, which is a
  query (``query/fences.py``). A new route is closed until it has learned what a policy is.
- Of several policies about one table all hold: rows that all of them show, columns that none of
  them hides.
- Names are compared so that a policy rather concerns a table too many (``names.alike``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from blockstore.errors import Invalid
from blockstore.reader.tables.names import WITHOUT, matches

if TYPE_CHECKING:
    from sqlglot import exp


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What is to be seen of some tables."""

    name: str
    tables: frozenset[str]
    """By name or by pattern."""
    rows: str | None = None
    """The condition of the rows that are seen; None for all. ``current_user`` in it is the name of
    the caller."""
    columns: frozenset[str] | None = None
    """The columns that are seen; None for all."""
    hide: frozenset[str] = frozenset()
    """The columns that are not seen."""

    def __post_init__(self) -> None:
        place = f'[policies."{self.name}"]'
        if not self.name:
            raise Invalid(f"{place} has no name: give it one")
        if not self.tables or not all(self.tables):
            raise Invalid(f'{place} names no tables: set tables, such as ["orders", "sales_*"]')
        if any(one.startswith(WITHOUT) for one in self.tables):
            raise Invalid(f"{place} names a table that begins with {WITHOUT}: it cannot be meant")
        if self.rows is None and self.columns is None and not self.hide:
            raise Invalid(f"{place} restricts nothing: set rows, columns or hide")
        if self.columns is not None and self.hide:
            raise Invalid(f"{place} has columns and hide: set the ones to show, or to hide")
        if self.columns is not None and not self.columns:
            raise Invalid(f"{place} shows no column: name some in columns, or leave them out")
        if self.rows is not None:
            try:
                with_user(self.rows, "")
            except Invalid as error:
                raise Invalid(f"rows of {place}: {error}") from None

    def concerns(self, table: str) -> bool:
        """Whether it is about this table."""
        return matches(self.tables, table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """The policies of one caller, by whose name they go."""

    user: str
    policies: tuple[Policy, ...]

    def of(self, table: str) -> tuple[Policy, ...]:
        """Those about a table."""
        return tuple(one for one in self.policies if one.concerns(table))


def without(tables: frozenset[str] | None, policies: Iterable[Policy]) -> frozenset[str] | None:
    """What a caller with such a list of tables may reach without a policy."""
    out = {f"{WITHOUT}{table}" for policy in policies for table in policy.tables}
    if not out:
        return tables
    return frozenset({"*"} if tables is None else tables) | out


def with_user(rows: str, user: str) -> exp.Expression:
    """The syntax tree of the condition of a policy, with a caller's name for ``current_user``.
    Raises Invalid for a text that is no condition."""
    from sqlglot import exp

    from blockstore.predicate.parse import syntax_tree

    tree = syntax_tree(rows)
    for like in tree.find_all(exp.Like, exp.ILike, exp.SimilarTo, exp.RegexpLike):
        if like.find(exp.CurrentUser) is not None:
            raise Invalid(
                "current_user is in a pattern, and a name may have a % in it: compare it with ="
            )

    def named(node: exp.Expression) -> exp.Expression:
        return exp.Literal.string(user) if isinstance(node, exp.CurrentUser) else node

    return tree.transform(named)
