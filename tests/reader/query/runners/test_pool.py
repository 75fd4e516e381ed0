"""Queries in processes of their own: answers are the same, and what DuckDB cannot stop or bound is
stopped and bounded.

Slow where a process must be seen to be killed: two seconds of grace each.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pytest

from blockstore.bucket.local import LocalBucket
from blockstore.errors import BlockstoreError, Corrupt, NoMemory, ObjectMissing, Unavailable
from blockstore.reader.errors import BadSql, Canceled, TimedOut, TooMuch
from blockstore.reader.query import Budget, Capacity, Engine, Limits
from blockstore.reader.query.runners import pool
from blockstore.reader.query.runners.instance import Instance
from blockstore.reader.query.runners.memory import held_bytes
from blockstore.reader.query.runners.pool import _Worker
from blockstore.reader.query.runners.worker import Start
from blockstore.scan.view import TableSnapshot
from blockstore.world import World
from tests.reader.query.lakes import everything, lake, snapshot_of
from tests.reader.query.test_engine import bag

pytestmark = pytest.mark.slow

CAPACITY = Capacity(queries=2, memory_bytes=512 << 20, threads=2, spill_bytes=256 << 20)


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> TableSnapshot:
    folder = tmp_path_factory.mktemp("lake") / "t"
    return snapshot_of(lake(LocalBucket(str(folder), World.manual().clock, durable=False)))


@pytest.fixture(scope="module")
def engine(snapshot: TableSnapshot) -> Iterator[Engine]:
    with Engine({"t": snapshot}, world=World.real(), capacity=CAPACITY, isolated=True) as opened:
        yield opened


def rows(engine: Engine, sql: str, parameters: object = None, **budget: object) -> pa.Table:
    with engine.run(sql, parameters, budget=Budget(**budget)) as answer:  # type: ignore[arg-type]
        return answer.reader.read_all()


def test_answers_are_those_of_all_rows(engine: Engine, snapshot: TableSnapshot) -> None:
    assert bag(rows(engine, "SELECT * FROM t")) == bag(everything(snapshot))
    found = rows(engine, "SELECT _source, n FROM t WHERE n BETWEEN $1 AND $2", [-95, -90])
    assert set(found["n"].to_pylist()) == set(range(-95, -89))


def test_types_that_a_batch_alone_cannot_carry_become_plain(engine: Engine) -> None:
    found = rows(
        engine, "SELECT 'b'::ENUM('a', 'b') AS e, [1, 2] AS l, {'a': 1.5} AS s, 1::HUGEINT AS h"
    )
    assert found["e"].to_pylist() == ["b"]
    assert found.schema.field("e").type == pa.string()
    assert found["l"].to_pylist() == [[1, 2]]


def test_wrong_sql_is_reported_with_its_place(engine: Engine) -> None:
    with pytest.raises(BadSql, match="nope") as raised:
        rows(engine, "SELECT n,\n nope FROM t")
    assert (raised.value.line, raised.value.column) == (2, 2)


def test_memory_is_constant_however_long_the_answer(engine: Engine) -> None:
    taken = 0
    with engine.run("SELECT x.range AS a, x.range * 2 AS b FROM range(100000000000) x") as answer:
        for batch in answer:
            taken += batch.num_rows
            if taken > 2_000_000:
                break
    assert rows(engine, "SELECT count(n) AS c FROM t").num_rows == 1


BLOWN_UP = [
    "SELECT length(repeat('a', 2000000000))",
    "SELECT length(repeat(repeat('a', 100000), x::INT * 1000)) FROM range(400) t(x)",
    "SELECT len(range(1000000000))",
    "SELECT len(range(x)) FROM (VALUES (1000000000)) t(x)",
    "SELECT len(list_resize([1], 1000000000))",
    "SELECT list(x) FROM range(1000000000) t(x)",
    "SELECT string_agg(x::VARCHAR, ',') FROM range(1000000000) t(x)",
    "SELECT bitstring('1', 2000000000)::varchar",
    "SELECT printf('%2000000000d', 1)",
    "SELECT lpad('a', 2000000000, 'b')",
]


@pytest.mark.parametrize("sql", BLOWN_UP)
def test_what_outgrows_memory_ends_the_query_and_nothing_else(engine: Engine, sql: str) -> None:
    with pytest.raises((NoMemory, TimedOut)):
        rows(engine, sql, seconds=20)
    assert rows(engine, "SELECT 1 AS one")["one"].to_pylist() == [1]


def test_what_a_process_reserves_is_not_limited_only_what_it_holds(engine: Engine) -> None:
    """Allocators reserve gigabytes of addresses that they never touch: a limit on those failed
    queries that use little."""
    rows(engine, "SELECT 1 AS one")
    for worker in engine._runner._all:  # type: ignore[attr-defined]
        bounds = Path(f"/proc/{worker.pid}/limits").read_text().splitlines()
        bounded = {line[:26].strip(): line[26:].split()[0] for line in bounds}
        assert {bounded["Max data size"], bounded["Max address space"]} == {"unlimited"}
        assert Path(f"/proc/{worker.pid}/oom_score_adj").read_text().strip() == "1000"


def test_what_holds_too_much_is_reported_with_the_limit_and_its_key(engine: Engine) -> None:
    says = (
        r"its limit of 256 MiB of memory .*its process held [\d,]+ MiB.*raise "
        r"memory in \[query\]"
    )
    with pytest.raises(NoMemory, match=says):
        rows(engine, "SELECT length(repeat('a', 2000000000))")


def test_a_large_answer_leaves_no_memory_held(engine: Engine) -> None:
    """A process waits for its next query with what it began with, not with all that the last one
    took."""
    found = rows(
        engine,
        "SELECT count(*) AS c FROM (SELECT DISTINCT hash(r)::VARCHAR FROM range(1000000) t(r))",
    )
    assert found["c"].to_pylist() == [1_000_000]
    end = time.monotonic() + 30
    while any((held_bytes(worker.pid) or 0) > 128 << 20 for worker in engine._runner._all):  # type: ignore[attr-defined]
        assert time.monotonic() < end, "memory was still held after thirty seconds"
        time.sleep(0.1)


def test_queries_of_an_engine_that_is_closed_say_so(snapshot: TableSnapshot) -> None:
    with Engine({"t": snapshot}, world=World.real(), capacity=CAPACITY, isolated=True) as engine:
        answer = engine.run("SELECT x.range AS n FROM range(100000000000) x")
        batches = iter(answer)
        next(batches)
        engine._runner.close()
        with pytest.raises(Unavailable, match="closed while the query ran"):
            deque(batches, maxlen=0)


ENDLESS = [
    # Constants that DuckDB computes while it plans, where no interrupt reaches it.
    "SELECT levenshtein(repeat('a', 200000), repeat('b', 200000))",
    # One call of one function.
    "SELECT levenshtein(repeat('a', x), repeat('b', x)) FROM (VALUES (200000)) t(x)",
    "SELECT count(*) FROM range(1000000000000) a WHERE a.range % 7 = 9",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
]


@pytest.mark.parametrize("sql", ENDLESS)
def test_what_does_not_end_is_ended_at_its_time_limit(engine: Engine, sql: str) -> None:
    """The limit is 1 s; that it held at all is seen by the answer coming back, and the process by
    its being gone."""
    with pytest.raises(TimedOut, match="time limit of 1 s"):
        rows(engine, sql, seconds=1.0)
    assert engine.running() == 0
    assert rows(engine, "SELECT 1 AS one")["one"].to_pylist() == [1]


def test_a_caller_that_takes_no_rows_does_not_keep_its_turn(engine: Engine) -> None:
    idle = [
        engine.run("SELECT x.range FROM range(100000000000) x") for _ in range(CAPACITY.queries)
    ]
    assert engine.running() == CAPACITY.queries
    for answer in idle:
        answer._ending.time_out()
    assert engine.running() == 0
    assert rows(engine, "SELECT 1 AS one")["one"].to_pylist() == [1]
    for answer in idle:
        with pytest.raises(TimedOut):
            answer.reader.read_all()
        answer.close()


@pytest.mark.parametrize("delay_s", [0.0, 0.2])
def test_a_query_is_canceled_before_its_first_row(engine: Engine, delay_s: float) -> None:
    endless = (
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"
    )
    with pytest.raises(Canceled):
        engine.run(endless, began=lambda stop: threading.Timer(delay_s, stop).start())
    assert engine.running() == 0


def test_a_query_is_canceled_while_its_rows_are_taken(engine: Engine) -> None:
    answer = engine.run("SELECT x.range AS n FROM range(100000000000) x")
    batches = iter(answer)
    next(batches)
    answer.cancel()
    with pytest.raises(Canceled):
        for _ in batches:
            pass
    assert engine.running() == 0


def test_a_cancel_that_comes_late_stops_no_other_query(engine: Engine) -> None:
    first = engine.run("SELECT 1 AS one")
    first.reader.read_all()
    second = engine.run("SELECT x.range AS n FROM range(3000000) x")
    first.cancel()
    assert second.reader.read_all().num_rows == 3_000_000


@pytest.mark.parametrize(
    ("budget", "says"),
    [({"rows": 99}, "limit of 99 rows"), ({"bytes": 1000}, "limit of 1,000 bytes")],
)
def test_an_answer_that_is_too_big_fails(engine: Engine, budget: dict[str, int], says: str) -> None:
    with pytest.raises(TooMuch, match=says):
        rows(engine, "SELECT x.range AS n FROM range(100000) x", **budget)
    assert rows(engine, "SELECT x.range AS n FROM range(10) x", **budget).num_rows == 10


def test_a_limit_cuts_the_answer_silently(engine: Engine) -> None:
    assert rows(engine, "SELECT x.range AS n FROM range(100000000000) x", limit=7).num_rows == 7
    assert rows(engine, "SELECT count(*) FROM t", limit=0).num_rows == 0


def test_a_missing_and_a_damaged_chunk_are_reported_with_their_block(tmp_path: Path) -> None:
    made = lake(LocalBucket(str(tmp_path / "t"), World.manual().clock, durable=False))
    ulid = made.live[0].ulid
    path = Path(str(made.bucket.path_of(f"{ulid}/chunks/t0-000001.parquet")))
    data = path.read_bytes()
    with Engine(
        {"t": snapshot_of(made)}, world=World.real(), capacity=CAPACITY, isolated=True
    ) as engine:
        # All of the middle, so that what DuckDB reads cannot be whole.
        path.write_bytes(data[:4] + bytes(len(data) - 1_000) + data[-996:])
        with pytest.raises(Corrupt, match=ulid):
            rows(engine, "SELECT sum(n), max(f), max(s), max(time) FROM t")
        path.unlink()
        with pytest.raises(ObjectMissing, match=ulid):
            rows(engine, "SELECT sum(n), max(f), max(s), max(time) FROM t")


def test_a_process_that_dies_costs_its_own_query_only(engine: Engine) -> None:
    answer = engine.run("SELECT x.range AS n FROM range(100000000000) x")
    batches = iter(answer)
    next(batches)
    for worker in list(engine._runner._all):  # type: ignore[attr-defined]
        worker.kill()
    with pytest.raises(BlockstoreError, match="before the result was complete"):
        for _ in batches:
            pass
    assert rows(engine, "SELECT 1 AS one")["one"].to_pylist() == [1]


def test_a_query_that_no_gateway_can_stop_any_more_is_ended_by_an_alarm(
    monkeypatch: pytest.MonkeyPatch, snapshot: TableSnapshot
) -> None:
    """As if the gateway were gone: nothing cancels, nothing kills.

    What remains is the process's own alarm.
    """
    from blockstore.reader.query.runners import worker as other_side
    from blockstore.reader.query.task import Task

    alarms: list[float] = []
    monkeypatch.setattr(
        other_side.signal, "setitimer", lambda kind, seconds: alarms.append(seconds)
    )
    server = other_side._Server(BytesIO(), BytesIO())
    instance = Instance([], Limits(threads=1))
    server.run(other_side._Query(instance.cursor(), Task(views=(), sql="SELECT 1", seconds=3.0)))
    server.run(other_side._Query(instance.cursor(), Task(views=(), sql="SELECT 1")))
    instance.close()
    assert alarms == [13.0, 0, 0, 0]


def test_nothing_of_this_process_is_reported_to_the_one_that_runs_queries(
    monkeypatch: pytest.MonkeyPatch, snapshot: TableSnapshot
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    with Engine({"t": snapshot}, world=World.real(), capacity=CAPACITY, isolated=True) as engine:
        rows(engine, "SELECT 1 AS one")
        (worker, *_) = engine._runner._all  # type: ignore[attr-defined]
        environ = Path(f"/proc/{worker._process.pid}/environ").read_bytes()
    assert b"hush" not in environ
    assert b"HOME" not in environ


def test_an_engine_is_ready_once_a_process_runs_and_tries_again_until_one_does(
    snapshot: TableSnapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blockstore.reader.query.runners.pool._FIRST_PAUSE_S", 0.01)
    room = threading.Event()
    tried = threading.Semaphore(0)

    def no_room(start: Start) -> _Worker:
        tried.release()
        if not room.is_set():
            raise OSError("no room for another process")
        return _Worker(start)

    monkeypatch.setattr("blockstore.reader.query.runners.pool._Worker", no_room)
    with Engine({"t": snapshot}, world=World.real(), capacity=CAPACITY, isolated=True) as engine:
        for _ in range(3):
            assert tried.acquire(timeout=10)
        assert not engine.ready
        room.set()
        end = time.monotonic() + 30
        while not engine.ready:
            assert time.monotonic() < end, "an engine was not ready within thirty seconds"
            time.sleep(0.01)
        assert rows(engine, "SELECT 7 AS n")["n"].to_pylist() == [7]


def test_processes_that_die_at_once_are_tried_by_one_thread_alone(
    snapshot: TableSnapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blockstore.reader.query.runners.pool._FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr("blockstore.reader.query.runners.pool._LAST_PAUSE_S", 0.01)
    tried = threading.Semaphore(0)

    def dying(start: Start) -> _Worker:
        tried.release()
        worker = _Worker(start)
        worker.kill()
        return worker

    monkeypatch.setattr("blockstore.reader.query.runners.pool._Worker", dying)
    with Engine({"t": snapshot}, world=World.real(), capacity=CAPACITY, isolated=True) as engine:
        for _ in range(3):
            assert tried.acquire(timeout=30)
        assert not engine.ready
        assert sum(thread.name == "warming" for thread in threading.enumerate()) == 1


def test_a_worker_that_is_being_started_in_advance_ends_with_the_pool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It holds a folder on the disk for temporary files, which its owner may want to unmount."""
    begun, made = threading.Event(), []

    class Slow(_Worker):
        def __init__(self, start: Start) -> None:
            begun.set()
            time.sleep(0.3)
            super().__init__(start)
            made.append(self)

    monkeypatch.setattr(pool, "_Worker", Slow)
    workers = pool.WorkerPool([], Limits(memory_bytes=64 << 20, threads=1, spill_bytes=1 << 20))
    workers.warm()
    assert begun.wait(10)
    workers.close()
    # On a busy machine the pool is closed before the worker is there.
    ends = time.monotonic() + 60
    while not made or made[0].alive:
        assert time.monotonic() < ends
        time.sleep(0.01)
    assert len(made) == 1
