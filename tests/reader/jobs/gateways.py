"""Gateways that run jobs by hand: one pass at a time, on one bucket, in a world whose clock
does not move."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa

from blockstore.bucket import Bucket
from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.prefixed import Prefixed
from blockstore.clock import ManualClock
from blockstore.ids import Ids
from blockstore.names import job_input_key
from blockstore.reader.jobs.extract import Extracts
from blockstore.reader.jobs.record import Kind, Outcome, Request
from blockstore.reader.jobs.rows import RowChanges
from blockstore.reader.jobs.runner import Claimed, Runner, Terms
from blockstore.reader.jobs.store import JobStore
from blockstore.reader.jobs.tables import TableChanges
from blockstore.reader.jobs.upload import Uploads
from blockstore.reader.query.engine import Engine
from blockstore.table import Table
from blockstore.world import Serial, World

SCHEMA = pa.schema([("time", pa.timestamp("us", "UTC")), ("n", pa.int64()), ("s", pa.string())])
HEADER = "time,n,s\n"
GOOD = HEADER + "".join(f"2026-01-01T00:00:{n:02}Z,{n},row {n}\n" for n in range(20))
WORK = Path(tempfile.gettempdir()) / f"jobs-of-{os.getpid()}"
"""Of this process alone: seeded names are the same in all of them."""
_LAKES = itertools.count()
"""Each lake has its own URL, for a cache that outlives it: seeded names are the same in all."""

# The clock is the test's own, but the thread that keeps a lease waits by the machine: so long that
# it never wakes here.
TERMS = Terms(lease_s=3_000, poll_s=500, time_limit_s=60_000, keep_s=8_640_000)


@dataclass
class Lake:
    """A bucket with one table ``t``, and the clock by which all its gateways live."""

    clock: ManualClock
    bucket: Bucket

    @classmethod
    def make(cls) -> Lake:
        import blockstore.index.log as index_log
        from blockstore.format.definition import Definition

        clock = ManualClock()
        lake = cls(clock=clock, bucket=MemoryBucket(clock, f"memory://lake-{next(_LAKES)}"))
        definition = Definition.create(SCHEMA, time_column="time", sort_by=["n"])
        index_log.create(Prefixed(lake.bucket, "t"), lake.world(0), definition)
        return lake

    def copy(self) -> Lake:
        """Another lake of the same objects."""
        clock = ManualClock(self.clock.now_ms())
        contents = cast(MemoryBucket, self.bucket)._contents
        own = replace(
            contents, objects=dict(contents.objects), keys=list(contents.keys), lock=Lock()
        )
        bucket = MemoryBucket(clock, f"memory://lake-{next(_LAKES)}", own)
        return Lake(clock=clock, bucket=bucket)

    def world(self, seed: int) -> World:
        return World(clock=self.clock, ids=Ids.seeded(self.clock, seed), pool=Serial())

    def gateway(
        self,
        seed: int,
        *,
        bucket: Bucket | None = None,
        folder: Path | None = None,
        terms: Terms = TERMS,
    ) -> Gateway:
        return Gateway(self, seed, bucket or self.bucket, folder or WORK, terms)

    def table(self) -> Table:
        return Table.open_bucket(Prefixed(self.bucket, "t"), self.world(99))

    def rows(self) -> list[int]:
        return sorted(self.table().snapshot().scan(columns=["n"]).to_table()["n"].to_pylist())


class Gateway:
    """One gateway's jobs; its bucket may be a faulty one."""

    def __init__(self, lake: Lake, seed: int, bucket: Bucket, folder: Path, terms: Terms) -> None:
        self.world = lake.world(seed)
        self.bucket = bucket
        self.store = JobStore(bucket)
        common = (bucket, self.world, self._open, folder, lambda table, version: None)
        uploads, rows = Uploads(*common), RowChanges(*common)
        tables = TableChanges(
            *common,
            lake=bucket,
            appeared=lambda name: None,
            bucket_of=lambda name: Prefixed(bucket, name),
            engine=cast(Engine, None),  # No job here is a statement.
            time_limit_s=60,
        )
        extracts = Extracts(bucket, self.world, self._ask, time_limit_s=60, result_bytes=1 << 20)
        self.runner = Runner(
            self.store,
            self.world,
            {
                Kind.UPLOAD: uploads,
                Kind.ROWS: rows,
                Kind.TABLE: tables,
                Kind.QUERY: extracts,
                Kind.DOWNLOAD: extracts,
            },
            terms,
        )
        self.answer: Any = None

    def _open(self, name: str) -> Table:
        return Table.open_bucket(Prefixed(self.bucket, name), self.world)

    def _ask(self, request: Request, limit_s: float, began: Any) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        table = self._open("t")
        snapshot = table.snapshot()
        reader = snapshot.scan().to_reader()
        return SimpleNamespace(reader=reader, versions={"t": snapshot.version}, tables=("t",))

    def upload(self, job: str, text: str = GOOD, **more: Any) -> bool:
        """What the door does with a file: the input first, then the request."""
        key = job_input_key(job, self.world.ids.ulid())
        self.bucket.put(key, text.encode())
        request = upload_request(key, text, self.world.clock.now_ms())
        return self.store.submit(job, replace(request, **more))

    def ask(self, job: str, **more: Any) -> bool:
        request = Request(
            kind=Kind.DOWNLOAD,
            owner="me",
            created_ms=self.world.clock.now_ms(),
            form="csv",
            table="t",
        )
        return self.store.submit(job, replace(request, **more))

    def look_and_run(self) -> Mapping[str, Outcome | None]:
        """One pass, and what it claimed run to its end."""
        return {claimed.job: self.run(claimed) for claimed in self.runner.look()}

    def run(self, claimed: Claimed) -> Outcome | None:
        return self.runner.run(claimed)


def upload_request(key: str, text: str, now_ms: int) -> Request:
    import hashlib

    data = text.encode()
    return Request(
        kind=Kind.UPLOAD,
        owner="me",
        created_ms=now_ms,
        form="csv",
        table="t",
        input_key=key,
        input_bytes=len(data),
        input_sha256=hashlib.sha256(data).hexdigest(),
    )
