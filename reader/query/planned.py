"""What a query would read of each table that it names, without running it.

Rules:
- The plans are those that ``engine.py`` makes of the same text, before the rows are known that
  newer versions hide.
- A table that a policy restricts is refused: which blocks are left out would say what the rows of
  others have.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from blockstore.reader.query.sight import Sight
from blockstore.reader.query.sql.conditions import conditions
from blockstore.reader.query.sql.counting import bare_count
from blockstore.reader.query.sql.hidden import hide
from blockstore.reader.query.sql.parameters import bind
from blockstore.reader.query.sql.syntax import Syntax
from blockstore.reader.query.task import Parameters
from blockstore.scan.plan import ScanPlan, plan_scan
from blockstore.scan.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One place where a query names a table."""

    table: str
    snapshot: Snapshot
    plan: ScanPlan
    counted: bool
    """Whether the query is a count that what is known of the blocks gives: it reads none."""


def planned(sight: Sight, syntax: Syntax, sql: str, parameters: Parameters) -> tuple[Planned, ...]:
    """The plans of a query, in the order of its names. Raises BadSql, UnknownTable, Restricted."""
    statement = sight.parse(syntax, sql)
    snapshots = sight.snapshots(statement)
    columns = {name: one.snapshot.columns for name, one in snapshots.items()}
    seen = hide(statement, {name: one.visible for name, one in columns.items()})
    bind(statement.root, parameters)
    wanted = conditions(statement, {name: one.all for name, one in columns.items()})
    plans = {
        name: plan_scan(snapshots[one.table].snapshot, where=wanted[name])
        for name, one in seen.views.items()
    }
    is_plain = not statement.relations and not any(plan.changes for plan in plans.values())
    counted = is_plain and bare_count(statement, snapshots, plans) is not None
    return tuple(
        Planned(
            table=statement.earlier.get(one.table, (one.table,))[0],
            snapshot=snapshots[one.table].snapshot,
            plan=replace(plans[name], chunks=()) if counted else plans[name],
            counted=counted,
        )
        for name, one in seen.views.items()
    )
