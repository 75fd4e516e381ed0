"""Runs in the environment of the foreign engines: reads all tables of a catalog with one of them.

Prints a JSON object: for each table its rows now and at the tag ``then``, as lines.

``catalog_clients.py ENGINE URI TOKEN NAMESPACE``
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from typing import Any

Read = Iterator[tuple[str, Any, Any]]
"""Each table's name, its rows, and its rows at the tag; both as Arrow tables."""


def _pyiceberg(uri: str, token: str, namespace: str) -> Iterator[tuple[str, Any, int]]:
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("lake", type="rest", uri=uri, credential=f"me:{token}")
    assert catalog.list_namespaces() == [(namespace,)]
    for identifier in catalog.list_tables(namespace):
        table = catalog.load_table(identifier)
        snapshot = table.snapshot_by_name("then")
        assert snapshot is not None
        yield identifier[-1], table, snapshot.snapshot_id


def by_pyiceberg(uri: str, token: str, namespace: str) -> Read:
    for name, table, then in _pyiceberg(uri, token, namespace):
        yield name, table.scan().to_arrow(), table.scan(snapshot_id=then).to_arrow()


def by_polars(uri: str, token: str, namespace: str) -> Read:
    import polars

    for name, table, then in _pyiceberg(uri, token, namespace):
        now = polars.scan_iceberg(table).collect().to_arrow()
        yield name, now, polars.scan_iceberg(table, snapshot_id=then).collect().to_arrow()


def by_duckdb(uri: str, token: str, namespace: str) -> Read:
    from sessions import duckdb_with

    connection = duckdb_with("avro", "httpfs", "iceberg")
    connection.execute(f"CREATE SECRET (TYPE iceberg, TOKEN '{token}')")
    connection.execute(f"ATTACH '' AS lake (TYPE iceberg, ENDPOINT '{uri}')")
    names = connection.execute(
        "SELECT table_name FROM duckdb_tables() WHERE database_name = 'lake' AND schema_name = ?",
        [namespace],
    ).fetchall()
    for (name,) in sorted(names):
        place = f'lake."{namespace}"."{name}"'
        now = connection.execute(f"SELECT * FROM {place}").to_arrow_table()
        then = min(
            one for (one,) in connection.execute(
                f"SELECT snapshot_id FROM iceberg_snapshots({place})"
            ).fetchall()
        )  # fmt: skip
        yield (
            name,
            now,
            connection.execute(f"SELECT * FROM {place} AT (VERSION => {then})").to_arrow_table(),
        )


def by_spark(uri: str, token: str, namespace: str) -> Read:
    from sessions import Rows, catalog, spark_with

    session = spark_with(catalog(uri, token))
    for row in session.sql(f"SHOW TABLES IN lake.`{namespace}`").collect():
        place = f"lake.`{namespace}`.`{row.tableName}`"
        now = session.sql(f"SELECT * FROM {place}")
        then = session.sql(f"SELECT * FROM {place} VERSION AS OF 'then'")
        yield row.tableName, Rows(now.collect()), Rows(then.collect())
    session.stop()


ENGINES = {"pyiceberg": by_pyiceberg, "polars": by_polars, "duckdb": by_duckdb, "spark": by_spark}


def main() -> None:
    from forms import lines

    engine, *words = sys.argv[1:]
    warnings.simplefilter("ignore")
    found = {name: [lines(now), lines(then)] for name, now, then in ENGINES[engine](*words)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
