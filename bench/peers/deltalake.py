"""Delta Lake through delta-rs (deltalake)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from deltalake.transaction import AddAction, RemoveAction

from bench import files
from bench.peers.api import Handle, Peer

__all__ = ["CONTESTANTS", "Delta"]

# delta-rs rewrites nothing above this size; larger than any table here, so that a merge makes one
# file.
TARGET_BYTES = 16 * 2**30


class DeltaHandle(Handle):
    def __init__(self, table: DeltaTable, directory: Path) -> None:
        self._table = table
        self._directory = directory
        self._queries: QueryBuilder | None = None
        self._source = pa.table({})

    def append(self, table: pa.Table) -> None:
        write_deltalake(self._table, table, mode="append")

    def upsert(self, table: pa.Table, key: str) -> None:
        merger = self._table.merge(table, f"t.{key} = s.{key}", source_alias="s", target_alias="t")
        merger.when_matched_update_all().execute()

    def take_source(self, table: pa.Table) -> None:
        self._source = table

    def merge_source(self, key: str) -> None:
        merger = self._table.merge(
            self._source, f"t.{key} = s.{key}", source_alias="s", target_alias="t"
        )
        merger.when_matched_update_all().when_not_matched_insert_all().execute()

    def set_value(self, low: int, high: int, value: float) -> None:
        where = f"id BETWEEN {low} AND {high}"
        self._table.update(predicate=where, updates={"value": str(value)})

    def ingest(self, tables: Iterable[pa.Table]) -> None:
        actions: list[AddAction | RemoveAction] = [
            self._add(number, table) for number, table in enumerate(tables)
        ]
        self._table.create_write_transaction(actions, "append", self._table.schema(), [])
        self._table.update_incremental()
        self._table.create_checkpoint()

    def add_files(self, first: int, count: int) -> None:
        actions: list[AddAction | RemoveAction] = [
            AddAction(files.name(number), files.BYTES, {}, 0, True, _statistics(number))
            for number in range(first, first + count)
        ]
        self._table.create_write_transaction(actions, "append", self._table.schema(), [])
        self._table.update_incremental()

    def plan(self, key: int) -> int:
        return len(self._table.file_uris(file_pruning_predicate=f"id = {key}"))

    def plan_all(self) -> int:
        return self.blocks()

    def poll(self) -> None:
        self._table.update_incremental()

    def blocks(self) -> int:
        return len(self._table.file_uris())

    def count(self) -> int:
        self._table.update_incremental()
        return int(self._table.count())

    def point_range(self, low: int, high: int) -> int:
        return int(self._query(f"SELECT * FROM t WHERE id BETWEEN {low} AND {high}").num_rows)

    def group_by(self, shift: int) -> Mapping[str, int]:
        answer = self._query(
            f"SELECT origin, count(*) AS n, sum(value + {shift}) AS total FROM t GROUP BY origin"
        )
        return dict(zip(answer["origin"].to_pylist(), answer["n"].to_pylist(), strict=True))

    def merge(self) -> Sequence[Path]:
        self._table.optimize.compact(target_size=TARGET_BYTES)
        return ()

    def _query(self, sql: str) -> pa.Table:
        if self._queries is None:
            self._queries = QueryBuilder().register("t", self._table)
        return pa.table(self._queries.execute(sql))

    def _add(self, number: int, table: pa.Table) -> AddAction:
        name = f"part-{number:06d}.parquet"
        path = self._directory / name
        pq.write_table(table, path, compression="zstd", compression_level=1)
        ids = table["id"].to_numpy()
        bounds = (
            f'"minValues":{{"id":{ids.min()}}},"maxValues":{{"id":{ids.max()}}},'
            '"nullCount":{"id":0}'
        )
        stats = f'{{"numRecords":{table.num_rows},{bounds}}}'
        return AddAction(name, path.stat().st_size, {}, 0, True, stats)


class Delta(Peer):
    name = "delta"
    family = "delta"
    distribution = "deltalake"
    settings = (
        "append through an open DeltaTable, checkpoints as it makes them; its own SQL engine; "
        "optimize"
    )

    def create(self, directory: Path, schema: pa.Schema, sort_by: Sequence[str]) -> Handle:
        place = directory / "table"
        place.mkdir()
        return DeltaHandle(DeltaTable.create(str(place), schema=schema), place)

    def open(self, directory: Path) -> Handle:
        return DeltaHandle(self._load(directory), directory / "table")

    def make_files(self, directory: Path, count: int) -> None:
        super().make_files(directory, count)
        self._load(directory).create_checkpoint()

    def _load(self, directory: Path) -> DeltaTable:
        return DeltaTable(str(directory / "table"))


def _statistics(number: int) -> str:
    """What the log says of a file's values."""
    values = [
        {
            column: _text(value) if column == "time" else value
            for column, value in zip(files.SCHEMA.names, ends, strict=True)
        }
        for ends in files.bounds(number)
    ]
    nothing = dict.fromkeys(files.SCHEMA.names, 0)
    return json.dumps(
        {
            "numRecords": files.ROWS,
            "minValues": values[0],
            "maxValues": values[1],
            "nullCount": nothing,
        }
    )


def _text(at_us: float) -> str:
    return datetime.fromtimestamp(at_us / 1e6, UTC).isoformat(timespec="milliseconds")


CONTESTANTS = (Delta(),)
