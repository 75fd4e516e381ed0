"""Forgetting a job leaves alone what somebody submits again under its id meanwhile."""

from __future__ import annotations

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.retrying import Retrying
from blockstore.errors import Unanswered
from blockstore.names import job_outcome_key, job_request_key
from blockstore.reader.jobs.record import Kind, Outcome, Request, State
from blockstore.reader.jobs.store import JobStore
from blockstore.world import World
from tests.support.faulty import Call, FaultyBucket, Killed

JOB = "01JD0000000000000000000000"
DONE = Outcome(state=State.DONE, attempt=1, ended_ms=9)


def request(created_ms: int) -> Request:
    return Request(kind=Kind.QUERY, owner="me", created_ms=created_ms, form="csv", sql="select 1")


def test_a_request_that_is_made_while_the_answer_to_its_removal_is_lost_stays() -> None:
    world = World.manual()
    memory = MemoryBucket(world.clock)
    for key in (job_request_key(JOB), job_outcome_key(JOB)):
        memory.put(key, b"{}")
    faulty = FaultyBucket(memory)

    def ask_anew(call: Call) -> None:
        if call.method == "delete" and call.key == job_request_key(JOB):
            faulty.after.clear()
            memory.put(call.key, b"asked again")
            raise Unanswered("x")

    faulty.after.append(ask_anew)
    store = JobStore(Retrying(faulty, world))
    try:
        store.forget(store.sketch(JOB))
    except Unanswered:
        pass  # the next sweep looks again
    assert memory.get(job_request_key(JOB)).data == b"asked again"


def test_a_job_that_is_submitted_under_the_id_of_one_forgotten_in_part_has_not_ended() -> None:
    """The gateway died before it removed the outcome."""
    world = World.manual()
    memory = MemoryBucket(world.clock)
    store = JobStore(Retrying(memory, world))
    assert store.submit(JOB, request(1))
    store.finish(JOB, DONE)
    faulty = FaultyBucket(memory)

    def die(call: Call) -> None:
        if call.method == "delete" and call.key == job_outcome_key(JOB):
            raise Killed(call)

    faulty.before.append(die)
    dying = JobStore(Retrying(faulty, world))
    with pytest.raises(Killed):
        dying.forget(dying.sketch(JOB))
    assert (store.sketch(JOB).submitted, store.sketch(JOB).ended) == (False, True)
    assert store.submit(JOB, request(2))
    again = store.load(JOB)
    assert (again.state, again.request.created_ms) == (State.QUEUED, 2)
    assert store.sketch(JOB).open
    store.finish(JOB, DONE)
    assert not store.submit(JOB, request(3))
    assert store.load(JOB).state == State.DONE, "and what it ended with stays"
