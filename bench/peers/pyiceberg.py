"""Apache Iceberg through pyiceberg, with a SQLite catalog in the same folder."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.typedef import Record

from bench import files
from bench.peers.api import Handle, Peer

__all__ = ["CONTESTANTS", "Iceberg"]

NAME = "bench.events"


class IcebergHandle(Handle):
    def __init__(self, catalog: SqlCatalog, table: Table, directory: Path) -> None:
        self._catalog = catalog
        self._table = table
        self._directory = directory

    def append(self, table: pa.Table) -> None:
        self._table.append(table)

    def upsert(self, table: pa.Table, key: str) -> None:
        self._table.upsert(table, join_cols=[key], when_not_matched_insert_all=False)

    def ingest(self, tables: Iterable[pa.Table]) -> None:
        paths = []
        for number, table in enumerate(tables):
            path = self._directory / f"part-{number:06d}.parquet"
            pq.write_table(table, path, compression="zstd", compression_level=1)
            paths.append(str(path))
        self._table.add_files(paths)

    def add_files(self, first: int, count: int) -> None:
        place = f"{self._table.location()}/data"
        with (
            self._table.transaction() as transaction,
            transaction.update_snapshot().fast_append() as append,
        ):
            for number in range(first, first + count):
                append.append_data_file(_file(place, number))

    def plan(self, key: int) -> int:
        return len([task.file for task in self._table.scan(row_filter=f"id = {key}").plan_files()])

    def plan_all(self) -> int:
        return self.blocks()

    def iceberg_metadata(self) -> str:
        return str(self._table.metadata_location)

    def poll(self) -> None:
        self._table.refresh()

    def blocks(self) -> int:
        return len([task.file.file_path for task in self._table.scan().plan_files()])

    def count(self) -> int:
        self._table.refresh()
        return int(self._table.scan().count())

    def point_range(self, low: int, high: int) -> int:
        return int(self._table.scan(row_filter=f"id >= {low} and id <= {high}").to_arrow().num_rows)

    def group_by(self, shift: int) -> Mapping[str, int]:
        rows = self._table.scan(selected_fields=("origin", "value")).to_arrow()
        rows = rows.set_column(
            rows.schema.get_field_index("value"), "value", pc.add(rows["value"], shift)
        )
        answer = rows.group_by("origin").aggregate([("value", "count"), ("value", "sum")])
        return dict(
            zip(answer["origin"].to_pylist(), answer["value_count"].to_pylist(), strict=True)
        )

    def merge(self) -> Sequence[Path]:
        # It has no rewrite of small files: read all, write all, in one overwrite.
        self._table.overwrite(self._table.scan().to_arrow())
        return ()

    def close(self) -> None:
        self._catalog.close()


class Iceberg(Peer):
    name = "iceberg"
    family = "iceberg"
    distribution = "pyiceberg"
    settings = "SQLite catalog in the same folder; a merge is one overwrite with all rows"

    def create(self, directory: Path, schema: pa.Schema, sort_by: Sequence[str]) -> Handle:
        (directory / "warehouse").mkdir()
        catalog = self._catalog(directory)
        catalog.create_namespace("bench")
        return IcebergHandle(catalog, catalog.create_table(NAME, schema=schema), directory)

    def open(self, directory: Path) -> Handle:
        catalog = self._catalog(directory)
        return IcebergHandle(catalog, catalog.load_table(NAME), directory)

    def _catalog(self, directory: Path) -> SqlCatalog:
        return SqlCatalog(
            "bench",
            uri=f"sqlite:///{directory}/catalog.db",
            warehouse=f"file://{directory}/warehouse",
        )


def _file(place: str, number: int) -> DataFile:
    """A file of ``bench.files``, as a manifest has it."""
    ends = (
        {field: _packed(value) for field, value in enumerate(values, 1)}
        for values in files.bounds(number)
    )
    least, greatest = ends
    fields = range(1, len(files.SCHEMA) + 1)
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{place}/{files.name(number)}",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=files.ROWS,
        file_size_in_bytes=files.BYTES,
        column_sizes={},
        value_counts=dict.fromkeys(fields, files.ROWS),
        null_value_counts=dict.fromkeys(fields, 0),
        nan_value_counts={},
        lower_bounds=least,
        upper_bounds=greatest,
        key_metadata=None,
        split_offsets=None,
        equality_ids=None,
        sort_order_id=None,
    )
    file.spec_id = 0
    return file


def _packed(value: float) -> bytes:
    return struct.pack("<d" if isinstance(value, float) else "<q", value)


CONTESTANTS = (Iceberg(),)
