"""Conditions on rows: SQL text, pyarrow expressions or filters, evaluated and used for pruning.

The problem: ``where`` must keep the same rows in every engine, and chunks that cannot match must be
recognized from their statistics alone.

The mental model: every condition becomes a ``Predicate``, a small tree of comparisons of one column
with a literal (``nodes.py``). A literal is read exactly as the type of its column, so nothing is
rounded (``literals.py``). The tree then has three uses: as a pyarrow expression for rows
(``arrow.py``), as ``may`` and ``must`` over bounds for pruning (``prune.py``), and as the range of
one column (``hull``). SQL outside the subset raises Invalid with its position, or, for pruning,
counts as true (``parse_weakened``).

Example::

    predicate = parse("origin = 'JFK' AND dep_delay > 60", schema)
    predicate.may(bounds_of)    # False: rows within these bounds can be skipped
    table.filter(predicate.expression)
"""

from blockstore.predicate.parse import (
    Condition,
    Predicate,
    between,
    parse,
    parse_filters,
    parse_weakened,
)
from blockstore.predicate.stored import names_in, parse_false, renamed

__all__ = [
    "Condition",
    "Predicate",
    "between",
    "names_in",
    "parse",
    "parse_false",
    "parse_filters",
    "parse_weakened",
    "renamed",
]
