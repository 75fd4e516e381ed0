"""Forgetting a job leaves alone what somebody submits again under its id meanwhile."""

from __future__ import annotations

from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.retrying import Retrying
from blockstore.errors import Unanswered
from blockstore.names import job_outcome_key, job_request_key
from blockstore.reader.jobs.store import JobStore
from blockstore.world import World
from tests.support.faulty import Call, FaultyBucket

JOB = "01JD0000000000000000000000"


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
