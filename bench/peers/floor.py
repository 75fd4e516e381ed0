"""The floor: Parquet files and their sizes in JSON, with no table layer at all.

No promise is kept here: no version, no snapshot, no atomicity over two files. It is what any table
format must at least pay on this machine.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.peers.api import Handle, Peer

__all__ = ["CONTESTANTS", "Floor"]

LIST = "list.json"


class FloorHandle(Handle):
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process = os.getpid()
        self._written = 0

    def append(self, table: pa.Table) -> None:
        self._written += 1
        self._write(f"{self._process:08d}-{self._written:08d}", table)

    def ingest(self, tables: Iterable[pa.Table]) -> None:
        written = [self._write(f"{number:08d}", table) for number, table in enumerate(tables)]
        (self._directory / LIST).write_text(json.dumps(written))

    def blocks(self) -> int:
        return len([block["path"] for block in json.loads((self._directory / LIST).read_text())])

    def count(self) -> int:
        return sum(
            json.loads(meta.read_text())["stats"]["numRows"]
            for meta in self._directory.glob("*/meta.json")
        )

    def _write(self, name: str, table: pa.Table) -> dict[str, object]:
        block = self._directory / name
        (block / "chunks").mkdir(parents=True)
        chunk = block / "chunks" / "000001.parquet"
        pq.write_table(table, chunk, compression="zstd", compression_level=1)
        meta = {
            "version": 1,
            "path": str(chunk.relative_to(self._directory)),
            "stats": {"numRows": table.num_rows, "numBytes": chunk.stat().st_size},
            "schema": table.schema.names,
        }
        (block / "meta.json").write_text(json.dumps(meta))
        return meta


class Floor(Peer):
    name = "floor"
    family = "floor"
    distribution = "pyarrow"
    settings = "one zstd Parquet file and one JSON file an append, no table layer"

    def create(self, directory: Path, schema: pa.Schema, sort_by: Sequence[str]) -> Handle:
        return FloorHandle(directory)

    def open(self, directory: Path) -> Handle:
        return FloorHandle(directory)


CONTESTANTS = (Floor(),)
