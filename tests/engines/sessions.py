"""Run in the environment of the foreign engines: how its engines are begun."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any


def duckdb_with(*extensions: str) -> Any:
    """A connection of DuckDB with these extensions, in this order."""
    import duckdb

    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in extensions:
        connection.execute(f"LOAD '{extension(name)}'")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def extension(name: str) -> Path:
    """The file of an extension of DuckDB, which is in a package of its own."""
    folder = Path(str(import_module(f"duckdb_extension_{name}").__file__)).parent
    (found,) = folder.glob("**/*.duckdb_extension")
    return found


def spark_with(settings: Mapping[str, str]) -> Any:
    """A session of Spark with Iceberg's classes and these settings."""
    import snowpark_connect_deps_iceberg as jars
    from pyspark.sql import SparkSession

    (jar,) = Path(str(jars.__file__)).parent.glob("jars/iceberg-spark-runtime-3.5_2.12-*.jar")
    building = SparkSession.builder.master("local[2]")
    for name, value in {
        "spark.driver.extraClassPath": str(jar),
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        **settings,
    }.items():
        building = building.config(name, value)
    session = building.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


@contextmanager
def sail_with(uri: str, token: str) -> Iterator[Any]:
    """A session of Sail with a gateway's catalog, called ``lake``. Its server is a process."""
    from pyspark.sql.connect.session import SparkSession

    lake = f'[{{type="iceberg-rest", name="lake", uri="{uri}", bearer_access_token="{token}"}}]'
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [Path(sys.executable).parent / "sail", "spark", "server", "--port", str(port)],
        env={**os.environ, "SAIL_CATALOG__LIST": lake},
    )
    try:
        yield SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
    finally:
        server.kill()
        server.wait()


def catalog(uri: str, token: str) -> dict[str, str]:
    """Spark's settings of a gateway's catalog, called ``lake``."""
    return {
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "rest",
        "spark.sql.catalog.lake.uri": uri,
        "spark.sql.catalog.lake.credential": f"me:{token}",
    }


class Rows:
    """Rows of Spark, as an Arrow table gives its own."""

    def __init__(self, rows: list[Any]) -> None:
        self._rows = rows

    def to_pylist(self) -> list[dict[str, Any]]:
        """Each row by its columns."""
        return [row.asDict(recursive=True) for row in self._rows]


class Refused:
    """What an engine says instead of rows, as an Arrow table of one row."""

    def __init__(self, text: str) -> None:
        self._text = text

    def to_pylist(self) -> list[dict[str, Any]]:
        """One row, of the text."""
        return [{"refused": self._text}]
