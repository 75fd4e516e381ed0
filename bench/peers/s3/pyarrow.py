"""pyarrow's datasets on the bare files of ours, through its own S3 file system."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow.fs import S3FileSystem

from bench.peers.api import Handle, Peer, Unsupported
from bench.peers.s3 import place

__all__ = ["CONTESTANTS", "Pyarrow"]


class PyarrowHandle(Handle):
    def __init__(self, directory: Path) -> None:
        files = S3FileSystem(
            access_key=os.environ["AWS_ACCESS_KEY_ID"],
            secret_key=os.environ["AWS_SECRET_ACCESS_KEY"],
            region=os.environ["AWS_REGION"],
            endpoint_override=os.environ["AWS_ENDPOINT_URL"],
        )
        folder = place.bare_url(directory).removeprefix("s3://")
        self._dataset = ds.dataset(folder, filesystem=files, format="parquet")

    def point_range(self, low: int, high: int) -> int:
        inside = (pc.field("id") >= low) & (pc.field("id") <= high)
        return int(self._dataset.to_table(filter=inside).num_rows)

    def group_by(self, shift: int) -> Mapping[str, int]:
        rows = self._dataset.to_table(columns=["origin", "value"])
        shifted = pc.add(rows["value"], float(shift))
        answer = (
            pa.table({"origin": rows["origin"], "value": shifted})
            .group_by("origin")
            .aggregate([("value", "count"), ("value", "sum")])
        )
        counts = answer["value_count"].to_pylist()
        return dict(zip(answer["origin"].to_pylist(), counts, strict=True))


class Pyarrow(Peer):
    name = "pyarrow-s3"
    family = "pyarrow"
    distribution = "pyarrow"
    settings = "a dataset over the folder of bare files"

    def create(self, directory: Path, schema: pa.Schema, sort_by: Sequence[str]) -> Handle:
        raise Unsupported("it reads the bare files of ours")

    def open(self, directory: Path) -> Handle:
        return PyarrowHandle(directory)


CONTESTANTS = (Pyarrow(),)
