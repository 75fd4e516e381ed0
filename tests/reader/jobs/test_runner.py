"""One job, one end: claims, leases, takeovers, cancellation, expiry; and crashes at every call."""

from __future__ import annotations

from typing import Any

import pytest

from blockstore.clock import ManualClock
from blockstore.errors import Invalid, Unavailable
from blockstore.names import job_outcome_key
from blockstore.reader.jobs.meter import Meter, Stop
from blockstore.reader.jobs.record import Lease, Outcome, State
from blockstore.reader.jobs.runner import MAX_ATTEMPTS
from blockstore.reader.jobs.upload import Uploads
from tests.reader.jobs.gateways import GOOD, HEADER, TERMS, Gateway, Lake
from tests.support.faulty import Call, FaultyBucket, Killed

JOB = "01JD0000000000000000000000"
BAD = GOOD.replace(",7,row 7", ",seven,row 7")


@pytest.fixture
def lake() -> Lake:
    return Lake.make()


def wait_out(lake: Lake, gateway: Gateway) -> None:
    """Let a lease run out before the gateway's eyes; what waits for no lease it runs."""
    gateway.look_and_run()
    lake.clock.advance(TERMS.lease_s)


def test_an_upload_is_appended_once_and_says_where(lake: Lake) -> None:
    gateway = lake.gateway(1)
    assert gateway.upload(JOB)
    [outcome] = gateway.look_and_run().values()
    assert outcome is not None
    assert outcome.state is State.DONE
    assert outcome.written is not None
    assert (outcome.written["version"], outcome.written["rows"]) == (2, 20)
    assert lake.rows() == list(range(20))
    assert gateway.look_and_run() == {}
    assert gateway.store.load(JOB).state is State.DONE


@pytest.mark.parametrize(
    ("text", "line", "column", "value", "rule"),
    [
        (BAD, 9, "n", "seven", "int"),
        (GOOD.replace("00:07Z", "00:61Z"), 9, "time", "2026-01-01T00:00:61Z", "timestamp"),
        (GOOD.replace("2026-01-01T00:00:07Z", ""), 9, "time", "", "null"),
        (GOOD.replace(",7,row 7", ",7"), 9, None, None, "3 fields"),
        (
            GOOD.replace(",0,row 0", ',0,"two\nlines"').replace(",7,row", ",7.5,row"),
            10,
            "n",
            "7.5",
            "int",
        ),
        ("time,n\n", 1, None, None, "'s'"),
        ("", 0, None, None, ""),
    ],
)
def test_a_bad_row_writes_nothing_and_is_named(
    lake: Lake, text: str, line: int, column: str | None, value: str | None, rule: str
) -> None:
    gateway = lake.gateway(1)
    gateway.upload(JOB, text)
    [outcome] = gateway.look_and_run().values()
    assert outcome is not None
    assert outcome.state is State.FAILED
    assert outcome.failure is not None
    if line:
        detail = outcome.failure.detail
        assert (detail["line"], detail["column"], detail["value"]) == (line, column, value)
        assert rule in str(detail["rule"])
        assert f"line {line}" in outcome.failure.message
    assert lake.rows() == []
    assert lake.table().snapshot().version == 1


def test_two_gateways_never_hold_one_attempt(lake: Lake) -> None:
    one, two = lake.gateway(1), lake.gateway(2)
    one.upload(JOB)
    assert len(one.runner.look()) == 1
    assert two.runner.look() == []


def test_a_lease_that_is_renewed_is_never_taken(lake: Lake) -> None:
    one, two = lake.gateway(1), lake.gateway(2)
    one.upload(JOB)
    [held] = one.runner.look()
    meter = Meter(lake.clock, 1e9)
    for beat in range(1, 20):
        lake.clock.advance(TERMS.lease_s * 0.9)
        one.runner.beat(held, meter, beat)
        assert two.runner.look() == []


def test_a_lease_seen_unchanged_for_its_time_is_followed_and_its_holder_learns_it(
    lake: Lake,
) -> None:
    one, two = lake.gateway(1), lake.gateway(2)
    one.upload(JOB)
    [held] = one.runner.look()
    lake.clock.advance(TERMS.lease_s * 10)
    assert two.runner.look() == [], "what was just seen for the first time is alive"
    lake.clock.advance(TERMS.lease_s - 1)
    assert two.runner.look() == []
    lake.clock.advance(1)
    [taken] = two.runner.look()
    assert taken.attempt == 2
    meter = Meter(lake.clock, 1e9)
    one.runner.beat(held, meter, 1)
    assert meter.reason() is Stop.LOST


def test_a_released_lease_is_followed_at_once(lake: Lake) -> None:
    one, two = lake.gateway(1), lake.gateway(2)
    one.upload(JOB)
    [held] = one.runner.look()
    one.runner.close(0)
    assert one.run(held) is None
    assert list(two.look_and_run()) == [JOB]
    assert lake.rows() == list(range(20))


def test_a_zombie_and_its_successor_write_the_rows_once(lake: Lake) -> None:
    """The first holder stalls anywhere before its end, the second one runs whole, then the first
    one goes on."""
    calls = _calls_of_an_upload(lake)
    assert calls > 10
    for stall in range(1, calls + 1):
        fresh = Lake.make()
        faulty = FaultyBucket(fresh.bucket)
        one, two = fresh.gateway(1, bucket=faulty), fresh.gateway(2)
        one.upload(JOB)
        [held] = one.runner.look()
        first = len(faulty.calls)
        ran: list[State] = []

        def stalls(
            call: object,
            fresh: Lake = fresh,
            two: Gateway = two,
            at: int = first + stall,
            ran: list[State] = ran,
            faulty: FaultyBucket = faulty,
        ) -> None:
            if not ran and len(faulty.calls) == at:
                ran.append(State.RUNNING)
                wait_out(fresh, two)
                ran[0] = next(iter(two.look_and_run().values())).state  # type: ignore[union-attr]

        faulty.before.append(stalls)
        one.run(held)
        assert fresh.rows() == list(range(20)), stall
        assert two.store.load(JOB).state is State.DONE


def test_a_zombie_cannot_write_what_its_successor_called_cancelled(lake: Lake) -> None:
    calls = _calls_of_an_upload(lake)
    cancelled = 0
    for stall in range(1, calls + 1):
        fresh = Lake.make()
        faulty = FaultyBucket(fresh.bucket)
        one, two = fresh.gateway(1, bucket=faulty), fresh.gateway(2)
        one.upload(JOB)
        [held] = one.runner.look()
        first = len(faulty.calls)
        done: list[bool] = []

        def stalls(
            call: object,
            fresh: Lake = fresh,
            two: Gateway = two,
            at: int = first + stall,
            done: list[bool] = done,
            faulty: FaultyBucket = faulty,
        ) -> None:
            if not done and len(faulty.calls) == at:
                done.append(True)
                two.store.cancel(JOB)
                wait_out(fresh, two)
                two.look_and_run()

        faulty.before.append(stalls)
        one.run(held)
        state = two.store.load(JOB).state
        assert fresh.rows() == ([] if state is State.CANCELLED else list(range(20))), (stall, state)
        cancelled += state is State.CANCELLED
    assert 0 < cancelled < calls


@pytest.mark.parametrize("text", [GOOD, BAD], ids=["good", "bad"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_gateway_killed_at_any_call_leaves_an_upload_whole_or_absent(
    text: str, after: bool
) -> None:
    """Every call of submitting, claiming, running and ending; then another gateway goes on."""
    point = 0
    while True:
        point += 1
        fresh = Lake.make()
        faulty = FaultyBucket(fresh.bucket, **{"kill_after" if after else "kill_before": point})
        one, two = fresh.gateway(1, bucket=faulty), fresh.gateway(2)
        try:
            one.upload(JOB, text)
            one.look_and_run()
        except Killed:
            pass
        assert fresh.rows() in ([], list(range(20)))
        wait_out(fresh, two)
        two.look_and_run()
        asked = two.store.sketch(JOB).submitted
        if asked:
            state = two.store.load(JOB).state
            assert state is (State.DONE if text is GOOD else State.FAILED), point
        assert fresh.rows() == (list(range(20)) if asked and text is GOOD else [])
        if faulty.killed_at is None:
            break
    assert point > 6


def test_lost_answers_change_nothing(lake: Lake) -> None:
    calls = _calls_of_an_upload(lake) + 4
    for point in range(1, calls + 1):
        fresh = Lake.make()
        faulty = FaultyBucket(fresh.bucket, lose_answer={point})
        one, two = fresh.gateway(1, bucket=faulty), fresh.gateway(2)
        try:
            one.upload(JOB)
            one.look_and_run()
        except Unavailable:
            pass
        for _ in range(2):
            wait_out(fresh, two)
            two.look_and_run()
        if two.store.sketch(JOB).submitted:
            assert two.store.load(JOB).state is State.DONE, point
            assert fresh.rows() == list(range(20)), point
        else:
            assert fresh.rows() == []


def test_a_job_cancelled_before_it_began_ends_without_effect(lake: Lake) -> None:
    gateway = lake.gateway(1)
    gateway.upload(JOB)
    gateway.store.cancel(JOB)
    assert gateway.store.load(JOB).state is State.CANCELLING
    gateway.look_and_run()
    assert gateway.store.load(JOB).state is State.CANCELLED
    assert lake.rows() == []


def test_a_job_that_ends_its_gateways_is_given_up(lake: Lake) -> None:
    watcher = lake.gateway(1)
    watcher.upload(JOB)
    for attempt in range(1, MAX_ATTEMPTS + 1):
        assert watcher.store.claim(JOB, Lease(attempt=attempt, holder="dead", beat=0))
    wait_out(lake, watcher)
    [outcome] = watcher.look_and_run().values()
    assert outcome is not None
    assert outcome.failure is not None
    assert outcome.failure.error == "given_up"
    assert lake.rows() == []


def test_a_query_that_fails_tells_why_and_one_that_works_leaves_a_file(lake: Lake) -> None:
    gateway = lake.gateway(1)
    gateway.upload(JOB)
    gateway.look_and_run()
    other = JOB[:-1] + "1"
    gateway.ask(other)
    [outcome] = gateway.look_and_run().values()
    assert outcome is not None
    assert outcome.result is not None
    data = gateway.bucket.get(outcome.result.key).data
    assert data.decode().splitlines()[0] == '"time","n","s"'
    assert len(data) == outcome.result.bytes
    assert (outcome.result.rows, outcome.result.versions) == (20, {"t": 2})
    third = JOB[:-1] + "2"
    gateway.answer = Invalid("no such column")
    gateway.ask(third)
    [outcome] = gateway.look_and_run().values()
    assert outcome is not None
    assert outcome.failure is not None
    assert outcome.failure.message == "no such column"


def test_a_fault_of_ours_ends_the_job_and_is_called_one(lake: Lake) -> None:
    gateway = lake.gateway(1)
    gateway.answer = ZeroDivisionError("secret")
    gateway.ask(JOB)
    [outcome] = gateway.look_and_run().values()
    assert outcome is not None
    assert outcome.failure is not None
    assert outcome.failure.error == "internal"
    assert "secret" not in outcome.failure.message


def test_the_records_of_a_job_go_a_while_after_its_end_and_open_ones_stay(lake: Lake) -> None:
    gateway = lake.gateway(1)
    gateway.upload(JOB)
    gateway.look_and_run()
    waiting = JOB[:-1] + "1"
    gateway.upload(waiting, message="later")
    lake.clock.advance(TERMS.keep_s / 2)
    assert len(gateway.store.sketches()) == 2
    lake.clock.advance(TERMS.keep_s)
    held = gateway.runner.look()
    assert [one.job for one in held] == [waiting]
    assert [one.job for one in gateway.store.sketches()] == [waiting]


def test_uploads_have_places_of_their_own(lake: Lake) -> None:
    gateway = lake.gateway(1)
    for number in range(5):
        gateway.ask(f"01JD000000000000000000000{number}")
    gateway.upload("01JD0000000000000000000009")
    kinds = [claimed.request.kind for claimed in gateway.runner.look()]
    assert sorted(kinds) == ["download", "download", "upload"]


def _calls_of_an_upload(lake: Lake) -> int:
    faulty = FaultyBucket(lake.bucket)
    gateway = lake.gateway(7, bucket=faulty)
    gateway.upload(JOB)
    [held] = gateway.runner.look()
    before = len(faulty.calls)
    gateway.run(held)
    assert isinstance(lake.clock, ManualClock)
    assert HEADER in GOOD
    return len(faulty.calls) - before


def test_a_word_of_overtime_that_arrives_late_is_true(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway dies with the word on its way; another takes the job up, which has time fresh,
    before it arrives."""
    key, faulty = job_outcome_key(JOB), FaultyBucket(lake.bucket)
    one, two = lake.gateway(1, bucket=faulty), lake.gateway(2)
    one.upload(JOB)
    [held] = one.runner.look()
    read, finish, end = Uploads._read, one.store.finish, two.store.finish
    reported: list[Outcome] = []

    def slowly(*args: Any, **more: Any) -> Any:
        answer = read(*args, **more)
        lake.clock.advance(TERMS.time_limit_s + 1)
        return answer

    def telling(job: str, outcome: Outcome) -> Outcome:
        reported.append(outcome)
        return finish(job, outcome)

    def dies(call: Call) -> None:
        if call.method == "put_if_absent" and call.key == key:
            raise Killed(call)

    def late(job: str, outcome: Outcome) -> Outcome:
        lake.bucket.put_if_absent(key, reported[0].dump())
        return end(job, outcome)

    faulty.before.append(dies)
    monkeypatch.setattr(one.store, "finish", telling)
    with monkeypatch.context() as patched:
        patched.setattr(Uploads, "_read", slowly)
        with pytest.raises(Killed):
            one.run(held)
    wait_out(lake, two)
    monkeypatch.setattr(two.store, "finish", late)
    two.look_and_run()
    assert two.store.load(JOB).state is State.FAILED
    assert lake.rows() == []
