"""Runs in the environment of the foreign engines: reads Delta tables with one of them.

Prints a JSON object: for each table its rows, as lines, or the name of the error.

``delta_clients.py ENGINE FOLDER…``
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any


def by_deltalake(folder: str) -> Any:
    import pyarrow as pa
    from deltalake import DeltaTable, QueryBuilder

    found = QueryBuilder().register("t", DeltaTable(folder)).execute("SELECT * FROM t")
    return pa.table(found.read_all())


def by_duckdb(folder: str) -> Any:
    from sessions import duckdb_with

    connection = duckdb_with("delta")
    return connection.execute(f"SELECT * FROM delta_scan('{folder}')").to_arrow_table()


def by_polars(folder: str) -> Any:
    import polars

    return polars.scan_delta(folder).collect().to_arrow()


def writing(folder: str) -> Any:
    """What Delta's own writer does to the table: it must refuse."""
    import pyarrow as pa
    from deltalake import DeltaTable, write_deltalake

    table = DeltaTable(folder)
    row = pa.table({"id": pa.array([1], pa.int64())})
    refused = []
    for act in (
        lambda: write_deltalake(table, row, mode="append"),
        lambda: table.delete(),
        lambda: table.optimize.compact(),
        lambda: table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True),
        lambda: table.vacuum(0, dry_run=False, enforce_retention_duration=False),
    ):
        try:
            act()
        except Exception as error:
            refused.append(type(error).__name__)
        else:
            refused.append("done")
    return refused


ENGINES = {"deltalake": by_deltalake, "duckdb": by_duckdb, "polars": by_polars}


def main() -> None:
    from forms import lines

    engine, *folders = sys.argv[1:]
    warnings.simplefilter("ignore")
    found: dict[str, Any] = {}
    for folder in folders:
        if engine == "writing":
            found[folder] = writing(folder)
            continue
        try:
            found[folder] = lines(ENGINES[engine](folder))
        except Exception as error:
            found[folder] = f"{type(error).__name__}: {error}"
    print(json.dumps(found))


if __name__ == "__main__":
    main()
