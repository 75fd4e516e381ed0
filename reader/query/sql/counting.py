"""Queries of all rows of one table, known by their form.

``SELECT count(*) FROM t`` and nothing else: the count comes from metadata, if it is exact, and no
file is opened.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from blockstore.reader.query.sql.hidden import VIEW
from blockstore.reader.query.sql.statement import GIVEN, Node, Statement, walk
from blockstore.scan.plan import ScanPlan
from blockstore.scan.view import TableSnapshot

_SELECT = {"type", "cte_map", "select_list", "from_table", "aggregate_handling"}
_TABLE = {
    "type",
    "alias",
    "query_location",
    "query_location_length",
    "table_name",
    "qualified_name",
    GIVEN,
    VIEW,
}
_COUNT = {
    "class",
    "type",
    "alias",
    "query_location",
    "query_location_length",
    "function_name",
    "order_bys",
    "distinct",
    "is_operator",
    "export_state",
    "qualified_name",
}


def reads_all(statement: Statement) -> bool:
    """Whether the query names one table once, and reads all of its rows: no condition and no join
    could spare it some of them."""
    nodes = [*walk(statement.root)]
    froms = [node["from_table"].get("type") for node in nodes if "from_table" in node]
    return (
        sum(node.get("type") == "BASE_TABLE" for node in nodes) == 1
        and all(kind in ("BASE_TABLE", "SUBQUERY") for kind in froms)
        and not any(node.get("where_clause") for node in nodes)
    )


def bare_count(
    statement: Statement,
    snapshots: Mapping[str, TableSnapshot],
    plans: Mapping[str, ScanPlan],
) -> tuple[str, int] | None:
    """The column's name and the count, if the query is a bare count and metadata give it. The
    ``plans`` of the views know which rows are hidden."""
    root = statement.root
    columns, table = root.get("select_list"), root.get("from_table")
    if root.get("type") != "SELECT_NODE" or set(root) - _SELECT or root.get("cte_map"):
        return None
    if not isinstance(columns, list) or len(columns) != 1 or not isinstance(table, dict):
        return None
    if root.get("aggregate_handling") != "STANDARD_HANDLING" or not _is_count(columns[0]):
        return None
    if table.get("type") != "BASE_TABLE" or GIVEN not in table or set(table) - _TABLE:
        return None
    rows = snapshots[table[GIVEN]].snapshot.count()
    if rows is None:
        rows = _counted(plans[table[VIEW]])
    return None if rows is None else (str(columns[0].get("alias") or "count_star()"), rows)


def _counted(plan: ScanPlan) -> int | None:
    """The rows of a plan of a complete table, if no file must be read for it."""
    return None if any(chunk.filtered for chunk in plan.chunks) else plan.rows


def _is_count(node: Node) -> bool:
    return (
        node.get("class") == "FUNCTION"
        and node.get("function_name") == "count_star"
        and not set(node) - _COUNT
        and node.get("order_bys") == {"type": "ORDER_MODIFIER"}
        and not node.get("distinct")
        and not node.get("export_state")
    )


class Counted:
    """A result of one number, as a running query."""

    def __init__(self, name: str, rows: int) -> None:
        self.schema = pa.schema([(name, pa.int64())])
        self._rows = rows

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array([self._rows], pa.int64())], schema=self.schema)

    def cancel(self) -> None:
        """Nothing runs."""

    def close(self) -> None:
        """Nothing is held."""
