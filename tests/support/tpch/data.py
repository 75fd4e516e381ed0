"""The eight tables of TPC-H, made by tpchgen and written into a lake in a few blocks each."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import blockstore as bs

__all__ = ["TABLES", "bare", "lake", "make"]

TABLES: Mapping[str, str | None] = {
    "region": None,
    "nation": None,
    "supplier": None,
    "customer": None,
    "part": None,
    "partsupp": None,
    "orders": "o_orderdate",
    "lineitem": "l_shipdate",
}
"""Each table, and the date by which its blocks are told apart."""
_BLOCK_ROWS = 1_500_000


def make(scale: float, folder: Path) -> Path:
    """One Parquet file a table, at this scale. Raises CalledProcessError."""
    program = shutil.which("tpchgen-cli", path=sysconfig.get_path("scripts")) or "tpchgen-cli"
    words = [program, "parquet", "-s", f"{scale:g}", "-o", str(folder), "--quiet"]
    subprocess.run(words, check=True, timeout=3600)
    return folder


def lake(files: Path, folder: Path, *, block_rows: int = _BLOCK_ROWS) -> str:
    """A lake of the tables, each in blocks of about so many rows; its URL."""
    for name, date in TABLES.items():
        opened = pq.ParquetFile(files / f"{name}.parquet")
        schema = _plain(opened.schema_arrow)
        table = bs.create(f"{folder}/{name}?durable=false", schema=schema, time_column=date)
        held: list[pa.RecordBatch] = []
        for batch in opened.iter_batches(batch_size=100_000):
            held.append(batch)
            if sum(one.num_rows for one in held) >= block_rows:
                table.append(pa.Table.from_batches(held).cast(schema))
                held = []
        if held:
            table.append(pa.Table.from_batches(held).cast(schema))
    return str(folder)


def bare(files: Path) -> duckdb.DuckDBPyConnection:
    """DuckDB with the files as views: what an answer is held against."""
    connection = duckdb.connect()
    for name in TABLES:
        connection.execute(
            f"create view {name} as select * from read_parquet('{files}/{name}.parquet')"
        )
    return connection


def _plain(schema: pa.Schema) -> pa.Schema:
    """The schema with the texts as plain ones, and nothing beside names and types."""
    return pa.schema([(field.name, _type(field.type)) for field in schema])


def _type(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_string_view(kind) or pa.types.is_large_string(kind) else kind
