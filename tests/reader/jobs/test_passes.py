"""One pass over many jobs: what fails for one of them, or after the claims, takes nothing from the
others."""

from __future__ import annotations

import pytest

from blockstore.errors import Unanswered, Unavailable
from blockstore.names import JOBS, JOBS_OPEN, job_open_key, job_prefix, job_request_key
from blockstore.reader.jobs import marks
from blockstore.reader.jobs.record import Kind, Lease, Outcome, State
from tests.reader.jobs.gateways import GOOD, TERMS, Gateway, Lake
from tests.support.faulty import Call, FaultyBucket

FIRST, SECOND, THIRD = (f"01JD000000000000000000000{number}" for number in range(3))
OTHER = GOOD.replace("row", "other")


@pytest.fixture
def lake() -> Lake:
    return Lake.make()


def passes(lake: Lake, gateway: Gateway) -> None:
    """So many that a lease that no one renews has run out before the gateway's eyes."""
    for _ in range(3):
        gateway.look_and_run()
        lake.clock.advance(TERMS.lease_s + 1)


def test_a_claim_that_fails_takes_no_claim_back_and_no_place(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = lake.gateway(1)
    gateway.upload(FIRST)
    gateway.upload(SECOND, OTHER)
    claim, failures = gateway.store.claim, [1]

    def fails_once(job: str, lease: Lease) -> bool:
        if job == SECOND and failures:
            failures.pop()
            raise Unavailable("slow down")
        return claim(job, lease)

    monkeypatch.setattr(gateway.store, "claim", fails_once)
    passes(lake, gateway)
    assert not failures
    assert [gateway.store.load(job).state for job in (FIRST, SECOND)] == [State.DONE, State.DONE]
    assert gateway.runner.running == 0
    assert len(lake.rows()) == 40


def test_old_jobs_that_cannot_be_removed_hold_no_new_one_up(lake: Lake) -> None:
    faulty = FaultyBucket(lake.bucket)
    gateway = lake.gateway(1, bucket=faulty)
    gateway.upload(FIRST)
    gateway.look_and_run()
    lake.clock.advance(2 * TERMS.keep_s)
    gateway.upload(SECOND, OTHER)

    def no_delete(call: Call) -> None:
        if call.method == "delete":
            raise Unavailable("slow down")

    faulty.before.append(no_delete)
    [claimed] = gateway.runner.look()
    faulty.before.clear()
    outcome = gateway.run(claimed)
    assert outcome is not None
    assert outcome.state is State.DONE
    assert gateway.runner.running == 0


def test_a_record_that_cannot_be_read_holds_no_other_job_up(lake: Lake) -> None:
    gateway = lake.gateway(1)
    lake.bucket.put(job_request_key(FIRST), b'{"format": 2}')
    gateway.upload(SECOND)
    gateway.look_and_run()
    assert gateway.store.load(SECOND).state is State.DONE


def test_a_job_that_was_submitted_again_outlives_another_gateways_old_listing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = lake.gateway(1), lake.gateway(2)
    one.upload(FIRST)
    one.look_and_run()
    lake.clock.advance(2 * TERMS.keep_s)
    stale = two.store.sketches()
    one.runner.look()
    assert not one.store.sketch(FIRST).submitted, "swept"
    assert one.upload(FIRST)
    monkeypatch.setattr(two.store, "sketches", lambda: stale)
    two.runner._sweep()
    assert two.store.sketch(FIRST).submitted


def test_a_first_attempt_that_is_cancelled_after_a_second_began_asks_what_that_wrote(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = lake.gateway(1), lake.gateway(2)
    one.upload(FIRST)
    [first] = one.runner.look()
    two.look_and_run()
    lake.clock.advance(TERMS.lease_s)
    [second] = two.runner.look()
    finish = two.store.finish

    def cancelled_before(job: str, outcome: Outcome) -> Outcome:
        one.store.cancel(job)
        one.run(first)
        return finish(job, outcome)

    monkeypatch.setattr(two.store, "finish", cancelled_before)
    two.run(second)
    state = one.store.load(FIRST).state
    assert (state, len(lake.rows())) in ((State.DONE, 20), (State.CANCELLED, 0))


def test_an_attempt_whose_job_has_ended_does_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = lake.gateway(1), lake.gateway(2)
    one.upload(FIRST)
    [first] = one.runner.look()
    two.look_and_run()
    lake.clock.advance(TERMS.lease_s)
    two.look_and_run()
    assert two.store.load(FIRST).state is State.DONE

    def never(*_: object) -> None:
        raise AssertionError("it read its input")

    monkeypatch.setattr(one.runner._works[Kind.UPLOAD], "run", never)
    assert one.run(first) is None
    assert len(lake.rows()) == 20


def listed(lake: Lake, gateway: Gateway, faulty: FaultyBucket) -> list[str]:
    """What one pass lists."""
    found: list[str] = []

    def notes(call: Call) -> None:
        if call.method == "list":
            found.append(call.key)

    faulty.before.append(notes)
    gateway.runner.look()
    faulty.before.clear()
    return found


def test_a_pass_does_not_list_the_jobs_that_are_over(lake: Lake) -> None:
    faulty = FaultyBucket(lake.bucket)
    gateway = lake.gateway(1, bucket=faulty)
    for job in (FIRST, SECOND):
        gateway.upload(job)
        gateway.look_and_run()
    assert JOBS not in listed(lake, gateway, faulty), "the first pass of a gateway listed them"
    assert gateway.store.marked() == {}
    gateway.upload(THIRD, OTHER)
    assert listed(lake, gateway, faulty) == [JOBS_OPEN, job_prefix(THIRD)]
    lake.clock.advance(TERMS.keep_s / 4 + 1)
    assert JOBS in listed(lake, gateway, faulty), "a sweep lists all"


def test_what_others_ended_is_looked_at_once_more(lake: Lake) -> None:
    one, faulty = lake.gateway(1), FaultyBucket(lake.bucket)
    two = lake.gateway(2, bucket=faulty)
    two.runner.look()
    one.upload(FIRST)
    one.look_and_run()
    assert list(one.store.marked()) == [FIRST]
    assert listed(lake, two, faulty) == [JOBS_OPEN, job_prefix(FIRST)]
    assert listed(lake, two, faulty) == [JOBS_OPEN]


def test_a_job_of_a_gateway_that_marks_none_is_found_by_a_sweep(lake: Lake) -> None:
    gateway = lake.gateway(1)
    gateway.look_and_run()
    gateway.upload(FIRST)
    gateway.store.unmark([FIRST])
    gateway.look_and_run()
    assert gateway.store.load(FIRST).state is State.QUEUED
    lake.clock.advance(TERMS.keep_s / 4 + 1)
    gateway.look_and_run()
    gateway.look_and_run()
    assert gateway.store.load(FIRST).state is State.DONE


def test_a_job_that_has_no_place_in_the_list_gets_it_and_loses_it_with_its_records(
    lake: Lake,
) -> None:
    gateway = lake.gateway(1)
    gateway.upload(FIRST)
    gateway.look_and_run()
    store = gateway.store
    store.unlist(store.places()[FIRST])  # as a gateway of an earlier release leaves it
    store.list_as(SECOND, store.request(FIRST))  # its request never came
    lake.clock.advance(TERMS.keep_s / 4 + 1)
    gateway.look_and_run()
    assert {job: len(places) for job, places in store.places().items()} == {FIRST: 1, SECOND: 1}
    owner, created_ms = store.request(FIRST).owner, store.request(FIRST).created_ms
    assert (created_ms, FIRST) in list(store.newest(owner, None))
    lake.clock.advance(TERMS.keep_s + 1)
    gateway.look_and_run()
    assert store.places() == {}
    assert list(store.newest(owner, None)) == list(store.newest(None, None)) == []


def test_a_mark_without_a_request_goes_with_the_old_jobs(lake: Lake) -> None:
    gateway = lake.gateway(1)
    gateway.store.mark(FIRST)
    gateway.look_and_run()
    assert list(gateway.store.marked()) == [FIRST], "its request may still come"
    lake.clock.advance(TERMS.keep_s + 1)
    gateway.look_and_run()
    assert gateway.store.marked() == {}


def test_every_marked_job_gets_its_turn(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks, "AT_ONCE", 3)
    gateway = lake.gateway(1)
    gateway.runner.look()
    jobs = [f"01JD00000000000000000000{number:02}" for number in range(10)]
    for place, job in enumerate(jobs):
        gateway.upload(job, GOOD.replace("row", f"r{place}"))
        for junk in range(3):  # marks of requests that never came
            gateway.store.mark(f"01JD0000000000000000000{place}{junk:02}")
    for _ in range(60):
        gateway.look_and_run()
    assert {gateway.store.load(job).state for job in jobs} == {State.DONE}


@pytest.mark.parametrize("fault", ["before", "after"])
def test_a_client_whose_submission_broke_off_sends_it_again(lake: Lake, fault: str) -> None:
    faulty = FaultyBucket(lake.bucket)
    gateway = lake.gateway(1, bucket=faulty)

    def breaks(call: Call) -> None:
        if call.writes and call.key == job_open_key(FIRST):
            raise Unanswered("lost")

    (faulty.before if fault == "before" else faulty.after).append(breaks)
    with pytest.raises(Unavailable):
        gateway.upload(FIRST)
    faulty.before.clear()
    faulty.after.clear()
    assert gateway.upload(FIRST)
    passes(lake, gateway)
    assert gateway.store.load(FIRST).state is State.DONE
    assert len(lake.rows()) == 20
