"""The rows of a block that a statement leaves as they are, where rows have no identity: they are
written again, since the block is replaced.

Rules:
- A row either is among these or among the rows of the statement's own SELECT (``rows.py``), and
  once. Both are computed by queries of their own, so their writer compares what they say of the
  rows that change.
- The rows of one block are asked for, and where the statement names its table, as in a subquery, it
  means all of it. So the block has a name of its own.
"""

from __future__ import annotations

from blockstore.reader.query.sql.types import quoted
from blockstore.reader.statements.clauses import Act, Delete, Dml, Merge, Update, When
from blockstore.reader.statements.images import hash_of
from blockstore.reader.statements.merging import first_of, matches, using_name
from blockstore.reader.statements.rows import goes
from blockstore.reader.statements.shape import Shape


def kept(dml: Dml, table: str, shape: Shape) -> str:
    """The SELECT of all rows of the block ``block_of(table)``: the table's columns and ``_source``,
    whether the row stays, and a hash of it."""
    own, names = quoted(dml.target.alias), shape.definition.schema.names
    columns = [f"{own}.{quoted(name)}" for name in (*names, "_source")]
    hashed = hash_of(own, shape.columns.names)
    return (
        f"{dml.withs}SELECT {', '.join(columns)}, {_stays(dml)}, {hashed}\n"
        f"FROM {quoted(block_of(table))} AS {own}"
    )


def block_of(table: str) -> str:
    """The name of a block of a table that is read alone; no table and no WITH has such a name."""
    return f"{table}/block"


def _stays(dml: Dml) -> str:
    match dml:
        case Delete():
            return f"NOT coalesce({goes(dml)}, false)"
        case Update():
            same = Delete(source=dml.source, target=dml.target, others=dml.others, where=dml.where)
            return f"NOT coalesce({goes(same)}, false)"
        case Merge():
            return _unmerged(dml)
    return "true"


def _unmerged(dml: Merge) -> str:
    source = f"FROM {dml.using.text}\nWHERE {matches(dml)}"
    if dml.using_alias == "":
        source = (
            f"FROM (SELECT * FROM {dml.using.text}\n) AS {using_name(dml)} WHERE {matches(dml)}"
        )
    changed = f"{first_of(dml, When.MATCHED)} IN ({_numbers(dml, When.MATCHED)})"
    alone = f"{first_of(dml, When.BY_SOURCE)} IN ({_numbers(dml, When.BY_SOURCE)})"
    return (
        f"NOT EXISTS (SELECT 1 {source} AND coalesce({changed}, false)) "
        f"AND NOT (coalesce({alone}, false) AND NOT EXISTS (SELECT 1 {source}))"
    )


def _numbers(dml: Merge, when: When) -> str:
    found = [
        str(number)
        for number, one in enumerate(dml.clauses, 1)
        if one.when is when and one.act in (Act.UPDATE, Act.DELETE)
    ]
    return ", ".join(found) or "NULL"
