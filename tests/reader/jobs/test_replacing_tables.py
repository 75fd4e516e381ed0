"""CREATE OR REPLACE as a job: the former table is there, or its successor, whichever gateways die;
and what gives the job up leaves one of the two."""

from __future__ import annotations

import json

import pytest

import blockstore.index.log as index_log
from blockstore.bucket.prefixed import Prefixed
from blockstore.errors import NotFound
from blockstore.operations.drop import drop_table
from blockstore.reader.jobs.meter import Stop
from blockstore.reader.jobs.record import Kind, State
from blockstore.reader.jobs.writing import identity_of
from blockstore.table import Table
from tests.reader.jobs.gateways import TERMS, Gateway, Lake
from tests.reader.jobs.test_statement_jobs import BEFORE, JOB, a_lake, gateway_of, table_of
from tests.reader.jobs.test_tables_of_queries import attempt, killing, seen

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
