"""Ours on an S3 server: by Python scans, by its SQL engine, and by a gateway."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

import blockstore as bs
from bench.peers.api import Handle, Peer, Unsupported
from bench.peers.s3 import place
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.run.report import Outcome
from blockstore.compactor.settings import Settings
from blockstore.reader.query import Engine
from blockstore.table import Table

__all__ = ["CONTESTANTS", "OursOnS3"]

# What ours loads at its first use. Other libraries load all that they have when they are imported,
# and what a process imports is a figure of its own.
for _module in (
    "blockstore.bucket.cloud_writer",
    "blockstore.bucket.retrying",
    "blockstore.bucket.s3",
    "blockstore.bucket.traffic.traffic",
    "blockstore.index.commit",
    "blockstore.index.queue",
    "blockstore.operations.append",
    "blockstore.scan.page_rows",
    "blockstore.scan.remote_rows",
):
    importlib.import_module(_module)


class ScanHandle(Handle):
    """Reads by Python scans."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def append(self, table: pa.Table) -> None:
        self._table.append(table)

    def poll(self) -> None:
        self._table.poll()

    def count(self) -> int:
        return self._table.snapshot().count()

    def point_range(self, low: int, high: int) -> int:
        where = f"id BETWEEN {low} AND {high}"
        return int(self._table.snapshot().scan(where=where).to_table().num_rows)

    def group_by(self, shift: int) -> Mapping[str, int]:
        import pyarrow.compute as pc

        rows = self._table.snapshot().scan(columns=["origin", "value"]).to_table()
        shifted = pc.add(rows["value"], float(shift))
        answer = (
            pa.table({"origin": rows["origin"], "value": shifted})
            .group_by("origin")
            .aggregate([("value", "count"), ("value", "sum")])
        )
        counts = answer["value_count"].to_pylist()
        return dict(zip(answer["origin"].to_pylist(), counts, strict=True))

    def merge(self) -> Sequence[Path]:
        with tempfile.TemporaryDirectory() as spill:
            report = compact_once(self._table, Settings(work_dir=Path(spill)))
        if failed := [
            result.problem for result in report.results if result.outcome is not Outcome.COMMITTED
        ]:
            raise RuntimeError(failed[0])
        return ()


class SqlHandle(Handle):
    """Reads by the SQL engine in this process."""

    def __init__(self, table: Table) -> None:
        self._engine = Engine({"events": table.snapshot()}, world=table.world)

    def point_range(self, low: int, high: int) -> int:
        return int(self._query(f"SELECT * FROM events WHERE id BETWEEN {low} AND {high}").num_rows)

    def group_by(self, shift: int) -> Mapping[str, int]:
        answer = self._query(
            f"SELECT origin, count(*) AS n, sum(value + {shift}) AS total FROM events GROUP BY "
            "origin"
        )
        return dict(zip(answer["origin"].to_pylist(), answer["n"].to_pylist(), strict=True))

    def close(self) -> None:
        self._engine.close()

    def _query(self, sql: str) -> pa.Table:
        return self._engine.query(sql).read_all()


class OursOnS3(Peer):
    name = "ours-s3"
    family = "ours"
    distribution = "blocklake"
    settings = "published appends; queries by Python scans"

    def create(self, directory: Path, schema: pa.Schema, sort_by: Sequence[str]) -> Handle:
        return ScanHandle(
            bs.create(place.url(directory), schema=schema, time_column="time", sort_by=sort_by)
        )

    def open(self, directory: Path) -> Handle:
        return ScanHandle(bs.open(place.url(directory)))


class SqlOnS3(OursOnS3):
    name = "ours-sql-s3"
    settings = "the same files by the SQL engine in the caller's process"

    def open(self, directory: Path) -> Handle:
        return SqlHandle(bs.open(place.url(directory)))


class GatewayOnS3(OursOnS3):
    name = "ours-gateway-s3"
    settings = "the same files by a gateway's engine, which runs before the first query comes"
    resident = True

    def create(self, directory: Path, schema: pa.Schema, sort_by: Sequence[str]) -> Handle:
        raise Unsupported("the gateway's engine reads only; it borrows the files of ours")

    def open(self, directory: Path) -> Handle:
        from bench.peers.gateway import GatewayHandle

        name = place.prefix(directory)
        handle = GatewayHandle(place.url(directory), table=name)
        handle.ready()
        return handle


CONTESTANTS = (OursOnS3(), SqlOnS3(), GatewayOnS3())
