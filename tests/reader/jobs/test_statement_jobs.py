"""Jobs that carry out statements: once, whichever gateways die; complete or absent. Also where rows
have no identity, so that only the blocks of an entry, or their absence, say what was done."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import blockstore.index.log as index_log
from blockstore.bucket.prefixed import Prefixed
from blockstore.errors import Unanswered
from blockstore.format.definition import Definition
from blockstore.reader.cache import ChunkCache
from blockstore.reader.jobs.record import Kind, State
from blockstore.reader.jobs.statements import Statements
from blockstore.reader.jobs.tables import TableChanges
from blockstore.reader.query.admission import Capacity
from blockstore.reader.query.engine import Engine
from blockstore.reader.tables.at import NEWEST, At
from blockstore.scan.view import TableSnapshot
from blockstore.table import Table
from blockstore.world import World
from tests.reader.jobs.gateways import TERMS, WORK, Gateway, Lake
from tests.support.faulty import Call, FaultyBucket, Killed
from tests.support.tally import tally

JOB = "01JD0000000000000000000000"
STOCK = pa.schema([("item", pa.string()), ("n", pa.int64())])
BEFORE = [("bolt", 2), ("nut", 1), ("pin", 3)]
MERGE = """MERGE INTO p USING (VALUES ('nut', 5), ('rod', 6)) s(item, n) ON p.item = s.item
    WHEN MATCHED THEN UPDATE SET n = p.n + s.n WHEN NOT MATCHED THEN INSERT VALUES (s.item, s.n)"""
CASES = {
    "update": ("UPDATE p SET n = n + 1 WHERE item <> 'pin'", [("bolt", 3), ("nut", 2), ("pin", 3)]),
    "delete": ("DELETE FROM p WHERE n > 1", [("nut", 1)]),
    "all": ("TRUNCATE p", []),
    "none": ("DELETE FROM p WHERE n > 9", BEFORE),
    "merge": (MERGE, [("bolt", 2), ("nut", 6), ("pin", 3), ("rod", 6)]),
    "insert": ("INSERT INTO p SELECT item, n + 10 FROM p WHERE n > 2", [*BEFORE, ("pin", 13)]),
    "transaction": (
        """BEGIN; UPDATE p SET n = n * 3; INSERT INTO p VALUES ('rod', 0);
        DELETE FROM p WHERE n < 4; COMMIT""",
        [("bolt", 6), ("pin", 9)],
    ),
    "transaction_all": ("BEGIN; DELETE FROM p WHERE n = 1; DELETE FROM p; COMMIT", []),
}
"""Statements, and what they leave of ``BEFORE``."""
KINDS: dict[str, dict[str, Any]] = {"plain": {}, "ids": {"row_ids": True}, "key": {"key": ["item"]}}


class _Tables:
    """The tables of the gateway that an engine works for."""

    remote = True

    def __init__(self) -> None:
        self._gateway: Gateway | None = None

    def names(self, allowed: Collection[str] | None = None) -> tuple[str, ...]:
        return ("p",)

    def find(self, name: str, allowed: Collection[str] | None = None) -> str:
        return name

    def snapshots(
        self,
        names: Iterable[str],
        at: At | Mapping[str, At] = NEWEST,
        allowed: Collection[str] | None = None,
    ) -> dict[str, TableSnapshot]:
        assert self._gateway is not None, "the engine works for a gateway"
        return {name: self._gateway._open(name).snapshot() for name in names}

    def folders(self) -> list[str]:
        return []

    @contextmanager
    def of(self, gateway: Gateway) -> Iterator[None]:
        """Those of a gateway, for a while."""
        before, self._gateway = self._gateway, gateway
        try:
            yield
        finally:
            self._gateway = before


def a_lake(kind: str) -> Lake:
    return _lake(kind).copy()


@cache
def _lake(kind: str) -> Lake:
    lake = Lake.make()
    world, bucket = lake.world(0), Prefixed(lake.bucket, "p")
    table = Table(
        bucket, world, index_log.create(bucket, world, Definition.create(STOCK, **KINDS[kind]))
    )
    for rows in (BEFORE[:2], BEFORE[2:]):
        columns = pa.table(dict(zip(STOCK.names, zip(*rows, strict=True), strict=True)))
        (table.insert if kind == "key" else table.append)(columns)
    return lake


@cache
def _engine() -> tuple[Engine, _Tables]:
    """The engine of all gateways here, one after the other: it takes most of the time to start."""
    tables = _Tables()
    folder = tempfile.mkdtemp(prefix="chunks-of-jobs-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    world = World.real()
    cache_ = ChunkCache(Path(folder), world)
    # With one thread rows come in their order, and so does an error in one of them.
    return Engine(tables, world=world, cache=cache_, capacity=Capacity(threads=1)), tables


@contextmanager
def gateway_of(lake: Lake, seed: int, bucket: FaultyBucket | None = None) -> Iterator[Gateway]:
    gateway = lake.gateway(seed, bucket=bucket)
    engine, tables = _engine()
    with tables.of(gateway):
        gateway.runner._works[Kind.STATEMENT] = Statements(
            gateway.bucket,
            gateway.world,
            gateway._open,
            WORK,
            lambda table, version: None,
            engine=engine,
            time_limit_s=60,
        )
        gateway.runner._works[Kind.TABLE] = TableChanges(
            gateway.bucket,
            gateway.world,
            gateway._open,
            WORK,
            lambda table, version: None,
            lake=gateway.bucket,
            appeared=lambda name: None,
            bucket_of=lambda name: Prefixed(gateway.bucket, name),
            engine=engine,
            time_limit_s=60,
        )
        yield gateway


def table_of(lake: Lake) -> Table:
    return Table.open_bucket(Prefixed(lake.bucket, "p"), lake.world(99))


def seen(lake: Lake) -> list[tuple[object, ...]]:
    rows = table_of(lake).snapshot().scan(columns=["item", "n"]).to_table().to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def submit(gateway: Gateway, sql: str) -> None:
    body = json.dumps({"sql": sql, "parameters": None})
    gateway.upload(JOB, body, kind=Kind.STATEMENT, table="p", form="json")


def attempt(lake: Lake, sql: str, fault: str = "", write: int = 0) -> FaultyBucket:
    """Send it to a gateway and run it; with a ``fault`` at its write of that number."""
    faulty = FaultyBucket(lake.bucket)

    def happens(call: Call) -> None:
        if not call.writes or len(faulty.writes) != write or not fault:
            return
        tally("crash points")
        if fault == "lost":
            raise Unanswered(f"the answer to {call} was lost")
        faulty.killed_at = call
        raise Killed(call)

    faulty.after.append(happens)
    with gateway_of(lake, 1, faulty) as gateway, suppress(Killed, Unanswered):
        submit(gateway, sql)
        gateway.look_and_run()
    return faulty


def finish(lake: Lake, sql: str) -> dict[str, Any]:
    """Let another gateway do what is left; return what the job has written."""
    with gateway_of(lake, 2) as gateway:
        if not gateway.store.sketch(JOB).submitted:
            submit(gateway, sql)
        for _ in range(4):
            gateway.look_and_run()
            lake.clock.advance(TERMS.lease_s + 1)
        job = gateway.store.load(JOB)
        assert job.state is State.DONE, job.outcome
        assert job.outcome is not None
        assert job.outcome.written is not None
        return dict(job.outcome.written)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["after", "lost"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", CASES)
def test_a_gateway_killed_at_any_write_leaves_a_statement_whole_or_absent(
    what: str, kind: str, fault: str
) -> None:
    sql, after = CASES[what]
    if kind == "key" and what == "insert":
        sql = sql.replace("SELECT item", "SELECT 'rod'")
        after = [*BEFORE, ("rod", 13)]
    writes = len(attempt(a_lake(kind), sql).writes)
    assert writes >= 4, "an input, a request, a lease, an outcome, and mostly an entry"
    for write in range(1, writes + 1):
        lake = a_lake(kind)
        attempt(lake, sql, fault, write)
        assert seen(lake) in (BEFORE, after), write
        written = finish(lake, sql)
        assert seen(lake) == after, write
        table = table_of(lake)
        # Also a statement without effect: it has none when it is tried again.
        assert len([one for one in table.history() if one.job is not None]) == 1, write
        assert (table.log.state.version, written["version"] or 4) == (4, 4), write


@pytest.mark.parametrize("what", CASES)
def test_a_statement_that_was_given_up_while_it_ran_changes_nothing(what: str) -> None:
    """Another gateway gives it up just before its entry is written, which is a commit of its own:
    the late one must see that its batch was taken."""
    sql, _ = CASES[what]
    lake = a_lake("plain")
    faulty = FaultyBucket(lake.bucket)
    settled: list[object] = []
    with gateway_of(lake, 1, faulty) as one, gateway_of(lake, 2) as two:

        def gives_up(call: Call) -> None:
            if call.method == "put_if_absent" and "p/index/" in call.key and not settled:
                settled.append(None)
                request = two.store.request(JOB)
                settled.append(two.runner._works[Kind.STATEMENT].settle(JOB, request))

        faulty.before.append(gives_up)
        submit(one, sql)
        (outcome,) = one.look_and_run().values()
    assert settled == [None, None]
    assert outcome is not None
    assert outcome.failure is not None
    assert outcome.failure.error == "given_up"
    assert seen(lake) == BEFORE
    assert table_of(lake).log.state.version == 4


@pytest.mark.parametrize("what", CASES)
def test_a_statement_that_was_made_is_not_given_up(what: str) -> None:
    """Its gateway died before it recorded the outcome; another one gives the job up."""
    sql, after = CASES[what]
    lake = a_lake("plain")
    with gateway_of(lake, 1) as one, gateway_of(lake, 2) as two:
        submit(one, sql)
        (claimed,) = one.runner.look()
        one.runner._works[Kind.STATEMENT].run(JOB, 1, claimed.request, one.runner._meter(claimed))
        ended = two.runner._works[Kind.STATEMENT].settle(JOB, claimed.request)
    assert ended is not None
    assert ended.written is not None
    assert ended.written["version"] == 4
    assert seen(lake) == after
    assert table_of(lake).log.state.version == 4
