"""Whether an object is there: one HEAD, and only the answer that there is none means no."""

from __future__ import annotations

import pytest

from blockstore.bucket.api import is_there
from blockstore.bucket.memory import MemoryBucket
from blockstore.clock import ManualClock
from blockstore.errors import AccessDenied, BlockstoreError, NotFound, Unavailable
from tests.support.faulty import Call, FaultyBucket


def test_one_head_tells() -> None:
    memory = MemoryBucket(ManualClock())
    memory.put("a/b", b"")
    bucket = FaultyBucket(memory)
    asked: list[Call] = []
    bucket.before.append(asked.append)
    assert is_there(bucket, "a/b")
    assert not is_there(bucket, "a")
    assert [(call.method, call.key) for call in asked] == [("head", "a/b"), ("head", "a")]


@pytest.mark.parametrize(
    "error", [AccessDenied("no"), Unavailable("no answer"), NotFound("no such bucket")]
)
def test_a_store_that_does_not_say_so_is_no_proof_that_nothing_is_there(
    error: BlockstoreError,
) -> None:
    def refuse(call: Call) -> None:
        raise error

    bucket = FaultyBucket(MemoryBucket(ManualClock()))
    bucket.before.append(refuse)
    with pytest.raises(type(error)) as raised:
        is_there(bucket, "a")
    assert raised.value is error
