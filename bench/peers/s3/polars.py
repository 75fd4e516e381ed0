"""Polars on the bare files of ours: no table, a listing and the files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl
import pyarrow as pa

from bench.peers.api import Handle, Peer, Unsupported
from bench.peers.s3 import place

__all__ = ["CONTESTANTS", "Polars"]


class PolarsHandle(Handle):
    def __init__(self, directory: Path) -> None:
        self._files = f"{place.bare_url(directory)}/*.parquet"

    def point_range(self, low: int, high: int) -> int:
        rows = self._scan().filter(pl.col("id").is_between(low, high)).collect()
        return int(rows.to_arrow().num_rows)

    def group_by(self, shift: int) -> Mapping[str, int]:
        total = (pl.col("value") + shift).sum().alias("total")
        answer = self._scan().group_by("origin").agg(pl.len().alias("n"), total).collect()
        return dict(zip(answer["origin"].to_list(), answer["n"].to_list(), strict=True))

    def _scan(self) -> pl.LazyFrame:
        return pl.scan_parquet(self._files, storage_options=place.object_store())


class Polars(Peer):
    name = "polars-s3"
    family = "polars"
    distribution = "polars"
    settings = "scan_parquet over the bare files, found by a glob"

    def create(self, directory: Path, schema: pa.Schema, sort_by: Sequence[str]) -> Handle:
        raise Unsupported("it reads the bare files of ours")

    def open(self, directory: Path) -> Handle:
        return PolarsHandle(directory)


CONTESTANTS = (Polars(),)
