"""CREATE OR REPLACE as a job: the former table is there, or its successor, whichever gateways die;
and what gives the job up leaves one of the two."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

import pyarrow as pa
import pytest

import blockstore.index.log as index_log
from blockstore.bucket.prefixed import Prefixed
from blockstore.errors import AccessDenied, Corrupt, Invalid, NoMemory, NotFound
from blockstore.format.definition import Definition
from blockstore.operations.drop import drop_table
from blockstore.reader.jobs.meter import Stop
from blockstore.reader.jobs.record import Kind, State
from blockstore.reader.jobs.writing import identity_of
from blockstore.reader.query.answer import Answer
from blockstore.reader.statements.first_rows import after_all
from blockstore.table import Table
from tests.reader.jobs.gateways import TERMS, Gateway, Lake
from tests.reader.jobs.test_statement_jobs import BEFORE, JOB, a_lake, gateway_of, table_of
from tests.reader.jobs.test_tables_of_queries import attempt, killing, seen
from tests.support.faulty import Call, FaultyBucket

MADE = "CREATE TABLE made AS SELECT item, n FROM p"
CASES = {
    "create": "CREATE OR REPLACE TABLE made (item VARCHAR, n BIGINT)",
    "create_as": "CREATE OR REPLACE TABLE made AS SELECT item, -n AS n FROM p WHERE n < 3",
    "create_as none": "CREATE OR REPLACE TABLE made AS SELECT item, n FROM p WHERE n > 9",
}
NEW = {"create": [], "create_as": [("bolt", -2), ("nut", -1)], "create_as none": []}


def a_made(kind: str = "plain") -> Lake:
    """A lake with the table ``made``, which has the rows of ``p``."""
    lake = a_lake(kind)
    with gateway_of(lake, 7) as gateway:
        body = json.dumps({"sql": MADE, "parameters": None})
        job = "01JC0000000000000000000000"
        gateway.upload(job, body, kind=Kind.TABLE, what="create_as", table="made", form="json")
        gateway.look_and_run()
    assert seen(lake) == BEFORE
    return lake


def submit(gateway: Gateway, case: str) -> None:
    body = json.dumps({"sql": CASES[case], "parameters": None})
    version, commit = identity_of(Prefixed(gateway.bucket, "made"), gateway.world, dropped=True)
    gateway.upload(
        JOB,
        body,
        kind=Kind.TABLE,
        what=case.partition(" ")[0],
        table="made",
        form="json",
        table_version=version,
        table_commit=commit,
    )


def finished(lake: Lake, case: str) -> State:
    """Let another gateway do what is left; return how it ends."""
    with gateway_of(lake, 2) as gateway:
        if not gateway.store.sketch(JOB).submitted:
            submit(gateway, case)
        for _ in range(4):
            gateway.look_and_run()
            lake.clock.advance(TERMS.lease_s + 1)
        return gateway.store.load(JOB).state


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["after", "lost"])
@pytest.mark.parametrize("case", CASES)
def test_a_gateway_killed_at_any_write_leaves_what_another_one_completes(
    case: str, fault: str
) -> None:
    count = len(attempt(a_made(), lambda gateway: submit(gateway, case), killing(-1, fault)).writes)
    assert count >= 6, "an input, a request, a lease, a drop, the table, an outcome"
    for write in range(1, count + 1):
        lake = a_made()
        attempt(lake, lambda gateway: submit(gateway, case), killing(write, fault))
        assert seen(lake) in (BEFORE, None, [], NEW[case]), write
        assert finished(lake, case) is State.DONE, write
        assert seen(lake) == NEW[case], write


@pytest.mark.parametrize("case", CASES)
def test_one_that_is_given_up_leaves_the_former_table_or_the_new_one(case: str) -> None:
    """A gateway dies at each write, and then the job is cancelled before another takes it up."""
    alive = attempt(a_made(), lambda gateway: submit(gateway, case), killing(-1, "after"))
    count = len(alive.writes)
    found = set()
    for write in range(1, count + 1):
        lake = a_made()
        attempt(lake, lambda gateway: submit(gateway, case), killing(write, "after"))
        with gateway_of(lake, 2) as gateway:
            if not gateway.store.sketch(JOB).submitted:
                continue
            gateway.store.cancel(JOB)
            for _ in range(4):
                gateway.look_and_run()
                lake.clock.advance(TERMS.lease_s + 1)
            state = gateway.store.load(JOB).state
        rows = seen(lake)
        found.add((state, rows == BEFORE))
        if state is State.DONE:
            assert rows == NEW[case], write
        elif rows is not None:
            assert (state, rows) == (State.CANCELLED, BEFORE), write
        else:
            # It died between the new table and its rows: nothing brings the former one back.
            assert case.startswith("create_as"), write
    assert (State.CANCELLED, True) in found
    assert (State.DONE, False) in found


def test_what_the_table_refuses_leaves_the_former_table() -> None:
    lake = a_made()
    sql = "CREATE OR REPLACE TABLE made WITH (time_column = t) AS SELECT NULL::TIMESTAMP AS t"
    with gateway_of(lake, 1) as gateway:
        version, commit = identity_of(Prefixed(lake.bucket, "made"), gateway.world)
        body = json.dumps({"sql": sql, "parameters": None})
        more = {"table_version": version, "table_commit": commit}
        gateway.upload(
            JOB, body, kind=Kind.TABLE, what="create_as", table="made", form="json", **more
        )
        gateway.look_and_run()
        failure = gateway.store.load(JOB).outcome
    assert failure is not None
    assert failure.failure is not None
    assert "'t' is null" in failure.failure.message
    assert seen(lake) == BEFORE


def test_another_table_that_came_under_the_name_is_not_replaced() -> None:
    lake = a_made()
    with gateway_of(lake, 1) as gateway:
        submit(gateway, "create")
        bucket, world = Prefixed(lake.bucket, "made"), lake.world(5)
        former = Table.open_bucket(bucket, world)
        rows = former.snapshot().scan().to_table()
        drop_table(former.log, world)
        log = index_log.create(bucket, world, former.definition)
        Table(bucket, world, log).append(rows)
        gateway.look_and_run()
        outcome = gateway.store.load(JOB).outcome
    assert outcome is not None
    assert outcome.failure is not None
    assert outcome.failure.error == "replaced"
    assert seen(lake) == BEFORE


@pytest.mark.parametrize("reason", [Stop.CANCELLED, Stop.OVERTIME])
def test_one_that_is_stopped_before_the_drop_leaves_the_former_table(reason: Stop) -> None:
    lake = a_made()
    with gateway_of(lake, 1) as gateway:
        submit(gateway, "create_as")
        (claimed,) = gateway.runner.look()
        meter = gateway.runner._meter(claimed)
        meter.stop(reason)
        with pytest.raises(Exception, match=reason.value):
            gateway.runner._works[Kind.TABLE].run(JOB, 1, claimed.request, meter)
    assert seen(lake) == BEFORE


CALLS = {
    "tag": "CALL tag('p', 'kept', 2)",
    "restore": "CALL restore('p', 2)",
    "revert": "CALL revert('p', '{write}')",
}


def call_of(lake: Lake, call: str) -> str:
    write = next(iter(table_of(lake).log.entries(3, 3))).add[0].meta.ulid
    return CALLS[call].format(write=write)


def shown(lake: Lake) -> tuple[dict[str, int], list[str]]:
    """The tags of a person, and the items."""
    table = table_of(lake)
    tags = {name: at for name, at in table.log.state.tags.items() if not name.startswith("_")}
    items = table.snapshot().scan(columns=["item"]).to_table()["item"].to_pylist()
    return tags, sorted(items)


def send(gateway: Gateway, sql: str) -> None:
    body = json.dumps({"sql": sql, "parameters": None})
    gateway.upload(JOB, body, kind=Kind.STATEMENT, what="call", table="p", form="json")


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["after", "lost"])
@pytest.mark.parametrize("kind", ["plain", "ids", "key"])
@pytest.mark.parametrize("call", CALLS)
def test_a_call_happens_once_whichever_gateways_die(call: str, kind: str, fault: str) -> None:
    before = shown(a_lake(kind))
    lake = a_lake(kind)
    alive = attempt(lake, lambda gateway: send(gateway, call_of(lake, call)), killing(-1, fault))
    count = len(alive.writes)
    after = shown(lake)
    assert after != before
    for write in range(1, count + 1):
        lake = a_lake(kind)
        sql = call_of(lake, call)
        attempt(lake, lambda gateway, sql=sql: send(gateway, sql), killing(write, fault))
        assert shown(lake) in (before, after), write
        with gateway_of(lake, 2) as gateway:
            if not gateway.store.sketch(JOB).submitted:
                send(gateway, sql)
            for _ in range(4):
                gateway.look_and_run()
                lake.clock.advance(TERMS.lease_s + 1)
            job = gateway.store.load(JOB)
        assert job.state is State.DONE, write
        assert job.outcome is not None
        assert job.outcome.written is not None
        assert job.outcome.written.get("rows") is None
        assert shown(lake) == after, write
        done = [one for one in table_of(lake).log.entries() if one.job is not None]
        assert [str(one.operation) for one in done] == [call], write
        assert job.outcome.written["version"] == done[0].id, write


def test_a_dropped_table_is_no_longer_there_for_a_call() -> None:
    lake = a_lake("plain")
    with gateway_of(lake, 1) as gateway:
        send(gateway, "CALL tag('p', 'a')")
        drop_table(table_of(lake).log, lake.world(8))
        gateway.look_and_run()
        outcome = gateway.store.load(JOB).outcome
    assert outcome is not None
    assert outcome.failure is not None
    assert outcome.failure.error == "unknown_table"
    with pytest.raises(NotFound):
        table_of(lake)


def test_one_that_is_cancelled_after_the_drop_is_completed() -> None:
    """The former table is gone by then: nothing but its successor helps."""
    lake = a_made()
    faulty = FaultyBucket(lake.bucket)
    with gateway_of(lake, 1, faulty) as gateway:
        submit(gateway, "create_as")
        (claimed,) = gateway.runner.look()
        meter = gateway.runner._meter(claimed)

        def stop(call: Call) -> None:
            if call.writes and "made/" in call.key and seen(lake) in (None, []):
                meter.stop(Stop.CANCELLED)

        faulty.after.append(stop)
        ended = gateway.runner._works[Kind.TABLE].run(JOB, 1, claimed.request, meter)
    assert meter.reason() is Stop.CANCELLED
    assert (ended.written or {})["rows"] == 2
    assert seen(lake) == NEW["create_as"]


@pytest.mark.parametrize("case", ["create", "create_as"])
def test_an_attempt_that_goes_on_after_its_job_was_cancelled_drops_nothing(case: str) -> None:
    """It stalled just before the drop; another gateway took the job over, and gave it up."""
    lake = a_made()
    faulty = FaultyBucket(lake.bucket)
    states: list[State] = []

    def stalls(call: Call) -> None:
        if call.method != "put_if_absent" or "made/index/" not in call.key or states:
            return
        states.append(State.RUNNING)
        lake.clock.advance(TERMS.lease_s + 1)
        with gateway_of(lake, 2) as other:
            other.store.cancel(JOB)
            for _ in range(4):
                other.look_and_run()
                lake.clock.advance(TERMS.lease_s + 1)
            states.append(other.store.load(JOB).state)

    faulty.before.append(stalls)
    with gateway_of(lake, 1, faulty) as gateway:
        submit(gateway, case)
        gateway.look_and_run()
    assert states == [State.RUNNING, State.CANCELLED]
    assert seen(lake) == BEFORE


def test_its_rows_go_into_its_own_table_alone() -> None:
    """Another program replaces the new table before the rows come."""
    lake = a_made()
    faulty = FaultyBucket(lake.bucket)
    replaced: list[None] = []

    def replaces(call: Call) -> None:
        if not (call.writes and "made/index/" in call.key and seen(lake) == []) or replaced:
            return
        replaced.append(None)
        bucket, world = Prefixed(lake.bucket, "made"), lake.world(5)
        table = Table.open_bucket(bucket, world)
        drop_table(table.log, world)
        log = index_log.create(bucket, world, table.definition)
        own = pa.table({"item": ["own"], "n": [77]}, schema=table.definition.schema)
        Table(bucket, world, log).append(own)

    faulty.after.append(replaces)
    with gateway_of(lake, 1, faulty) as gateway:
        submit(gateway, "create_as")
        gateway.look_and_run()
        lake.clock.advance(TERMS.lease_s + 1)
        gateway.look_and_run()
        job = gateway.store.load(JOB)
    assert job.state is State.FAILED
    assert seen(lake) == [("own", 77)]


@pytest.mark.parametrize("error", [Invalid("x"), AccessDenied("no"), Corrupt("c")])
@pytest.mark.parametrize("case", ["create", "create_as"])
def test_a_creation_that_fails_brings_the_former_table_back(
    case: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = a_made()

    def fails(*_: object, **__: object) -> None:
        raise error

    with gateway_of(lake, 1) as gateway:
        submit(gateway, case)
        monkeypatch.setattr(index_log, "create", fails)
        gateway.look_and_run()
        assert gateway.store.load(JOB).state is State.FAILED
    assert seen(lake) == BEFORE


def test_rows_that_wait_have_a_limit() -> None:
    schema = pa.schema([("n", pa.int64())])
    batches = [pa.record_batch([pa.array(range(1000))], schema=schema)] * 20
    table = Definition.create(schema)

    class Rows:
        """An answer of twenty batches."""

        def __init__(self) -> None:
            self.schema = schema

        def __iter__(self) -> Iterator[pa.RecordBatch]:
            return iter(batches)

    answer = cast(Answer, Rows())
    with after_all(answer, table, None, 1 << 20) as rows:
        assert sum(batch.num_rows for batch in rows) == 20_000
    with pytest.raises(NoMemory, match="temporary disk"), after_all(answer, table, None, 100_000):
        raise AssertionError("the rows are more than the limit")


def test_a_call_that_is_cancelled_while_it_commits_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake = a_lake("plain")
    real = Table.tag
    with gateway_of(lake, 1) as gateway:

        def tag(*given: Any, **more: Any) -> int:
            made = real(*given, **more)
            gateway.store.cancel(JOB)
            gateway.runner.stop_here(JOB)
            return made

        monkeypatch.setattr(Table, "tag", tag)
        send(gateway, "CALL tag('p', 'kept', 2)")
        gateway.look_and_run()
        job = gateway.store.load(JOB)
    assert job.state is State.DONE
    assert shown(lake)[0] == {"kept": 2}


def test_a_call_in_conflict_fails_at_once() -> None:
    """Tried again later, it would do what its sender has forgotten."""
    lake = a_lake("plain")
    table_of(lake).tag("kept", version=2)
    with gateway_of(lake, 1) as gateway:
        send(gateway, "CALL tag('p', 'kept')")
        gateway.look_and_run()
        outcome = gateway.store.load(JOB).outcome
    assert outcome is not None
    assert outcome.failure is not None
    assert outcome.failure.error == "conflict"
    assert shown(lake)[0] == {"kept": 2}
