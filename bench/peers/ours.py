"""Ours, in four settings: appends published or aged, scratch (as the peers run) or durable."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

import blockstore as bs
from bench.peers.api import Handle, Peer
from blockstore.bucket import open_bucket
from blockstore.bucket.metered import Metered
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.run.report import Outcome
from blockstore.compactor.settings import Settings
from blockstore.export.iceberg.export import export_iceberg
from blockstore.format import meta
from blockstore.index.change import Append
from blockstore.names import CHECKPOINTS, meta_key, parse_checkpoint
from blockstore.reader.query import Engine
from blockstore.reader.query.source import Fixed
from blockstore.scan.view import TableSnapshot
from blockstore.table import Table
from blockstore.world import World

__all__ = ["CONTESTANTS", "Ours"]

LOT = 1_000
"""Blocks in one entry, where a table is made in lots."""
LARGE_BYTES = 64 << 20
"""Blocks beyond are not held until a lot is full."""
SOURCE = "news"
"""The table whose rows a statement merges."""
_ALL_ARE_OLD = 1, 2, 4, 8
"""Windows of so many milliseconds are closed soon."""
SINGLE = 10_000
"""The last blocks of a table are appended one by one, so that its index looks as it does after
years of appends."""


class OursHandle(Handle):
    def __init__(self, table: Table, directory: Path, *, publish: bool) -> None:
        self._table = table
        self._directory = directory
        self._publish = publish
        self._engine: Engine | None = None
        self._seen: TableSnapshot | None = None
        self._source = pa.table({})

    def append(self, table: pa.Table) -> None:
        answer = self._table.append(table, publish=self._publish)
        if answer.published is not self._publish:
            raise RuntimeError(f"the append answered published={answer.published}")

    def upsert(self, table: pa.Table, key: str) -> None:
        self._table.upsert(table)
        self._renew()

    def take_source(self, table: pa.Table) -> None:
        self._source = table

    def merge_source(self, key: str) -> None:
        merge = self._table.merge(self._source, on=key)
        merge.when_matched_update().when_not_matched_insert().execute()
        self._renew()

    def row(self, key: int) -> int:
        # Of one version, as an open dataset of the others.
        if self._seen is None:
            self._seen = self._table.snapshot()
        return int(self._seen.scan(where=f"id = {key}").to_table().num_rows)

    def set_value(self, low: int, high: int, value: float) -> None:
        self._table.update({"value": value}, where=f"id BETWEEN {low} AND {high}")

    def files(self) -> Sequence[Path]:
        plan = self._table.snapshot().scan().plan
        most = max(chunk.file.rows for chunk in plan.chunks)
        return [self._directory / one.key for one in plan.chunks if one.file.rows == most]

    def iceberg_metadata(self) -> str:
        return export_iceberg(self._table).metadata

    def ingest(self, tables: Iterable[pa.Table]) -> None:
        if self._table.definition.identity is not None:
            for table in tables:
                self._table.upsert(table)
            return
        waiting: list[pa.Table] = []
        for table in tables:
            if table.nbytes > LARGE_BYTES:
                self.append(table)
                continue
            waiting.append(table)
            if len(waiting) == SINGLE + LOT:
                self._publish_lot(waiting[:LOT])
                del waiting[:LOT]
        for table in waiting:
            self.append(table)

    def poll(self) -> None:
        self._table.poll()

    def blocks(self) -> int:
        return len(self._table.snapshot().blocks.table()["ulid"])

    def count(self) -> int:
        if self._publish:
            return self._table.snapshot().count()
        # Aged appends are not in the index yet: count what their markers say.
        markers = self._directory.glob("*/meta.json")
        return sum(json.loads(marker.read_text())["stats"]["numRows"] for marker in markers)

    def point_range(self, low: int, high: int) -> int:
        return int(self._query(f"SELECT * FROM events WHERE id BETWEEN {low} AND {high}").num_rows)

    def group_by(self, shift: int) -> Mapping[str, int]:
        answer = self._query(
            f"SELECT origin, count(*) AS n, sum(value + {shift}) AS total FROM events GROUP BY "
            "origin"
        )
        return dict(zip(answer["origin"].to_pylist(), answer["n"].to_pylist(), strict=True))

    def merge(self) -> Sequence[Path]:
        return self._merged(Settings(work_dir=self._directory.parent))

    def merge_old(self) -> Sequence[Path]:
        return self._merged(Settings(work_dir=self._directory.parent, ranges_ms=_ALL_ARE_OLD))

    def _merged(self, settings: Settings) -> Sequence[Path]:
        report = compact_once(self._table, settings)
        if failed := [
            result.problem for result in report.results if result.outcome is not Outcome.COMMITTED
        ]:
            raise RuntimeError(failed[0])
        self._renew()
        plan = self._table.snapshot().scan().plan
        return [self._directory / chunk.key for chunk in plan.chunks]

    def requests(self) -> int:
        bucket = self._table.bucket
        return sum(bucket.counts.values()) if isinstance(bucket, Metered) else super().requests()

    def tail(self) -> int:
        listed = self._table.bucket.list(CHECKPOINTS)
        newest = max(
            (version for info in listed if (version := parse_checkpoint(info.key))), default=0
        )
        return self._table.poll() - newest + (newest > 0)

    def ready(self) -> None:
        # As the gateway does: one engine over the snapshot that the last poll found.
        if self._engine is None:
            self._engine = Engine({"events": self._table.snapshot()}, world=self._table.world)

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()

    def _renew(self) -> None:
        """The next query is of the newest version."""
        self._seen = None
        if self._engine is not None:
            self._engine.source = Fixed({"events": self._table.snapshot()})

    def _query(self, sql: str) -> pa.Table:
        self.ready()
        assert self._engine is not None, "it was made ready"
        return self._engine.query(sql).read_all()

    def _publish_lot(self, tables: Sequence[pa.Table]) -> None:
        bucket = self._table.bucket
        written = [self._table.append(table, publish=False).ulid for table in tables]
        blocks = tuple(
            meta.decode(bucket.get(meta_key(ulid)).data, ulid=ulid) for ulid in written if ulid
        )
        self._table.log.commit(Append(commit=self._table.world.ids.ulid(), blocks=blocks))


class SqlHandle(OursHandle):
    """Merges by a statement, whose source is another table of the lake."""

    def take_source(self, table: pa.Table) -> None:
        bs.create(f"{self._directory.parent / SOURCE}", schema=table.schema).append(table)

    def merge_source(self, key: str) -> None:
        bs.sql(
            str(self._directory.parent),
            f'MERGE INTO "table" USING {SOURCE} USING ({key}) WHEN MATCHED THEN UPDATE '
            "WHEN NOT MATCHED THEN INSERT",
        )
        self._table.poll()
        self._renew()


class Ours(Peer):
    family = "ours"
    distribution = "blocklake"

    def __init__(self, name: str, settings: str, *, publish: bool, durable: bool) -> None:
        self.name = name
        self.settings = settings
        self._publish = publish
        self._durable = durable

    def create(self, directory: Path, schema: pa.Schema, sort_by: Sequence[str]) -> Handle:
        table = bs.create(self._url(directory), schema=schema, time_column="time", sort_by=sort_by)
        return OursHandle(table, directory / "table", publish=self._publish)

    def create_keyed(self, directory: Path, schema: pa.Schema, key: str) -> Handle:
        table = bs.create(self._url(directory), schema=schema, time_column="time", key=[key])
        return OursHandle(table, directory / "table", publish=self._publish)

    def open(self, directory: Path) -> Handle:
        return OursHandle(bs.open(self._url(directory)), directory / "table", publish=self._publish)

    def open_metered(self, directory: Path) -> Handle:
        world = World.real()
        table = Table.open_bucket(Metered(open_bucket(self._url(directory), world)), world)
        return OursHandle(table, directory / "table", publish=self._publish)

    def commands(self, directory: Path) -> Mapping[str, Sequence[str]]:
        program = str(Path(sys.executable).with_name("blockstore"))
        query = [
            program,
            "query",
            str(directory / "table"),
            'select count(*) from "table"',
            "-o",
            "csv",
        ]
        return {"query_ms": query, "help_ms": [program, "--help"]}

    def _url(self, directory: Path) -> str:
        return f"{directory / 'table'}" + ("" if self._durable else "?durable=false")


class OursSql(Ours):
    def open(self, directory: Path) -> Handle:
        return SqlHandle(bs.open(self._url(directory)), directory / "table", publish=True)

    def open_metered(self, directory: Path) -> Handle | None:
        return None


CONTESTANTS = (
    OursSql("ours-sql", "statements, ?durable=false", publish=True, durable=False),
    Ours("ours", "published, ?durable=false", publish=True, durable=False),
    Ours("ours-aged", "publish=False, ?durable=false", publish=False, durable=False),
    Ours("ours-durable", "published, every file and directory synced", publish=True, durable=True),
    Ours(
        "ours-aged-durable",
        "publish=False, every file and directory synced",
        publish=False,
        durable=True,
    ),
)
