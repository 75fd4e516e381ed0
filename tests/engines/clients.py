"""Runs in the environment of the foreign engines: reads exported tables with one of them.

Prints a JSON object: for each table its newest rows and those of its tags, as lines.

``clients.py ENGINE METADATA…``
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any


def by_pyiceberg(metadata: str, snapshot: int | None) -> Any:
    from pyiceberg.table import StaticTable

    return StaticTable.from_metadata(metadata).scan(snapshot_id=snapshot).to_arrow()


def by_polars(metadata: str, snapshot: int | None) -> Any:
    import polars

    return polars.scan_iceberg(metadata, snapshot_id=snapshot).collect().to_arrow()


def by_duckdb(metadata: str, snapshot: int | None) -> Any:
    from sessions import duckdb_with

    connection = duckdb_with("avro", "iceberg")
    more = "" if snapshot is None else f", snapshot_from_id => {snapshot}"
    return connection.execute(f"SELECT * FROM iceberg_scan('{metadata}'{more})").to_arrow_table()


ENGINES = {"pyiceberg": by_pyiceberg, "polars": by_polars, "duckdb": by_duckdb}


def main() -> None:
    from forms import lines, snapshots
    from pyiceberg.table import StaticTable

    engine, *tables = sys.argv[1:]
    warnings.simplefilter("ignore")
    found = {}
    for metadata in tables:
        asked = [None, *snapshots(StaticTable.from_metadata(metadata))]
        found[metadata] = [lines(ENGINES[engine](metadata, snapshot)) for snapshot in asked]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
