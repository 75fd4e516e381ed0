"""Delta Lake through delta-rs on an S3 server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from bench.peers.api import Handle
from bench.peers.deltalake import Delta, DeltaHandle
from bench.peers.s3 import place

__all__ = ["CONTESTANTS", "DeltaOnS3"]


class DeltaOnS3Handle(DeltaHandle):
    def ingest(self, tables: Iterable[pa.Table]) -> None:
        for table in tables:
            self.append(table)
        self._table.create_checkpoint()

    def count(self) -> int:
        return int(self._table.count())


class DeltaOnS3(Delta):
    name = "delta-s3"

    def create(self, directory: Path, schema: pa.Schema, sort_by: Sequence[str]) -> Handle:
        table = DeltaTable.create(
            place.url(directory), schema=schema, storage_options=place.object_store()
        )
        return DeltaOnS3Handle(table, directory)

    def open(self, directory: Path) -> Handle:
        return DeltaOnS3Handle(self._load(directory), directory)

    def _load(self, directory: Path) -> DeltaTable:
        return DeltaTable(place.url(directory), storage_options=place.object_store())


CONTESTANTS = (DeltaOnS3(),)
