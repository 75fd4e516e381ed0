"""What is sent again, and what never."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest

from blockstore.bucket import Bucket
from blockstore.bucket.api import Object
from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.retrying import Retrying
from blockstore.bucket.traffic.traffic import Traffic
from blockstore.clock import ManualClock
from blockstore.errors import (
    BlockstoreError,
    Contended,
    NoSpace,
    ObjectMissing,
    Throttled,
    Unanswered,
    Unavailable,
)
from blockstore.ids import Ids
from blockstore.world import Serial, World
from tests.support.faulty import FaultyBucket

REPEATABLE: dict[str, Callable[[Bucket], object]] = {
    "get": lambda bucket: bucket.get("a"),
    "get_range": lambda bucket: bucket.get_range("a", 0, 1),
    "head": lambda bucket: bucket.head("a"),
    "list": lambda bucket: list(bucket.list()),
    "prefixes": lambda bucket: list(bucket.prefixes()),
    "now_ms": lambda bucket: bucket.now_ms(),
    "put": lambda bucket: bucket.put("b", b"x"),
    "delete": lambda bucket: bucket.delete(["a"]),
    "writer": lambda bucket: bucket.writer("c").close(),
}
CONDITIONAL: dict[str, Callable[[Bucket], object]] = {
    "put_if_absent": lambda bucket: bucket.put_if_absent("new", b"x"),
    "put_if_match": lambda bucket: bucket.put_if_match("a", b"y", bucket.inner.inner.get("a").etag),  # type: ignore[attr-defined]
    "delete": lambda bucket: bucket.delete_once("a"),
}


def unreliable(
    errors: list[BlockstoreError], **options: float
) -> tuple[Retrying, FaultyBucket, World]:
    """A bucket whose first calls are refused with ``errors``."""
    world = World.manual()
    memory = MemoryBucket(world.clock)
    memory.put("a", b"x")
    faulty = FaultyBucket(memory, refuse=dict(enumerate(errors, start=1)))
    return Retrying(faulty, world, **options), faulty, world  # type: ignore[arg-type]


@pytest.mark.parametrize("method", REPEATABLE)
def test_what_is_the_same_done_twice_is_sent_again(method: str) -> None:
    errors = [Unavailable("x"), Throttled("x"), Unanswered("x"), Contended("x")]
    bucket, faulty, _ = unreliable(list(errors))
    REPEATABLE[method](bucket)
    assert [call.method for call in faulty.calls] == [method] * 5


@pytest.mark.parametrize(
    "error", [Unavailable("x"), Throttled("x"), Unanswered("x"), Contended("x")]
)
@pytest.mark.parametrize("method", CONDITIONAL)
def test_what_may_meet_anothers_object_is_sent_once(method: str, error: BlockstoreError) -> None:
    bucket, faulty, world = unreliable([error])
    before = world.clock.monotonic_s()
    with pytest.raises(type(error)):
        CONDITIONAL[method](bucket)
    assert [call.method for call in faulty.calls] == [method]
    assert world.clock.monotonic_s() == before


@pytest.mark.parametrize("error", [NoSpace("x"), ObjectMissing("x")])
@pytest.mark.parametrize("method", ["put", "get"])
def test_what_another_attempt_cannot_mend_is_raised_at_once(
    method: str, error: BlockstoreError
) -> None:
    bucket, faulty, _ = unreliable([error])
    with pytest.raises(type(error)):
        REPEATABLE[method](bucket)
    assert len(faulty.calls) == 1


def test_the_last_attempts_error_is_raised() -> None:
    bucket, faulty, _ = unreliable([Unavailable(str(number)) for number in range(10)], attempts=4)
    with pytest.raises(Unavailable, match="3"):
        bucket.get("a")
    assert len(faulty.calls) == 4


class Noting(ManualClock):
    """A clock that remembers its pauses."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        super().sleep(seconds)


@pytest.mark.parametrize("seed", range(20))
def test_pauses_end_before_the_deadline_and_are_drawn_below_a_doubling_bound(seed: int) -> None:
    clock = Noting()
    world = World(clock=clock, ids=Ids.seeded(clock, seed), pool=Serial())
    faulty = FaultyBucket(MemoryBucket(clock), refuse=dict.fromkeys(range(1, 60), Unavailable("x")))
    bucket = Retrying(faulty, world, attempts=50, deadline_s=30, first_pause_s=1, longest_pause_s=8)
    with pytest.raises(Unavailable):
        bucket.get("a")
    assert sum(clock.pauses) < 30
    assert all(pause <= min(8, 2**at) for at, pause in enumerate(clock.pauses))
    assert len(clock.pauses) > 4


def test_a_listing_that_fails_midway_starts_again_and_shows_each_object_once() -> None:
    world = World.manual()
    memory = MemoryBucket(world.clock)
    for number in range(5):
        memory.put(f"a/{number}", b"")

    class BreaksOff(FaultyBucket):
        def list(self, prefix="", *, start_after="", recursive=True, at_most=None):  # type: ignore[no-untyped-def]
            self.calls.append(prefix)
            for number, info in enumerate(self.inner.list(prefix)):
                if len(self.calls) < 3 and number == len(self.calls):
                    raise Unavailable("broke off")
                yield info

    breaking = BreaksOff(memory)
    found = [info.key for info in Retrying(breaking, world).list("a/")]
    assert found == [f"a/{number}" for number in range(5)]
    assert len(breaking.calls) == 3


def test_many_deletes_are_sent_in_batches_each_again_if_it_failed() -> None:
    world = World.manual()
    memory = MemoryBucket(world.clock)
    keys = [f"{number:04d}" for number in range(2_500)]
    for key in keys:
        memory.put(key, b"")
    faulty = FaultyBucket(memory, refuse={1_500: Unanswered("x")})
    Retrying(faulty, world).delete(iter(keys))
    assert list(memory.list()) == []
    assert [call.key for call in faulty.calls] == [*keys[:1_500], *keys[1_000:]]


def test_a_writer_gives_its_bytes_once_however_often_it_asks() -> None:
    class Stubborn:
        """Keeps what it was given and fails twice a call, as the interface promises."""

        def __init__(self) -> None:
            self.taken: list[bytes] = []
            self.failures = 2

        def write(self, data: bytes | memoryview) -> int:
            self.taken.append(bytes(data))
            if self.failures:
                self.failures -= 1
                raise Unavailable("not yet")
            return len(data)

        def close(self) -> None:
            self.write(b"")

        def abort(self) -> None:
            self.taken.clear()

    stubborn = Stubborn()
    world = World.manual()
    memory = MemoryBucket(world.clock)
    memory.writer = lambda key: stubborn  # type: ignore[method-assign, assignment, return-value]
    writer = Retrying(memory, world).writer("a")
    assert writer.write(b"data") == 4
    stubborn.failures = 2
    writer.close()
    assert b"".join(stubborn.taken) == b"data"
    writer.abort()
    assert stubborn.taken == []


@pytest.mark.parametrize("last", [NoSpace("x"), Throttled("x"), Contended("x")])
def test_a_write_of_which_one_attempt_was_not_answered_may_be_there(last: BlockstoreError) -> None:
    bucket, _, _ = unreliable([Unanswered("x"), *[last] * 5])
    with pytest.raises(Unanswered, match="earlier attempt"):
        bucket.put("b", b"x")


def test_a_store_that_is_down_is_not_sent_all_the_retries() -> None:
    """Each request alone would be sent six times."""
    world, traffic = World.manual(), Traffic()
    faulty = FaultyBucket(
        MemoryBucket(world.clock), refuse=dict.fromkeys(range(1, 10_000), Unavailable("down"))
    )
    buckets = [Retrying(faulty, world, traffic=traffic, first_pause_s=0.001) for _ in range(10)]
    for number in range(200):
        with pytest.raises(Unavailable, match="down"):
            buckets[number % 10].get("a")
    counts = traffic.counts(world.clock.monotonic_s())
    assert len(faulty.calls) == 200 + counts.retries
    assert counts.retries < 130
    assert counts.retries_refused > 100


def test_a_write_without_a_retry_left_may_be_there() -> None:
    world, traffic = World.manual(), Traffic()
    while traffic.may_retry(world.clock.monotonic_s()):
        pass
    memory = MemoryBucket(world.clock)
    faulty = FaultyBucket(memory, refuse={1: Unanswered("lost")})
    with pytest.raises(Unanswered):
        Retrying(faulty, world, traffic=traffic).put("a", b"x")
    assert len(faulty.calls) == 1


class Answering(MemoryBucket):
    """A store whose GETs of any object return these bodies in turn, under one ETag."""

    def __init__(self, etag: str, *bodies: bytes) -> None:
        super().__init__(ManualClock())
        self.etag = etag
        self.bodies = list(bodies)
        self.requests = 0

    def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        self.requests += 1
        return Object(data=self.bodies.pop(0), etag=self.etag)


def comparing(store: Bucket) -> Retrying:
    return Retrying(store, World.manual(), traffic=Traffic(etags_are_md5s=True))


WHOLE = b'{"whole": true}'
MD5 = hashlib.md5(WHOLE, usedforsecurity=False).hexdigest()


@pytest.mark.parametrize("cut", [b"", WHOLE[:5], WHOLE + b" "])
def test_a_body_that_does_not_fit_its_etag_is_requested_again(cut: bytes) -> None:
    """A proxy that says too small a length cuts a response, and no client can see it."""
    store = Answering(MD5, cut, WHOLE)
    assert comparing(store).get("a") == Object(data=WHOLE, etag=MD5)
    assert store.requests == 2


def test_a_body_that_comes_twice_is_what_the_store_holds() -> None:
    """Where a store encrypts, an ETag that looks like an MD5 is none: that costs one request, once,
    and an object that is damaged at rest is for its own hashes to find."""
    store = Answering("0" * 32, b"one", b"one", b"two", b"three")
    bucket = comparing(store)
    assert [bucket.get("a").data for _ in range(3)] == [b"one", b"two", b"three"]
    assert store.requests == 4


def test_bodies_that_never_fit_and_always_differ_are_unavailable() -> None:
    store = Answering(MD5, *(bytes([number]) for number in range(12)))
    with pytest.raises(Unavailable, match=r"'a'.*ETag.*try again"):
        comparing(store).get("a")
    assert store.requests == 12


@pytest.mark.parametrize("etag", ["", "e", MD5[:-1] + "-2", "W/" + MD5])
def test_an_etag_that_is_no_md5_shows_nothing(etag: str) -> None:
    store = Answering(etag, b"any", WHOLE)
    assert comparing(store).get("a").data == b"any"
    assert store.requests == 1
