"""Runs in the environment of the foreign engines: reads an exported table with one of them, and
prints its rows, one a line, in a form that does not depend on the engine.

``clients.py ENGINE METADATA [TAG]``
"""

from __future__ import annotations

import sys
import warnings
from typing import Any


def by_pyiceberg(metadata: str, tag: str | None) -> Any:
    from pyiceberg.table import StaticTable

    table = StaticTable.from_metadata(metadata)
    snapshot = None if tag is None else table.snapshot_by_name(tag).snapshot_id
    return table.scan(snapshot_id=snapshot).to_arrow()


def by_polars(metadata: str, tag: str | None) -> Any:
    import polars
    from pyiceberg.table import StaticTable

    snapshot = None
    if tag is not None:
        snapshot = StaticTable.from_metadata(metadata).snapshot_by_name(tag).snapshot_id
    return polars.scan_iceberg(metadata, snapshot_id=snapshot).collect().to_arrow()


def by_duckdb(metadata: str, tag: str | None) -> Any:
    from pyiceberg.table import StaticTable
    from sessions import duckdb_with

    connection = duckdb_with("avro", "iceberg")
    more = ""
    if tag is not None:
        snapshot = StaticTable.from_metadata(metadata).snapshot_by_name(tag).snapshot_id
        more = f", snapshot_from_id => {snapshot}"
    return connection.execute(f"SELECT * FROM iceberg_scan('{metadata}'{more})").to_arrow_table()


ENGINES = {"pyiceberg": by_pyiceberg, "polars": by_polars, "duckdb": by_duckdb}


def main() -> None:
    from forms import lines

    engine, metadata, *rest = sys.argv[1:]
    warnings.simplefilter("ignore")
    for line in lines(ENGINES[engine](metadata, rest[0] if rest else None)):
        print(line)


if __name__ == "__main__":
    main()
