"""Runs in the environment of the foreign engines: reads all tables of a catalog with one of them.

Prints a JSON object: for each table its newest rows and those of its tags, as lines.

``catalog_clients.py ENGINE URI TOKEN NAMESPACE``
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Iterator
from typing import Any

Read = Iterator[tuple[str, list[Any]]]
"""Each table's name, and its rows now and at each tag, as Arrow tables."""


def _pyiceberg(uri: str, token: str, namespace: str) -> Iterator[tuple[str, Any, list[int | None]]]:
    from forms import snapshots
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("lake", type="rest", uri=uri, credential=f"me:{token}")
    assert catalog.list_namespaces() == [(namespace,)]
    for identifier in catalog.list_tables(namespace):
        table = catalog.load_table(identifier)
        yield identifier[-1], table, [None, *snapshots(table)]


def by_pyiceberg(uri: str, token: str, namespace: str) -> Read:
    for name, table, asked in _pyiceberg(uri, token, namespace):
        yield name, [table.scan(snapshot_id=one).to_arrow() for one in asked]


def by_polars(uri: str, token: str, namespace: str) -> Read:
    import polars

    for name, table, asked in _pyiceberg(uri, token, namespace):
        frames = [polars.scan_iceberg(table, snapshot_id=one) for one in asked]
        yield name, [frame.collect().to_arrow() for frame in frames]


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
        listed = connection.execute(f"SELECT snapshot_id FROM iceberg_snapshots({place})")
        *tagged, _ = sorted(one for (one,) in listed.fetchall())
        asked = ["", *(f" AT (VERSION => {one})" for one in tagged)]
        # A connection keeps one result.
        yield (
            name,
            [connection.execute(f"SELECT * FROM {place}{at}").to_arrow_table() for at in asked],
        )


def by_spark(uri: str, token: str, namespace: str) -> Read:
    from sessions import Rows, catalog, spark_with

    session = spark_with(catalog(uri, token))
    for row in session.sql(f"SHOW TABLES IN lake.`{namespace}`").collect():
        place = f"lake.`{namespace}`.`{row.tableName}`"
        asked = ["", " VERSION AS OF 'first'", " VERSION AS OF 'then'"]
        found = [session.sql(f"SELECT * FROM {place}{at}").collect() for at in asked]
        yield row.tableName, [Rows(rows) for rows in found]
    session.stop()


def by_daft(uri: str, token: str, namespace: str) -> Read:
    import daft
    from sessions import Refused

    def read(table: Any, one: int | None) -> Any:
        try:
            return daft.read_iceberg(table, snapshot_id=one).to_arrow()
        except ValueError as error:
            return Refused(re.sub(r"\d+", "N", str(error)))

    for name, table, asked in _pyiceberg(uri, token, namespace):
        yield name, [read(table, one) for one in asked]


def by_sail(uri: str, token: str, namespace: str) -> Read:
    from sessions import Rows, sail_with

    with sail_with(uri, token) as session:
        for row in session.sql(f"SHOW TABLES IN lake.`{namespace}`").collect():
            place = f"lake.`{namespace}`.`{row.tableName}`"
            asked = ["", " VERSION AS OF 'first'", " VERSION AS OF 'then'"]
            found = [session.sql(f"SELECT * FROM {place}{at}").collect() for at in asked]
            yield row.tableName, [Rows(rows) for rows in found]


ENGINES = {
    "pyiceberg": by_pyiceberg,
    "polars": by_polars,
    "daft": by_daft,
    "duckdb": by_duckdb,
    "spark": by_spark,
    "sail": by_sail,
}


def main() -> None:
    from forms import lines

    engine, *words = sys.argv[1:]
    warnings.simplefilter("ignore")
    found = {name: [lines(one) for one in rows] for name, rows in ENGINES[engine](*words)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
