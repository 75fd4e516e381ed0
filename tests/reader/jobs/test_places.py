"""Places that all gateways share: never more jobs than places, and none is lost with its holder."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from blockstore.bucket import Bucket
from blockstore.errors import Invalid
from blockstore.names import job_claim_key
from blockstore.reader.jobs.places import SharedPlaces
from blockstore.reader.jobs.record import Kind, Lease
from blockstore.reader.jobs.runner import Claimed
from blockstore.reader.settings.file import load_settings
from tests.reader.jobs.gateways import TERMS, Gateway, Lake
from tests.support.faulty import Call, FaultyBucket, Killed

ONE_UPLOAD = replace(TERMS, cluster_places={"uploads": 1})


@pytest.fixture
def lake() -> Lake:
    return Lake.make()


def job(number: int) -> str:
    return f"01JD000000000000000000000{number}"


def uploads(gateway: Gateway, count: int) -> None:
    for number in range(count):
        gateway.upload(job(number))


def names(claimed: list[Claimed]) -> list[str]:
    return [one.job for one in claimed]


def places(
    lake: Lake, seed: int, caps: Mapping[str, int], bucket: Bucket | None = None
) -> SharedPlaces:
    gateway = lake.gateway(seed, bucket=bucket)
    return SharedPlaces(gateway.store, gateway.world, gateway.runner.holder, TERMS.lease_s, caps)


def test_two_gateways_run_as_many_uploads_as_there_are_places(lake: Lake) -> None:
    first, second = (lake.gateway(seed, terms=ONE_UPLOAD) for seed in (1, 2))
    uploads(first, 3)
    [held] = first.runner.look()
    assert second.runner.look() == []
    assert second.runner.offer(job(1)) is None
    first.run(held)
    assert second.runner.offer(job(1)) is None, "a full group is looked at again by the next pass"
    assert names(second.runner.look()) == [job(1)]
    assert first.runner.look() == []


def test_each_group_has_its_own_places_and_one_without_a_number_needs_none(lake: Lake) -> None:
    first, second = (lake.gateway(seed, terms=ONE_UPLOAD) for seed in (1, 2))
    uploads(first, 2)
    for number in range(5, 9):
        first.ask(job(number))
    assert names(first.runner.look()) == [job(0), job(5), job(6)]
    assert names(second.runner.look()) == [job(7), job(8)]


def test_a_place_of_a_killed_gateway_is_free_after_its_lease(lake: Lake) -> None:
    first, second = (lake.gateway(seed, terms=ONE_UPLOAD) for seed in (1, 2))
    uploads(first, 2)
    assert names(first.runner.look()) == [job(0)]
    assert second.runner.look() == []
    lake.clock.advance(TERMS.lease_s - 1)
    assert second.runner.look() == []
    lake.clock.advance(1)
    assert names(second.runner.look()) == [job(0)]


def test_the_place_of_a_job_that_runs_is_not_free(lake: Lake) -> None:
    first, second = (lake.gateway(seed, terms=ONE_UPLOAD) for seed in (1, 2))
    uploads(first, 2)
    [held] = first.runner.look()
    meter = first.runner._meter(held)
    for beat in range(1, 7):
        assert second.runner.look() == []
        lake.clock.advance(TERMS.lease_s / 2)
        first.runner.beat(held, meter, beat)


def test_a_job_that_fails_or_cannot_be_claimed_gives_its_place_back(lake: Lake) -> None:
    first, second = (lake.gateway(seed, terms=ONE_UPLOAD) for seed in (1, 2))
    first.upload(job(0), "no,such,header\n")
    [failed] = first.look_and_run().values()
    assert failed is not None
    assert failed.failure is not None
    first.upload(job(1))
    request = first.store.request(job(1))
    taken = Lease(attempt=1, holder="another", beat=0)
    sketch = first.store.sketch(job(1))
    assert first.store.claim(job(1), taken)
    first.runner._requests[job(1)] = request
    assert first.runner._try(sketch) is None
    second.upload(job(2))
    assert names(second.runner.look()) == [job(2)]


def test_one_that_slept_while_the_place_went_round_does_not_take_it(lake: Lake) -> None:
    """Its claim is of an attempt whose record was removed meanwhile."""
    caps = {"uploads": 1}
    first, second = places(lake, 1, caps), places(lake, 2, caps)
    assert first.take("a", Kind.UPLOAD)
    first.give_back("a")

    def goes_round(call: Call) -> None:
        if call.method == "put_if_absent" and not seen:
            seen.append(call)
            for name in ("b", "c", "d"):
                second.look_again()
                assert second.take(name, Kind.UPLOAD)
                if name != "d":
                    second.give_back(name)

    seen: list[Call] = []
    faulty = FaultyBucket(lake.bucket)
    faulty.before.append(goes_round)
    assert not places(lake, 3, caps, faulty).take("e", Kind.UPLOAD)
    assert seen
    later = places(lake, 4, caps)
    assert not later.take("f", Kind.UPLOAD)
    second.give_back("d")
    later.look_again()
    assert later.take("f", Kind.UPLOAD)


@pytest.mark.parametrize("when", ["kill_before", "kill_after"])
def test_killed_at_any_call_a_gateway_leaves_the_place_to_others(lake: Lake, when: str) -> None:
    caps = {"uploads": 1}
    killed = 0
    for at in range(1, 30):
        faulty = FaultyBucket(lake.bucket, **{when: at})  # type: ignore[arg-type]
        dying = places(lake, 100 + at, caps, faulty)
        try:
            assert dying.take("a", Kind.UPLOAD)
            dying.give_back("a")
        except Killed:
            killed += 1
        other = places(lake, 200 + at, caps)
        if not other.take("b", Kind.UPLOAD):
            lake.clock.advance(TERMS.lease_s)
            other.look_again()
            assert other.take("b", Kind.UPLOAD)
        other.give_back("b")
        if faulty.killed_at is None:
            break
    assert killed >= 4
    assert len(list(lake.bucket.list("jobs/places-uploads-1/"))) <= 2


def test_a_place_has_more_holders_than_six_digits_count(lake: Lake) -> None:
    gateway = lake.gateway(1)
    lease = Lease(attempt=999_999, holder="another", beat=0, released=True)
    lake.bucket.put(job_claim_key("places-uploads-1", 999_999), lease.dump())
    shared = places(lake, 1, {"uploads": 1})
    for name in ("a", "b"):
        assert shared.take(name, Kind.UPLOAD)
        shared.give_back(name)
    assert gateway.store.claims("places-uploads-1") == {1_000_001}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ('["uploads=0"]', "1"),
        ('["uploads"]', "whole number"),
        ('["jobs=3"]', "expected one of uploads, changes, reads"),
        ('["uploads=3", "uploads=4"]', "twice"),
    ],
)
def test_a_number_that_makes_no_sense_is_refused(given: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "reader.toml"
    file.write_text(f"[jobs]\ncluster_places = {given}\n")
    with pytest.raises(Invalid, match=said):
        load_settings(file, {})


def test_the_numbers_are_those_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "reader.toml"
    file.write_text('[jobs]\ncluster_places = ["uploads=4", "reads=16"]\n')
    assert dict(load_settings(file, {}).jobs.cluster_places) == {"uploads": 4, "reads": 16}


def test_threads_of_one_gateway_share_no_place(lake: Lake) -> None:
    """Their claims are alike: each would take the other's for its own."""
    shared = places(lake, 1, {"uploads": 1})
    listed, looked = threading.Barrier(2), shared._store.claims

    def claims(place: str) -> set[int]:
        found = looked(place)
        with suppress(threading.BrokenBarrierError):
            listed.wait(0.5)
        return found

    shared._store.claims = claims  # type: ignore[method-assign]
    with ThreadPoolExecutor(2) as pool:
        took = list(pool.map(lambda number: shared.take(job(number), Kind.UPLOAD), range(2)))
    assert sorted(took) == [False, True]
    holder = job(took.index(True))
    assert not places(lake, 2, {"uploads": 1}).take(job(7), Kind.UPLOAD)
    shared.give_back(job(took.index(False)))
    assert not places(lake, 2, {"uploads": 1}).take(job(7), Kind.UPLOAD), "it is not the other's"
    shared.give_back(holder)
    shared.look_again()
    assert shared.take(job(8), Kind.UPLOAD), "a place that was given back is taken again"
