"""What a query sees of a table that policies restrict: some columns, and the rows of a condition.

Rules:
- A fence is made for the columns that the table has in the snapshot that is read. Where it does not
  fit them (a column that it names is missing, or has a type that the condition is not for), the
  table is not read at all. The operator's log says why; the caller is not told what a policy says.
- The condition is one of ours (``blockstore.predicate``): a comparison of columns with constants.
  It cannot fail for a row, so nothing of a hidden row is in an error.
- Hidden columns (``_row_id``, …) are not seen: they say how many other rows there are.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from blockstore.errors import Invalid
from blockstore.predicate import Predicate
from blockstore.reader.errors import Restricted
from blockstore.reader.query.sql.reading import Named
from blockstore.reader.tables.names import folded
from blockstore.reader.tables.policies import Policy, with_user

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """What is seen of one table."""

    policies: tuple[str, ...]
    """The names of the policies that say it."""
    columns: pa.Schema
    """The columns that are seen, in the order of the table."""
    rows: Predicate
    """The condition of the rows that are seen."""

    def reads(self, named: Named | None) -> Named | None:
        """The columns that must be there for a query that names these: also those of the
        condition."""
        if named is None:
            return None
        return Named(named.names | {folded(column) for column in self.rows.columns})


def fence_of(table: str, columns: pa.Schema, policies: Sequence[Policy], user: str) -> Fence:
    """The fence of policies around a table with these columns, for a caller of this name. Raises
    Restricted where one of them does not fit the table."""
    if not policies:
        raise Restricted(table)
    seen = columns
    rows = Predicate()
    try:
        for policy in policies:
            seen = pa.schema([field for field in seen if field.name in _seen(policy, columns)])
            if policy.rows is not None:
                rows = rows.also(_condition(policy.rows, columns, user))
    except Invalid as error:
        _logger.error("policy %r does not fit table %s: %s", policy.name, table, error)
        raise Restricted(
            table,
            f"a policy about table {table[:200]} does not fit it, so it cannot be read: ask the "
            "operator, whose log says why",
        ) from None
    if not len(seen):
        raise Restricted(table, f"the policies about table {table[:200]} show no column of it")
    names = tuple(policy.name for policy in policies)
    return Fence(policies=names, columns=seen, rows=rows)


def _seen(policy: Policy, columns: pa.Schema) -> frozenset[str]:
    """The columns that a policy shows. Raises Invalid for a column to hide that there is not."""
    given: dict[str, list[str]] = {folded(name): [] for name in columns.names}
    for name in columns.names:
        given[folded(name)].append(name)
    if policy.columns is not None:
        exact = policy.columns.intersection(columns.names)
        other = [given.get(folded(name), []) for name in policy.columns - exact]
        return exact.union(*other)
    missing = [name for name in sorted(policy.hide) if folded(name) not in given]
    if missing:
        raise Invalid(f"it hides the column {missing[0]!r}, which the table does not have")
    hidden = {one for name in policy.hide for one in given[folded(name)]}
    return frozenset(columns.names) - hidden


def _condition(rows: str, columns: pa.Schema, user: str) -> Predicate:
    """The condition, with the caller's name in it. Raises Invalid."""
    from blockstore.predicate.translate import Translator

    return Predicate(node=Translator(columns).node(with_user(rows, user)))
