"""An upload is of one table and of one request: never of another table of that name, nor of an
earlier request of that key."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import orjson
import pyarrow as pa
import pytest

import blockstore.index.log as index_log
from blockstore.bucket.prefixed import Prefixed
from blockstore.compactor.clean.cleaner import Cleaner
from blockstore.errors import Unavailable
from blockstore.format.definition import Definition
from blockstore.index.commit_ids import Commits
from blockstore.index.epochs import claim
from blockstore.names import job_input_key
from blockstore.reader.errors import UnknownTable
from blockstore.reader.jobs.record import Kind, Outcome, Request, State
from blockstore.reader.jobs.runner import Claimed
from blockstore.reader.jobs.work import Failed
from blockstore.reader.jobs.writing import check_same as _check_same
from blockstore.reader.jobs.writing import identity_of
from blockstore.table import Table
from tests.reader.jobs.gateways import (
    GOOD,
    HEADER,
    SCHEMA,
    TERMS,
    WORK,
    Gateway,
    Lake,
    upload_request,
)
from tests.support.faulty import Call, FaultyBucket

JOB = "01JD0000000000000000000000"
TIME = 1_767_225_600_000_000
SEEDS = itertools.count(1_000)
"""The clock does not move: two writers of one seed would draw the same names."""


class Holding(Gateway):
    """A gateway that holds its table's handle, as one that serves does."""

    held: Table | None = None

    def _open(self, name: str) -> Table:
        self.held = self.held or super()._open(name)
        return self.held


@pytest.fixture
def lake() -> Lake:
    return Lake.make()


def drop(lake: Lake) -> None:
    lake.bucket.delete([info.key for info in lake.bucket.list("t/")])


def remake(lake: Lake, appends: int) -> None:
    """Another table under the same name, with as many rows as versions above its first."""
    drop(lake)
    definition = Definition.create(SCHEMA, time_column="time", sort_by=["n"])
    index_log.create(Prefixed(lake.bucket, "t"), lake.world(next(SEEDS)), definition)
    grow(lake, appends)


def grow(lake: Lake, appends: int) -> None:
    table = Table.open_bucket(Prefixed(lake.bucket, "t"), lake.world(next(SEEDS)))
    for number in range(1000, 1000 + appends):
        columns = [
            pa.array([TIME], SCHEMA.field("time").type),
            pa.array([number]),
            pa.array(["its own"]),
        ]
        table.append(pa.table(columns, schema=SCHEMA))


def ask(lake: Lake, gateway: Gateway, text: str = GOOD) -> bool:
    """What the door does: the request says which table it is for."""
    version, commit = identity_of(lake.table().bucket, lake.world(98))
    return gateway.upload(JOB, text, table_version=version, table_commit=commit)


def when_fetched(faulty: FaultyBucket, act: Callable[[], None]) -> None:
    """Let ``act`` happen once, while the file is read."""
    done: list[bool] = []

    def before(call: Call) -> None:
        if not done and call.key.startswith(f"jobs/{JOB}/input-") and call.method == "get_range":
            done.append(True)
            act()

    faulty.before.append(before)


def failed(outcome: Outcome | None, error: str) -> None:
    assert outcome is not None
    assert (outcome.state, outcome.written) == (State.FAILED, None)
    assert outcome.failure is not None
    assert outcome.failure.error == error
    assert "nothing was written" in outcome.failure.message


def taken_over(lake: Lake, gateway: Gateway) -> Claimed:
    """The attempt after one that stalls."""
    gateway.look_and_run()
    lake.clock.advance(TERMS.lease_s)
    [held] = gateway.runner.look()
    return held


def overtime(lake: Lake, faulty: FaultyBucket) -> None:
    when_fetched(faulty, lambda: lake.clock.advance(TERMS.time_limit_s + 1))


@pytest.mark.parametrize("appends", [0, 3, 8], ids=["shorter", "as long", "longer"])
def test_a_table_created_again_while_the_file_is_read_takes_nothing(
    lake: Lake, appends: int
) -> None:
    faulty = FaultyBucket(lake.bucket)
    gateway = lake.gateway(1, bucket=faulty)
    remake(lake, 3)
    ask(lake, gateway)
    when_fetched(faulty, lambda: remake(lake, appends))
    [outcome] = gateway.look_and_run().values()
    failed(outcome, "replaced")
    assert lake.table().snapshot().version == 1 + appends
    grow(lake, 6)
    assert len(lake.rows()) == appends + 6, "its history has no hole"


def test_a_table_dropped_while_the_file_is_read_is_not_begun_again(lake: Lake) -> None:
    faulty = FaultyBucket(lake.bucket)
    gateway = lake.gateway(1, bucket=faulty)
    ask(lake, gateway)
    when_fetched(faulty, lambda: drop(lake))
    [outcome] = gateway.look_and_run().values()
    assert outcome is not None
    assert outcome.failure is not None
    assert outcome.failure.error == "unknown_table"
    assert [info.key for info in lake.bucket.list("t/index/")] == []


def test_an_upload_whose_table_is_gone_names_none_of_those_that_are_near(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its asker may know of some tables only; the runner knows them all."""

    def gone(name: str) -> Table:
        raise UnknownTable(
            f"there is no table {name}: did you mean salaries?", nearest=("salaries",)
        )

    gateway = lake.gateway(1)
    ask(lake, gateway)
    monkeypatch.setattr(Gateway, "_open", lambda self, name: gone(name))
    [outcome] = lake.gateway(2).look_and_run().values()
    failed(outcome, "unknown_table")
    assert "salaries" not in str(outcome)


@pytest.mark.parametrize("holds", [False, True], ids=["opened then", "held before"])
@pytest.mark.parametrize("appends", [0, 4], ids=["as long", "longer"])
def test_a_table_created_again_before_the_upload_ran_takes_nothing(
    lake: Lake, holds: bool, appends: int
) -> None:
    gateway = Holding(lake, 1, lake.bucket, WORK, TERMS) if holds else lake.gateway(1)
    gateway._open("t")
    ask(lake, gateway)
    remake(lake, appends)
    [outcome] = gateway.look_and_run().values()
    failed(outcome, "replaced")
    assert (lake.table().snapshot().version, len(lake.rows())) == (1 + appends, appends)


def test_a_table_that_grew_since_is_the_same(lake: Lake) -> None:
    gateway = Holding(lake, 1, lake.bucket, WORK, TERMS)
    gateway._open("t")
    ask(lake, gateway)
    grow(lake, 5)
    [outcome] = gateway.look_and_run().values()
    assert outcome is not None
    assert outcome.state is State.DONE
    assert lake.rows() == [*range(20), *range(1000, 1005)]


def test_an_upload_that_is_given_up_leaves_a_table_created_again_alone(lake: Lake) -> None:
    one, two = lake.gateway(1), lake.gateway(2)
    ask(lake, one)
    one.runner.look()
    held = taken_over(lake, two)
    remake(lake, 2)
    two.store.cancel(JOB)
    outcome = two.run(held)
    assert outcome is not None
    assert outcome.state is State.CANCELLED
    assert lake.table().snapshot().version == 3


def test_columns_that_were_added_since_the_handle_was_opened_are_taken(lake: Lake) -> None:
    gateway = Holding(lake, 1, lake.bucket, WORK, TERMS)
    gateway._open("t")
    lake.table().alter(add=[pa.field("extra", pa.int64())])
    ask(lake, gateway, "time,n,s,extra\n2026-01-01T00:00:00Z,1,x,5\n")
    [outcome] = gateway.look_and_run().values()
    assert outcome is not None
    assert (outcome.state, outcome.failure) == (State.DONE, None)
    assert lake.table().snapshot().scan(columns=["extra"]).to_table()["extra"].to_pylist() == [5]


def test_a_request_that_names_no_version_is_of_the_present_table(lake: Lake) -> None:
    """A record of before the version was kept."""
    key = job_input_key(JOB, "token")
    document = orjson.loads(upload_request(key, GOOD, 0).dump())
    del document["table_version"], document["table_commit"]
    request = Request.load(orjson.dumps(document), key)
    assert (request.table_version, request.table_commit) == (0, "")
    gateway = lake.gateway(1)
    gateway.upload(JOB)
    remake(lake, 1)
    [outcome] = gateway.look_and_run().values()
    assert outcome is not None
    assert outcome.state is State.DONE


@pytest.mark.parametrize(
    ("version", "same"), [(904, True), (905, False), (5_000, False), (5_001, False)]
)
def test_a_version_that_left_the_window_of_commits_is_not_judged(
    lake: Lake, version: int, same: bool
) -> None:
    state = replace(lake.table().log.state, version=5_000, commits=Commits(version=5_000))
    request = upload_request(job_input_key(JOB, "token"), GOOD, 0)
    with (
        nullcontext()
        if same
        else pytest.raises(Failed, match="table t was dropped and created again")
    ):
        _check_same(state, replace(request, table_version=version, table_commit=JOB))


def test_a_repeat_at_another_version_is_the_same_as() -> None:
    request = upload_request(job_input_key(JOB, "token"), GOOD, 0)
    assert replace(request, table_version=3, table_commit=JOB).same_as(request)
    assert not replace(request, message="other").same_as(request)


def test_a_repeat_by_a_token_of_other_tables_is_the_same_upload_but_not_the_same_query() -> None:
    """A file that is refused as another one is sent under a fresh key, and its rows are there
    twice."""
    upload = Request(
        kind=Kind.UPLOAD,
        owner="o",
        created_ms=1,
        form="csv",
        table="events",
        allowed=("events", "old"),
    )
    assert replace(upload, allowed=("events",)).same_as(upload)
    assert replace(upload, allowed=None).same_as(upload)
    assert not replace(upload, input_sha256="f" * 64).same_as(upload)
    query = Request(
        kind=Kind.QUERY,
        owner="o",
        created_ms=1,
        form="csv",
        sql="FROM events",
        allowed=("events", "old"),
    )
    assert not replace(query, allowed=("events",)).same_as(query)


def test_a_key_that_is_used_again_after_its_job_was_removed_is_another_upload(lake: Lake) -> None:
    gateway = lake.gateway(1)
    ask(lake, gateway)
    [first] = gateway.look_and_run().values()
    lake.clock.advance(TERMS.keep_s * 2)
    gateway.look_and_run()
    assert gateway.store.sketches() == []
    assert ask(lake, gateway, HEADER + "2026-01-02T00:00:00Z,777,x\n")
    [second] = gateway.look_and_run().values()
    assert first is not None
    assert second is not None
    assert first.written is not None
    assert second.written is not None
    assert second.written["ulid"] != first.written["ulid"]
    assert lake.rows() == [*range(20), 777]


def test_an_upload_that_was_given_up_and_not_known_to_be_is_never_called_done(lake: Lake) -> None:
    faulty = FaultyBucket(lake.bucket)
    one, two, three = lake.gateway(1), lake.gateway(2, bucket=faulty), lake.gateway(3)
    ask(lake, one)
    one.runner.look()
    held = taken_over(lake, two)
    overtime(lake, faulty)

    def refused(call: Call) -> None:
        if call.key == f"jobs/{JOB}/outcome.json" and call.method == "put_if_absent":
            raise Unavailable("503 slow down")

    faulty.before.append(refused)
    with pytest.raises(Unavailable):
        two.run(held)
    failed(three.run(taken_over(lake, three)), "given_up")
    assert lake.rows() == []


def test_a_zombie_of_an_upload_that_was_given_up_does_not_call_it_done(lake: Lake) -> None:
    faulty = FaultyBucket(lake.bucket)
    one, two = lake.gateway(1), lake.gateway(2, bucket=faulty)
    ask(lake, one)
    [stalled] = one.runner.look()
    held = taken_over(lake, two)
    overtime(lake, faulty)
    reported: list[Outcome | None] = []

    def wakes(call: Call) -> None:
        if (
            not reported
            and call.key == f"jobs/{JOB}/outcome.json"
            and call.method == "put_if_absent"
        ):
            reported.append(None)
            reported[0] = one.run(stalled)

    faulty.before.append(wakes)
    two.run(held)
    failed(reported[0], "given_up")
    assert two.store.load(JOB).state is State.FAILED
    assert lake.rows() == []


def test_a_zombie_that_had_begun_to_write_is_reported_of_it_at_its_end(lake: Lake) -> None:
    """The batch is taken by the empty entry after the zombie looked and before it finishes."""
    slow, faulty = FaultyBucket(lake.bucket), FaultyBucket(lake.bucket)
    patient = replace(TERMS, time_limit_s=1e9)
    one, two = lake.gateway(1, bucket=slow, terms=patient), lake.gateway(2, bucket=faulty)
    ask(lake, one)
    [stalled] = one.runner.look()
    held = taken_over(lake, two)
    overtime(lake, faulty)

    def refused(call: Call) -> None:
        if call.key == f"jobs/{JOB}/outcome.json" and call.method == "put_if_absent":
            raise Unavailable("503 slow down")

    faulty.before.append(refused)

    def settled() -> None:
        with pytest.raises(Unavailable):
            two.run(held)

    when_fetched(slow, settled)
    failed(one.run(stalled), "given_up")
    assert lake.rows() == []


def test_a_file_without_rows_is_done(lake: Lake) -> None:
    gateway = lake.gateway(1)
    ask(lake, gateway, HEADER)
    [outcome] = gateway.look_and_run().values()
    assert outcome is not None
    assert outcome.state is State.DONE
    assert outcome.written is not None
    assert (outcome.written["ulid"], outcome.written["rows"]) == (None, 0)


def clean(lake: Lake) -> None:
    """A pass of the compactor over the table."""
    table = lake.table()
    Cleaner(table, claim(table.log, table.world, "compactor")).run()


def test_a_table_forgets_an_upload_after_thirty_days_and_takes_no_late_attempt_of_it(
    lake: Lake,
) -> None:
    one, two = lake.gateway(1), lake.gateway(2)
    ask(lake, one)
    [first] = one.runner.look()
    one.run(first)
    assert lake.rows() == list(range(20))
    lake.bucket.delete([f"jobs/{JOB}/outcome.json"])
    lake.clock.advance(33 * 86_400)
    clean(lake)
    assert not lake.table().log.state.batches
    failed_late = two.run(taken_over(lake, two))
    assert failed_late is not None
    assert failed_late.failure is not None
    assert failed_late.failure.error == "forgotten"
    assert "unknown whether an earlier attempt wrote its rows" in failed_late.failure.message
    assert lake.rows() == list(range(20)), "its rows are there once"


def test_a_request_of_an_earlier_gateway_is_remembered_for_ever(lake: Lake) -> None:
    """Its name says no time: the job's id may be a hash."""
    gateway = lake.gateway(1)
    version, commit = identity_of(lake.table().bucket, lake.world(98))
    key = job_input_key(JOB, "0123456789abcdef")
    gateway.bucket.put(key, GOOD.encode())
    request = replace(upload_request(key, GOOD, 1), table_version=version, table_commit=commit)
    gateway.store.submit(JOB, request)
    [outcome] = gateway.look_and_run().values()
    assert outcome is not None
    assert outcome.state is State.DONE
    lake.clock.advance(40 * 86_400)
    clean(lake)
    assert list(lake.table().log.state.batches) == [f"gateway/{JOB}/input-0123456789abcdef"]
