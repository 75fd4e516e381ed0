"""Runs in the environment of the foreign engines: reads Delta tables with one of them.

Prints a JSON object: for each argument its rows, as lines, or the error.

``delta_clients.py ENGINE FOLDER@VERSION…``
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any


def by_deltalake(folder: str, version: int) -> Any:
    import pyarrow as pa
    from deltalake import DeltaTable, QueryBuilder

    table = DeltaTable(folder, version=version)
    found = QueryBuilder().register("t", table).execute("SELECT * FROM t")
    return pa.table(found.read_all())


def by_duckdb(folder: str, version: int) -> Any:
    from sessions import duckdb_with

    connection = duckdb_with("delta")
    scan = f"delta_scan('{folder}', version => {version})"
    return connection.execute(f"SELECT * FROM {scan}").to_arrow_table()


def by_polars(folder: str, version: int) -> Any:
    import polars

    return polars.scan_delta(folder, version=version).collect().to_arrow()


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

    engine, *asked = sys.argv[1:]
    warnings.simplefilter("ignore")
    found: dict[str, Any] = {}
    for one in asked:
        if engine == "writing":
            found[one] = writing(one)
            continue
        folder, version = one.rsplit("@", 1)
        try:
            found[one] = lines(ENGINES[engine](folder, int(version)))
        except Exception as error:
            found[one] = f"{type(error).__name__}: {error}"
    print(json.dumps(found))


if __name__ == "__main__":
    main()
