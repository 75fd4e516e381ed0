"""CREATE TABLE … AS as a job: the table has all rows of its query, once, or is not there."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import blockstore.index.log as index_log
from blockstore.bucket.prefixed import Prefixed
from blockstore.errors import NotFound, TableDropped, Unanswered
from blockstore.format.definition import Definition
from blockstore.operations.drop import drop_table
from blockstore.reader.jobs.meter import Stop
from blockstore.reader.jobs.record import Kind, Outcome, State
from blockstore.table import Table
from tests.reader.jobs.gateways import TERMS, Gateway, Lake
from tests.reader.jobs.test_statement_jobs import JOB, STOCK, a_lake, gateway_of
from tests.support.faulty import Call, FaultyBucket, Killed
from tests.support.tally import tally

ROWS = [("bolt", 2), ("nut", 1), ("pin", 3)]
CASES: dict[str, tuple[str, list[tuple[object, ...]]]] = {
    "some": ("CREATE TABLE made AS SELECT item, n FROM p", ROWS),
    "key": ("CREATE TABLE made WITH (row_ids = true) AS SELECT item, n FROM p", ROWS),
    "none": ("CREATE TABLE made AS SELECT item, n FROM p WHERE n > 9", []),
    "no_data": ("CREATE TABLE made AS SELECT item, n FROM p WITH NO DATA", []),
}
LATE = """CREATE TABLE made AS SELECT 'a' AS item,
    CASE WHEN n = 400000 THEN error('late') ELSE n::VARCHAR END AS n FROM range(500000) r(n)"""
"""Its first rows are fine."""


def submit(gateway: Gateway, sql: str) -> None:
    body = json.dumps({"sql": sql, "parameters": None})
    gateway.upload(JOB, body, kind=Kind.TABLE, what="create_as", table="made", form="json")


def seen(lake: Lake) -> list[tuple[object, ...]] | None:
    """The rows of the new table; None if there is none."""
    try:
        table = Table.open_bucket(Prefixed(lake.bucket, "made"), lake.world(99))
    except NotFound:
        return None
    rows = table.snapshot().scan(columns=["item", "n"]).to_table().to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def attempt(
    lake: Lake, send: Callable[[Gateway], None], act: Callable[[FaultyBucket], None]
) -> FaultyBucket:
    """Send something to a gateway whose bucket ``act`` prepares, and run it."""
    faulty = FaultyBucket(lake.bucket)
    act(faulty)
    with gateway_of(lake, 1, faulty) as gateway, suppress(Killed, Unanswered):
        send(gateway)
        gateway.look_and_run()
    return faulty


def killing(write: int, fault: str) -> Callable[[FaultyBucket], None]:
    """Kill a gateway after one of its writes, or lose the answer to it; -1 for none."""

    def act(faulty: FaultyBucket) -> None:
        def happens(call: Call) -> None:
            if not call.writes or len(faulty.writes) != write:
                return
            tally("crash points")
            if fault == "lost":
                raise Unanswered(f"the answer to {call} was lost")
            faulty.killed_at = call
            raise Killed(call)

        faulty.after.append(happens)

    return act


def finished(lake: Lake, sql: str) -> Outcome:
    """Let another gateway do what is left; return the outcome."""
    with gateway_of(lake, 2) as gateway:
        if not gateway.store.sketch(JOB).submitted:
            submit(gateway, sql)
        for _ in range(4):
            gateway.look_and_run()
            lake.clock.advance(TERMS.lease_s + 1)
        outcome = gateway.store.load(JOB).outcome
        assert outcome is not None
        return outcome


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["after", "lost"])
@pytest.mark.parametrize("what", CASES)
def test_a_gateway_killed_at_any_write_leaves_a_table_that_another_one_fills(
    what: str, fault: str
) -> None:
    sql, rows = CASES[what]

    def send(gateway: Gateway) -> None:
        submit(gateway, sql)

    writes = len(attempt(a_lake("plain"), send, killing(-1, fault)).writes)
    assert writes >= 6, "an input, a request, a lease, the table, its rows, an outcome"
    for write in range(1, writes + 1):
        lake = a_lake("plain")
        attempt(lake, send, killing(write, fault))
        assert seen(lake) in (None, [], rows), write
        outcome = finished(lake, sql)
        assert outcome.state is State.DONE, (write, outcome.failure)
        assert outcome.written is not None
        assert outcome.written["inserted"] == len(rows), write
        assert seen(lake) == rows, write


def test_a_query_that_fails_after_its_first_rows_takes_the_table_away() -> None:
    lake = a_lake("plain")
    outcome = finished(lake, LATE)
    assert outcome.state is State.FAILED
    assert outcome.failure is not None
    assert "late" in outcome.failure.message
    assert seen(lake) is None
    log = Table.open_bucket(Prefixed(lake.bucket, "made"), lake.world(99), dropped=True).log
    assert log.state.dropped is not None


@pytest.mark.parametrize("reason", [Stop.CANCELLED, Stop.OVERTIME, Stop.CLOSING])
def test_one_that_is_stopped_while_it_is_filled(reason: Stop) -> None:
    """Cancelled or too slow, it takes the table away; a gateway that closes leaves the table to the
    next one."""
    sql, rows = CASES["some"]
    lake = a_lake("plain")
    faulty = FaultyBucket(lake.bucket)
    with gateway_of(lake, 1, faulty) as gateway:
        submit(gateway, sql)
        (claimed,) = gateway.runner.look()
        meter = gateway.runner._meter(claimed)

        def stop(call: Call) -> None:
            if call.writes and "made/index" in call.key:
                meter.stop(reason)

        faulty.after.append(stop)
        with pytest.raises(Exception, match=reason.value):
            gateway.runner._works[Kind.TABLE].run(JOB, 1, claimed.request, meter)
    if reason is Stop.CLOSING:
        assert seen(lake) == []
        assert finished(lake, sql).state is State.DONE
        assert seen(lake) == rows
    else:
        assert seen(lake) is None


def test_an_attempt_that_is_stopped_reports_what_another_one_has_filled() -> None:
    """Also where that has no rows: only the batch says that the table is complete."""
    sql, _ = CASES["none"]
    lake = a_lake("plain")
    faulty = FaultyBucket(lake.bucket)
    filled: list[Any] = []
    with gateway_of(lake, 1, faulty) as one, gateway_of(lake, 2) as two:
        submit(one, sql)
        (claimed,) = one.runner.look()
        meter = one.runner._meter(claimed)

        def overtakes(call: Call) -> None:
            if call.writes and "made/index" in call.key and not filled:
                filled.append(None)
                other = two.runner._meter(claimed)
                work = two.runner._works[Kind.TABLE]
                filled.append(work.run(JOB, 2, claimed.request, other).written)
                meter.stop(Stop.CANCELLED)

        faulty.after.append(overtakes)
        ended = one.runner._works[Kind.TABLE].run(JOB, 1, claimed.request, meter)
    assert filled[1] == ended.written == {"version": 2, "rows": 0, "inserted": 0}
    assert seen(lake) == []


def test_a_job_that_is_given_up_takes_its_empty_table_away_and_late_rows_find_it_dropped() -> None:
    sql, _ = CASES["some"]
    lake = a_lake("plain")
    faulty = FaultyBucket(lake.bucket)
    settled: list[Any] = []
    with gateway_of(lake, 1, faulty) as one, gateway_of(lake, 2) as two:

        def gives_up(call: Call) -> None:
            made = call.method == "put_if_absent" and "made/index/" in call.key
            if made and seen(lake) == [] and not settled:
                settled.append(two.runner._works[Kind.TABLE].settle(JOB, two.store.request(JOB)))

        faulty.before.append(gives_up)
        submit(one, sql)
        (outcome,) = one.look_and_run().values()
    assert settled == [None]
    assert outcome is not None
    assert outcome.state is State.FAILED
    assert outcome.failure is not None
    assert "dropped" in outcome.failure.message
    assert seen(lake) is None


@pytest.mark.parametrize("what", CASES)
def test_a_table_that_was_filled_is_not_given_up(what: str) -> None:
    """Its gateway died before it recorded the outcome; another one gives the job up."""
    sql, rows = CASES[what]
    lake = a_lake("plain")
    with gateway_of(lake, 1) as one, gateway_of(lake, 2) as two:
        submit(one, sql)
        (claimed,) = one.runner.look()
        one.runner._works[Kind.TABLE].run(JOB, 1, claimed.request, one.runner._meter(claimed))
        ended = two.runner._works[Kind.TABLE].settle(JOB, claimed.request)
    assert ended is not None
    assert ended.written == {"version": 2, "rows": len(rows), "inserted": len(rows)}
    assert seen(lake) == rows


def test_a_table_of_others_is_neither_filled_nor_dropped() -> None:
    lake = a_lake("plain")
    with gateway_of(lake, 1) as gateway:
        submit(gateway, "CREATE TABLE made AS SELECT 'x' AS item, 1 AS n")
        (claimed,) = gateway.runner.look()
        world, bucket = lake.world(3), Prefixed(lake.bucket, "made")
        index_log.create(bucket, world, Definition.create(STOCK))
        (outcome,) = [gateway.runner.run(claimed)]
    assert outcome is not None
    assert outcome.failure is not None
    assert outcome.failure.error == "conflict"
    assert seen(lake) == []


def test_a_user_may_drop_it_later() -> None:
    """A late attempt finds that it was done, and leaves it dropped."""
    sql, _ = CASES["some"]
    lake = a_lake("plain")
    with gateway_of(lake, 1) as gateway:
        submit(gateway, sql)
        (claimed,) = gateway.runner.look()
        work, meter = gateway.runner._works[Kind.TABLE], gateway.runner._meter(claimed)
        work.run(JOB, 1, claimed.request, meter)
        log = Table.open_bucket(Prefixed(lake.bucket, "made"), lake.world(3)).log
        drop_table(log, lake.world(3))
        ended = work.run(JOB, 2, claimed.request, meter)
    assert ended.written == {"version": 2, "rows": 3, "inserted": 3}
    with pytest.raises(TableDropped):
        Table.open_bucket(Prefixed(lake.bucket, "made"), lake.world(99))
