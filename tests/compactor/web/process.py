"""A process for the page: a status made by hand, and tables in memory with blocks of every
state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

import blockstore as bs
from blockstore.compactor.process.status import (
    Backlog,
    JobState,
    JobStatus,
    LoopStatus,
    Quarantined,
    Status,
    TableHealth,
    TableStatus,
    Totals,
)
from blockstore.errors import NotFound
from blockstore.format.block import BlockMeta, ChunkFile, Job, Parent
from blockstore.ids import ulid_at
from blockstore.names import chunk_path
from blockstore.service.pages.detail import BlockDetail
from blockstore.service.pages.timeline import Timeline
from blockstore.table import Table
from blockstore.world import World

NOW_MS = 1_795_000_000_000
HOUR_MS = 3_600_000
SCHEMA = pa.schema([("time", pa.timestamp("ms", tz="UTC")), ("value", pa.float64())])


@dataclass(slots=True)
class ShownProcess:
    """A ``PageSource`` whose status a test sets."""

    world: World
    shown: Status
    tables: dict[str, Table] = field(default_factory=dict)

    def status(self) -> Status:
        return self.shown

    def open(self, table: str) -> Table:
        if table not in self.tables:
            raise NotFound(f"no table {table}")
        return self.tables[table]

    def change(self, name: str, **changes: object) -> None:
        """Replace fields of one table's status."""
        changed = tuple(
            replace(one, **changes) if one.name == name else one for one in self.shown.tables
        )
        self.shown = replace(self.shown, tables=changed)


class Drawn:
    """A ``TimelineSource`` of timelines made by hand."""

    def __init__(self, *timelines: Timeline) -> None:
        self.timelines = {one.table: one for one in timelines}

    def timeline(self, table: str) -> Timeline:
        if table not in self.timelines:
            raise NotFound(f"no table {table}")
        return self.timelines[table]

    def detail(self, table: str, ulid: str) -> BlockDetail:
        block = next((one for one in self.timeline(table).blocks if one.ulid == ulid), None)
        if block is None or not block.level:
            raise NotFound(f"{table} has no block {ulid} with a meta.json")
        chunk = ChunkFile(path=chunk_path(1), bytes=block.bytes, rows=block.rows, sha256="5" * 64)
        sources = (
            (ulid,)
            if block.level == 1
            else tuple(ulid_at(block.min_time + one) for one in range(4))
        )
        meta = BlockMeta(
            ulid=ulid,
            min_time=block.min_time,
            max_time=block.max_time,
            rows=block.rows,
            bytes=block.bytes,
            level=block.level,
            sources=sources,
            parents=()
            if block.level == 1
            else tuple(Parent(ulid=one, min_time=0, max_time=1) for one in sources),
            labels=dict(block.stream.labels),
            uploaded_time=NOW_MS - HOUR_MS,
            producer="spark",
            job=Job("nightly-load", 17),
            sort_by=("sensor", "time"),
            files=(chunk,),
        )
        return BlockDetail(
            ulid=ulid, url=f"s3://lake/of/sensors/{table}", meta=meta, version=block.version
        )


def status(*tables: TableStatus, **fields: object) -> Status:
    base = Status(
        url="s3://lake/of/sensors",
        program="blocklake 0.1.0",
        started_ms=NOW_MS - 30 * HOUR_MS,
        started_s=0.0,
        now_ms=NOW_MS,
        now_s=30 * 3600.0,
        role="compactor",
        loops=(loop("tables", 60),),
        tables=tables,
    )
    return replace(base, **fields)


def table_status(name: str, **fields: object) -> TableStatus:
    base = TableStatus(
        name=name,
        url=f"s3://lake/of/sensors/{name}",
        health=TableHealth.OK,
        since_ms=NOW_MS - 5 * HOUR_MS,
        version=1_204,
        boundary=310,
        blocks=482,
        rows=33_677_600,
        bytes=7_340_032_000,
        seen_ms=NOW_MS - 2_000,
        kept=31,
        kept_bytes=912_000_000,
        waiting=2,
        loops=(loop("sync", 60), loop("compact", 300), loop("clean", 900), loop("retention", 3600)),
        totals=Totals(
            jobs={"committed": 212, "conflict": 1}, merged_rows=912_331_004, merged_bytes=88 << 30
        ),
    )
    return replace(base, **fields)


def loop(name: str, interval_s: float, **fields: object) -> LoopStatus:
    base = LoopStatus(
        name=name,
        interval_s=interval_s,
        last_start_ms=NOW_MS - 40_000,
        last_success_ms=NOW_MS - 38_500,
        next_ms=NOW_MS + 20_000,
        runs=412,
        seconds=1.5,
    )
    return replace(base, **fields)


def job(number: int, table: str, state: JobState, **fields: object) -> JobStatus:
    base = JobStatus(
        number=number,
        table=table,
        state=state,
        reason="window",
        details="24 overlapping blocks in a closed window of 2h",
        labels={"cluster": "eu1"},
        resolution=0,
        level=2,
        inputs=tuple(ulid_at(NOW_MS - 60_000 * one) for one in range(24)),
        blocks=24,
        rows=4_800_000,
        bytes=96 << 20,
        min_time_ms=NOW_MS - 8 * HOUR_MS,
        max_time_ms=NOW_MS - 6 * HOUR_MS,
        memory_bytes=1 << 30,
        disk_bytes=96 << 20,
    )
    return replace(base, **fields)


def busy(names: tuple[str, ...] = ("readings", "events", "trips")) -> Status:
    """A lake in the middle of its work, with something of everything."""
    first, second, third = names
    running = job(
        213,
        first,
        JobState.RUNNING,
        started_ms=NOW_MS - 12_000,
        progress=0.42,
        rows_per_s=2_210_000.0,
    )
    finished = tuple(
        job(
            212 - place,
            first,
            JobState.COMMITTED,
            started_ms=NOW_MS - 90_000 * (place + 1),
            ended_ms=NOW_MS - 80_000 * (place + 1),
            seconds=4.2 + place,
            rows_per_s=1_900_000.0,
            block=ulid_at(NOW_MS - 80_000 * (place + 1)),
            version=1_204 - place,
            rows_out=4_800_000,
            bytes_out=92 << 20,
        )
        for place in range(6)
    )
    damaged = job(
        206,
        first,
        JobState.DAMAGED,
        ended_ms=NOW_MS - 700_000,
        seconds=0.8,
        problem="block 01KAB0000000000000000000AA: chunks/000001.parquet has another hash than "
        "meta.json says",
    )
    quarantined = (
        Quarantined(
            ulid=ulid_at(NOW_MS - 9 * HOUR_MS),
            reason="chunks/000001.parquet has the SHA-256 9f2c…, expected 51ab…",
            since_ms=NOW_MS - HOUR_MS,
            command=f"blockstore repair s3://lake/of/sensors/{first} --from s3://replica/{first}",
        ),
        Quarantined(
            ulid=ulid_at(NOW_MS - 10 * HOUR_MS),
            reason="meta.json does not parse: unexpected end of data at byte 812",
            since_ms=NOW_MS - 2 * HOUR_MS,
            command=f"blockstore show s3://lake/of/sensors/{first} "
            f"{ulid_at(NOW_MS - 10 * HOUR_MS)}",
        ),
    )
    planned = tuple(
        job(
            0,
            first,
            JobState.PLANNED,
            min_time_ms=NOW_MS - (place + 3) * 2 * HOUR_MS,
            max_time_ms=NOW_MS - (place + 2) * 2 * HOUR_MS,
        )
        for place in range(5)
    )
    return status(
        table_status(
            first,
            backlog=(Backlog(level=2, jobs=5, blocks=120, bytes=480 << 20),),
            planned=planned,
            running=(running,),
            finished=(*finished, damaged),
            quarantined=quarantined,
        ),
        table_status(
            second,
            health=TableHealth.DEGRADED,
            version=88,
            boundary=0,
            since_ms=NOW_MS - 3 * HOUR_MS,
            problem="gc/index.boundary is missing although the table has an index",
            fix="stop all writers, then restore the boundary from a copy: see docs/operations.md",
            loops=(
                loop("sync", 60),
                loop(
                    "clean",
                    900,
                    failures=12,
                    last_failure_ms=NOW_MS - 9_000,
                    last_success_ms=NOW_MS - 3 * HOUR_MS,
                    problem="BoundaryLost: gc/index.boundary is missing",
                ),
            ),
        ),
        table_status(
            third,
            indexed=False,
            version=None,
            boundary=None,
            blocks=31,
            rows=901_000,
            bytes=44 << 20,
        ),
        month_cost={"write": 3.1, "read": 0.42, "delete": 0.0},
    )


def small_table(
    world: World, name: str, labels: Mapping[str, str] | None = None, blocks: int = 40
) -> Table:
    """A table in memory: blocks of an hour each, in one stream or two."""
    table = bs.create(
        f"memory://{world.ids.ulid()}/{name}",
        schema=SCHEMA,
        time_column="time",
        sort_by=["time"],
        labels=labels,
        world=world,
    )
    for place in range(blocks):
        start = NOW_MS - (blocks - place) * HOUR_MS
        times = [start + minute * 60_000 for minute in range(0, 60, 10)]
        rows = pa.table(
            {"time": pa.array(times, pa.timestamp("ms", tz="UTC")), "value": [float(place)] * 6}
        )
        table.append(rows)
    return table
