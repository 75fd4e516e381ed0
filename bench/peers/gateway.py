"""Ours by the gateway's way: polled tables, admission, limits, and every query in a process of its
own."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from bench.peers.api import Handle, Peer, Unsupported
from blockstore.cli.row_tables import rows_as_json
from blockstore.reader.cache import ChunkCache
from blockstore.reader.query import Budget, Capacity, Engine
from blockstore.reader.tables import Tables
from blockstore.rows.versions import row_at
from blockstore.scan.reads import Reads
from blockstore.world import World

__all__ = ["CONTESTANTS", "GatewayHandle"]

_BUDGET = Budget(seconds=60.0)
_CAPACITY = Capacity(queries=1, memory_bytes=4 << 30, spill_bytes=8 << 30)


class GatewayHandle(Handle):
    """The table at ``url``, whose last part is ``table``."""

    def __init__(self, url: str, *, cache: ChunkCache | None = None, table: str = "table") -> None:
        self._table = table
        self._tables = Tables([url])
        self._tables.poll_now()
        self._reads = Reads(World.real())
        self._engine = Engine(self._tables, cache=cache, capacity=_CAPACITY, isolated=True)

    def ready(self) -> None:
        while not self._engine.ready:
            time.sleep(0.01)

    def count(self) -> int:
        return int(self._query(f'SELECT count(*) AS n FROM "{self._table}"')["n"][0].as_py())

    def row(self, key: int) -> int:
        """As ``GET /v1/tables/T/rows/{key}``, without the HTTP server."""
        view = self._tables.at_least(self._table, None)
        found = row_at(view.bucket, view.world, view.snapshot, key, reads=self._reads)
        return len(rows_as_json(found))

    def point_range(self, low: int, high: int) -> int:
        sql = f'SELECT * FROM "{self._table}" WHERE id BETWEEN $1 AND $2'
        return self._query(sql, [low, high]).num_rows

    def group_by(self, shift: int) -> Mapping[str, int]:
        answer = self._query(
            f"SELECT origin, count(*) AS n, sum(value + {shift}) AS total FROM "
            f'"{self._table}" GROUP BY origin'
        )
        return dict(zip(answer["origin"].to_pylist(), answer["n"].to_pylist(), strict=True))

    def close(self) -> None:
        self._engine.close()

    def _query(self, sql: str, parameters: Sequence[int] | None = None) -> pa.Table:
        with self._engine.run(sql, parameters, budget=_BUDGET) as answer:
            return answer.reader.read_all()


class Gateway(Peer):
    name = "ours-gateway"
    family = "ours"
    distribution = "blocklake"
    settings = (
        "the gateway's engine: polled tables, parameters, one query at once in a process of its own"
    )

    def create(self, directory: Path, schema: pa.Schema, sort_by: Sequence[str]) -> Handle:
        raise Unsupported("the gateway's engine reads only; it borrows the files of ours")

    def open(self, directory: Path) -> Handle:
        return GatewayHandle(str(directory / "table"))


CONTESTANTS = (Gateway(),)
