"""Lance on an S3 server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import lance
import pyarrow as pa

from bench.peers.api import Handle
from bench.peers.pylance import Lance, LanceHandle
from bench.peers.s3 import place

__all__ = ["CONTESTANTS", "LanceOnS3"]


class LanceOnS3Handle(LanceHandle):
    def ingest(self, tables: Iterable[pa.Table]) -> None:
        for table in tables:
            self.append(table)

    def count(self) -> int:
        return int(self._dataset.count_rows())


class LanceOnS3(Lance):
    name = "lance-s3"

    def create(self, directory: Path, schema: pa.Schema, sort_by: Sequence[str]) -> Handle:
        return LanceOnS3Handle(
            lance.write_dataset(
                schema.empty_table(),
                place.url(directory),
                storage_options=place.object_store(),
            ),
            place.object_store(),
        )

    def open(self, directory: Path) -> Handle:
        return LanceOnS3Handle(
            lance.dataset(place.url(directory), storage_options=place.object_store()),
            place.object_store(),
        )


CONTESTANTS = (LanceOnS3(),)
