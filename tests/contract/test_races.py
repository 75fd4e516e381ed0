"""Many clients at once: exactly one winner, nothing lost.

On every bucket but moto, which is not atomic.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from blockstore.bucket import Bucket
from blockstore.errors import AlreadyExists, PreconditionFailed, Unanswered
from blockstore.world import Threads

CLIENTS = 16


def race(client: Callable[[int], object]) -> list[object]:
    """What ``CLIENTS`` clients answer that start at the same moment."""
    start = threading.Barrier(CLIENTS)

    def run(number: int) -> object:
        start.wait()
        return client(number)

    return Threads(CLIENTS).map(run, range(CLIENTS))


def test_a_create_raced_by_16_clients_has_one_winner(exact_bucket: Bucket) -> None:
    # On SeaweedFS each step of a race makes its losers wait a second.
    for round_ in range(1 if exact_bucket.url.startswith("s3") else 20):
        key = f"race/{round_}"

        def create(number: int, key: str = key) -> bool:
            try:
                exact_bucket.put_if_absent(key, b"client %d" % number)
            except AlreadyExists:
                return False
            except Unanswered:
                # Ceph responds with 500 to some of the losers; the object shows who won.
                return exact_bucket.get(key).data == b"client %d" % number
            return True

        won = race(create)
        assert won.count(True) == 1
        assert exact_bucket.get(key).data == b"client %d" % won.index(True)


def test_a_compare_and_set_raced_by_16_clients_loses_no_update(exact_bucket: Bucket) -> None:
    exact_bucket.put_if_absent("gc/counter", b"0 by no client")

    def count_up(number: int) -> int:
        done = 0
        while done < 3:
            found = exact_bucket.get("gc/counter")
            mine = b"%d by %d" % (int(found.data.split()[0]) + 1, number)
            try:
                exact_bucket.put_if_match("gc/counter", mine, found.etag)
            except PreconditionFailed:
                continue
            except Unanswered:
                # Ceph responds with 500 to some of the losers: if one were applied, the count would
                # be too high.
                if exact_bucket.get("gc/counter").data != mine:
                    continue
            done += 1
        return done

    race(count_up)
    assert exact_bucket.get("gc/counter").data.split()[0] == b"%d" % (3 * CLIENTS)


def test_a_put_raced_by_reads_shows_the_old_or_the_new_whole(exact_bucket: Bucket) -> None:
    sizes = (10, 50_000)
    exact_bucket.put("a/b", b"0" * sizes[0])

    def client(number: int) -> set[tuple[int, int]]:
        seen = set()
        for turn in range(4):
            if number < 4:
                exact_bucket.put("a/b", b"%d" % (turn % 2) * sizes[turn % 2])
            data = exact_bucket.get("a/b").data
            seen.add((len(data), len(set(data))))
        return seen

    seen = set().union(*race(client))  # type: ignore[arg-type]
    assert seen <= {(size, 1) for size in sizes}


def test_folders_that_come_and_go_lose_no_object(exact_bucket: Bucket) -> None:
    """Each client's delete may remove the last object of a folder into which another is just
    writing."""

    def client(number: int) -> int:
        kept = 0
        for turn in range(8):
            key = f"shared/{turn % 2}/{number}-{turn}"
            exact_bucket.put(key, b"x")
            assert exact_bucket.get(key).data == b"x"
            exact_bucket.delete([key])
        exact_bucket.put(f"shared/0/kept-{number}", b"x")
        kept += 1
        return kept

    race(client)
    assert sorted(info.key for info in exact_bucket.list()) == sorted(
        f"shared/0/kept-{number}" for number in range(CLIENTS)
    )


def test_a_listing_raced_by_writes_shows_all_that_was_there_before(exact_bucket: Bucket) -> None:
    before = {f"a/{number}/b" for number in range(20)}
    for key in before:
        exact_bucket.put(key, b"x")

    def client(number: int) -> bool:
        if number % 2:
            for turn in range(5):
                exact_bucket.put(f"a/{turn}/new-{number}", b"x")
                exact_bucket.delete([f"a/{turn}/new-{number}"])
            return True
        return before <= {info.key for info in exact_bucket.list("a/")}

    assert all(race(client))
