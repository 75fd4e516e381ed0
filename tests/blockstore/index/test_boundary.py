"""The boundary: strict, only rising, read at the store."""

from __future__ import annotations

import logging
import re
import threading

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.bucket.metered import Metered
from blockstore.bucket.wrapper import ReadOnly, Wrapper
from blockstore.clock import ManualClock
from blockstore.errors import (
    AccessDenied,
    BoundaryLost,
    Contended,
    Invalid,
    NoSpace,
    PreconditionFailed,
    Throttled,
    Unanswered,
    Unavailable,
)
from blockstore.index.boundary import Boundary, encode_boundary, parse_boundary
from blockstore.names import BOUNDARY
from blockstore.world import World
from tests.support.faulty import Call, FaultyBucket

REBUILD = "stop all processes that work on the table.*'blockstore index rebuild memory://'"
"""The advice wherever the boundary cannot be read: no value is written by hand."""


@pytest.fixture
def bucket() -> Metered:
    return Metered(MemoryBucket(ManualClock()))


@pytest.mark.parametrize(
    ("data", "value"), [(b"0", 0), (b"42", 42), (b"18446744073709551615", 2**64 - 1)]
)
def test_ascii_digits_are_its_value(bucket: Metered, data: bytes, value: int) -> None:
    bucket.put(BOUNDARY, data)
    assert Boundary(bucket, World.manual()).read() == value


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" 1",
        b"1\n",
        b"-1",
        b"+1",
        b"1.0",
        b"1_0",
        b"0x1",
        "\u0661".encode(),
        b"18446744073709551616",
        b"1" * 21,
    ],
)
def test_anything_else_is_lost(bucket: Metered, data: bytes) -> None:
    bucket.put(BOUNDARY, data)
    with pytest.raises(BoundaryLost, match=f"ASCII digits.*{REBUILD}"):
        Boundary(bucket, World.manual()).read()


def test_missing_is_lost_to_whoever_needs_it_and_none_to_whoever_looks(bucket: Metered) -> None:
    assert Boundary(bucket, World.manual()).look() is None
    with pytest.raises(BoundaryLost, match=f"missing.*{REBUILD}"):
        Boundary(bucket, World.manual()).read()


def test_a_boundary_that_vanished_or_fell_is_lost(bucket: Metered) -> None:
    bucket.put(BOUNDARY, b"7")
    boundary = Boundary(bucket, World.manual())
    assert boundary.read() == 7
    bucket.put(BOUNDARY, b"6")
    with pytest.raises(BoundaryLost, match=r"fell from 7 to 6.*'blockstore verify memory://'"):
        boundary.read()
    bucket.delete([BOUNDARY])
    with pytest.raises(BoundaryLost, match=f"vanished, it was 7.*{REBUILD}"):
        boundary.look()


def test_a_check_always_asks_the_store_and_unchanged_bytes_do_not_travel(bucket: Metered) -> None:
    bucket.put(BOUNDARY, b"7")
    boundary = Boundary(bucket, World.manual())
    assert boundary.check(8)
    bucket.reset()
    assert boundary.check(8)
    assert not boundary.check(7)
    assert (bucket.counts["get"], bucket.bytes["get"]) == (2, 0)
    bucket.inner.put(BOUNDARY, b"8")
    assert not boundary.check(8), "what is cached never accepts"
    assert boundary.seen == 8


@pytest.fixture
def seven(bucket: Metered) -> Metered:
    bucket.put(BOUNDARY, b"7")
    bucket.reset()
    return bucket


def test_an_advance_costs_a_read_and_a_compare_and_set(seven: Metered) -> None:
    boundary = Boundary(seven, World.manual())
    assert boundary.advance(12) == 12
    assert seven.counts == {"get": 1, "put_if_match": 1}
    assert int(seven.get(BOUNDARY).data) == 12
    assert boundary.seen == 12
    seven.reset()
    assert boundary.read() == 12
    assert seven.bytes["get"] == 0, "its own ETag is known"


@pytest.mark.parametrize("to", [0, 6, 7])
def test_it_never_moves_back(seven: Metered, to: int) -> None:
    assert Boundary(seven, World.manual()).advance(to) == 7
    assert int(seven.get(BOUNDARY).data) == 7
    assert "put_if_match" not in seven.counts


@pytest.mark.parametrize(("others", "ends"), [(9, 12), (12, 12), (40, 40)])
def test_a_lost_race_is_read_again_and_only_raised(seven: Metered, others: int, ends: int) -> None:
    faulty = FaultyBucket(seven)

    def overtake(call: Call) -> None:
        if call.method == "put_if_match":
            faulty.before.remove(overtake)
            seven.put(BOUNDARY, str(others).encode())

    faulty.before.append(overtake)
    assert Boundary(faulty, World.manual()).advance(12) == ends
    assert int(seven.get(BOUNDARY).data) == ends


@pytest.mark.parametrize(
    ("found", "message"), [(None, "vanished"), (b"", "ASCII digits"), (b"3", "fell from 7 to 3")]
)
def test_a_boundary_that_is_lost_under_an_advance_is_not_written(
    seven: Metered, found: bytes | None, message: str
) -> None:
    faulty = FaultyBucket(seven)

    def lose(call: Call) -> None:
        if call.method == "put_if_match":
            seven.delete([BOUNDARY])
            if found is not None:
                seven.put(BOUNDARY, found)

    faulty.before.append(lose)
    with pytest.raises(BoundaryLost, match=message):
        Boundary(faulty, World.manual()).advance(12)
    assert [info.key for info in seven.list()] == ([] if found is None else [BOUNDARY])


def test_a_missing_boundary_is_not_advanced(bucket: Metered) -> None:
    with pytest.raises(BoundaryLost, match=f"is missing.*{REBUILD}"):
        Boundary(bucket, World.manual()).advance(1)
    assert not list(bucket.list())


@pytest.mark.parametrize("applied", [True, False])
def test_an_advance_whose_answer_is_lost_is_read_and_decided_again(
    seven: Metered, applied: bool
) -> None:
    faulty = FaultyBucket(seven)

    def lose(call: Call) -> None:
        if call.method == "put_if_match":
            hooks.remove(lose)
            raise Unanswered("lost")

    hooks = faulty.after if applied else faulty.before
    hooks.append(lose)
    boundary = Boundary(faulty, World.manual())
    assert boundary.advance(12) == 12
    assert int(seven.get(BOUNDARY).data) == 12
    assert (boundary.counts.advances, boundary.counts.failed) == (1, 0)


@pytest.mark.parametrize("error", [Throttled("503"), Contended("409"), Unavailable("500")], ids=str)
def test_an_advance_that_nobody_answers_ends_and_says_so(
    seven: Metered, error: Unavailable, caplog: pytest.LogCaptureFixture
) -> None:
    faulty = FaultyBucket(seven)

    def refuse(call: Call) -> None:
        if call.method == "put_if_match":
            raise error

    faulty.before.append(refuse)
    boundary = Boundary(faulty, World.manual())
    with caplog.at_level(logging.WARNING), pytest.raises(type(error)):
        boundary.advance(12)
    assert f"{BOUNDARY} of memory:// was not advanced to 12" in caplog.text
    assert (boundary.counts.advances, boundary.counts.failed) == (0, 1)
    assert boundary.counts.seconds > 0, "the pauses"
    faulty.before.remove(refuse)
    assert boundary.advance(12) == 12


@pytest.mark.parametrize("error", [NoSpace("full"), AccessDenied("403")], ids=str)
def test_a_refusal_of_the_store_ends_an_advance_at_once(seven: Metered, error: Exception) -> None:
    faulty = FaultyBucket(seven)

    def refuse(call: Call) -> None:
        if call.method == "put_if_match":
            raise error

    faulty.before.append(refuse)
    with pytest.raises(type(error)):
        Boundary(faulty, World.manual()).advance(12)
    assert len(faulty.writes) == 1


def test_races_that_are_lost_without_a_winner_end(seven: Metered) -> None:
    class Never(Wrapper):
        def put_if_match(self, key: str, data: bytes, etag: str) -> str:
            raise PreconditionFailed("412")

    with pytest.raises(Unavailable, match="races in a row were lost"):
        Boundary(Never(seven), World.manual()).advance(12)


def test_a_boundary_beyond_a_u64_and_a_bucket_for_reading_are_invalid(seven: Metered) -> None:
    for to in (-1, 2**64):
        with pytest.raises(Invalid, match="u64"):
            Boundary(seven, World.manual()).advance(to)
    with pytest.raises(Invalid, match="reading only"):
        Boundary(ReadOnly(seven), World.manual()).advance(12)


class CannotSay(Wrapper):
    """A store of which only a measurement shows whether it refuses stale writes."""

    def refuses_stale_writes(self) -> bool | None:
        return None


class Overwrites(CannotSay):
    """A store that ignores If-Match."""

    def put_if_match(self, key: str, data: bytes, etag: str) -> str:
        return self.inner.put(key, data)


class Lacks(CannotSay):
    """A store that does not know If-Match."""

    def put_if_match(self, key: str, data: bytes, etag: str) -> str:
        raise Invalid("501 NotImplemented")


@pytest.mark.parametrize("store", [Overwrites, Lacks])
def test_where_stale_writes_are_not_refused_it_stays_and_says_why(
    seven: Metered, store: type[CannotSay]
) -> None:
    boundary = Boundary(store(seven), World.manual())
    for _ in range(2):
        with pytest.raises(Invalid, match="stays at 7: the store does not refuse stale writes"):
            boundary.advance(12)
    assert [info.key for info in seven.list()] == [BOUNDARY]
    assert int(seven.get(BOUNDARY).data) == 7
    assert boundary.check(8)


def test_what_the_store_refuses_is_measured_once_and_the_measurement_leaves_nothing(
    seven: Metered,
) -> None:
    boundary = Boundary(CannotSay(seven), World.manual())
    assert boundary.advance(12) == 12
    seven.reset()
    assert boundary.advance(13) == 13
    assert seven.counts == {"get": 1, "put_if_match": 1}
    assert [info.key for info in seven.list()] == [BOUNDARY]


def test_a_measurement_without_an_answer_decides_nothing(seven: Metered) -> None:
    faulty = FaultyBucket(CannotSay(seven))

    def refuse(call: Call) -> None:
        if call.key.startswith("_probe-") and call.method == "put_if_match":
            raise Unavailable("no answer")

    faulty.before.append(refuse)
    boundary = Boundary(faulty, World.manual())
    with pytest.raises(Unavailable, match="could not be measured"):
        boundary.advance(12)
    faulty.before.remove(refuse)
    assert boundary.advance(12) == 12


def test_its_counts_say_what_was_asked_of_it(seven: Metered) -> None:
    world = World.manual()
    faulty = FaultyBucket(seven)
    faulty.before.append(lambda call: world.clock.sleep(0.5))
    boundary = Boundary(faulty, world)
    assert boundary.check(8)
    assert not boundary.check(7)
    boundary.advance(9)
    counts = boundary.counts
    assert (counts.checks, counts.refusals, counts.advances, counts.failed) == (2, 1, 1, 0)
    assert counts.seconds == pytest.approx(2.0), (
        "a read a check, a read and a write for the advance"
    )


def test_checks_and_advances_of_many_threads_never_see_it_fall(bucket: Metered) -> None:
    bucket.put(BOUNDARY, b"0")
    boundary = Boundary(bucket, World.real())
    others = [Boundary(bucket, World.real()) for _ in range(3)]
    errors: list[BaseException] = []

    def run(mine: Boundary, start: int) -> None:
        try:
            for to in range(start, 400, 4):
                value = mine.advance(to)
                assert value >= to
                assert not mine.check(to)
        except BaseException as error:
            errors.append(error)

    threads = [
        threading.Thread(target=run, args=(one, start))
        for start, one in enumerate([boundary, boundary, *others])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert boundary.read() == 399


def test_a_boundary_as_it_is_written_today_is_read_by_earlier_releases() -> None:
    """1 to 20 digits of a u64: what they requested."""
    for value in (0, 1, 64, 2**32 - 1, 10**17 - 1):
        data = encode_boundary(value)
        assert re.fullmatch(rb"[0-9]{18,20}", data)
        assert int(data) == value
        assert parse_boundary(data, "") == value
