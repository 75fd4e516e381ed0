"""Lance (pylance): fragments and a manifest a version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import lance
import pyarrow as pa
from lance.fragment import DataFile

from bench import files
from bench.peers.api import Handle, Peer

__all__ = ["CONTESTANTS", "Lance"]


_FORMAT = 2, 2
"""The version of the files that it writes today."""


class LanceHandle(Handle):
    def __init__(
        self, dataset: lance.LanceDataset, options: Mapping[str, str] | None = None
    ) -> None:
        self._dataset = dataset
        self._options = None if options is None else dict(options)
        self._source = pa.table({})

    def append(self, table: pa.Table) -> None:
        self._dataset = lance.write_dataset(table, self._dataset, mode="append")

    def upsert(self, table: pa.Table, key: str) -> None:
        self._dataset.merge_insert(key).when_matched_update_all().execute(table)

    def take_source(self, table: pa.Table) -> None:
        self._source = table

    def merge_source(self, key: str) -> None:
        merger = self._dataset.merge_insert(key)
        merger.when_matched_update_all().when_not_matched_insert_all().execute(self._source)

    def set_value(self, low: int, high: int, value: float) -> None:
        self._dataset.checkout_latest()
        self._dataset.update({"value": str(value)}, where=f"id BETWEEN {low} AND {high}")

    def ingest(self, tables: Iterable[pa.Table]) -> None:
        made = [lance.fragment.write_fragments(table, self._dataset.uri) for table in tables]
        operation = lance.LanceOperation.Append(
            [fragment for fragments in made for fragment in fragments]
        )
        self._dataset = lance.LanceDataset.commit(
            self._dataset.uri, operation, read_version=self._dataset.version
        )

    def add_files(self, first: int, count: int) -> None:
        columns = list(range(len(files.SCHEMA)))
        fragments = [
            lance.FragmentMetadata(
                0,
                [DataFile(files.name(number), columns, columns, *_FORMAT, files.BYTES)],
                files.ROWS,
            )
            for number in range(first, first + count)
        ]
        self._dataset = lance.LanceDataset.commit(
            self._dataset.uri,
            lance.LanceOperation.Append(fragments),
            read_version=self._dataset.version,
            storage_options=self._options,
        )

    def plan(self, key: int) -> int:
        return self.plan_all()

    def plan_all(self) -> int:
        return len(self._dataset.get_fragments())

    def poll(self) -> None:
        self._dataset.checkout_latest()

    def blocks(self) -> int:
        return len(
            [
                file.path
                for fragment in self._dataset.get_fragments()
                for file in fragment.data_files()
            ]
        )

    def count(self) -> int:
        self._dataset.checkout_latest()
        return int(self._dataset.count_rows())

    def point_range(self, low: int, high: int) -> int:
        return int(self._dataset.to_table(filter=f"id BETWEEN {low} AND {high}").num_rows)

    def group_by(self, shift: int) -> Mapping[str, int]:
        query = (
            f"SELECT origin, count(*) AS n, sum(value + {shift}) AS total FROM dataset GROUP BY "
            "origin"
        )
        answer = pa.Table.from_batches(self._dataset.sql(query).build().to_batch_records())
        return dict(zip(answer["origin"].to_pylist(), answer["n"].to_pylist(), strict=True))

    def merge(self) -> Sequence[Path]:
        self._dataset.optimize.compact_files(target_rows_per_fragment=2**31 - 1)
        self._dataset.checkout_latest()
        return ()


class Lance(Peer):
    name = "lance"
    family = "lance"
    distribution = "pylance"
    prunes = False
    settings = "append through an open dataset; compact_files; its own SQL for the group-by"

    def create(self, directory: Path, schema: pa.Schema, sort_by: Sequence[str]) -> Handle:
        return LanceHandle(
            lance.write_dataset(schema.empty_table(), str(directory / "table.lance"))
        )

    def open(self, directory: Path) -> Handle:
        return LanceHandle(lance.dataset(str(directory / "table.lance")))


class IndexedHandle(LanceHandle):
    def ingest(self, tables: Iterable[pa.Table]) -> None:
        super().ingest(tables)
        self._dataset.create_scalar_index("id", "BTREE")


class IndexedLance(Lance):
    name = "lance-btree"
    settings = "the same with a BTREE index over id, built after loading"

    def create(self, directory: Path, schema: pa.Schema, sort_by: Sequence[str]) -> Handle:
        return IndexedHandle(
            lance.write_dataset(schema.empty_table(), str(directory / "table.lance"))
        )


CONTESTANTS = (Lance(), IndexedLance())
