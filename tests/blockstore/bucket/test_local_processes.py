"""Eight processes on one folder: exactly one winner, no lost update, no object lost to a folder
that goes."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from pathlib import Path

import pytest

from blockstore.bucket import open_bucket
from blockstore.errors import AlreadyExists, PreconditionFailed
from blockstore.world import World
from tests.support.tally import tally

PROCESSES = 8
CREATES = 150
UPDATES = 20
TURNS = 60


def contend(arguments: tuple[str, int]) -> dict[str, int]:
    """One process: creates what all create, counts up what all count up, writes where all
    delete."""
    url, number = arguments
    bucket = open_bucket(url, World.real())
    mine: Counter[str] = Counter()
    for turn in range(CREATES):
        try:
            bucket.put_if_absent(f"created/{turn:04d}", b"%d" % number)
        except AlreadyExists:
            mine["lost creates"] += 1
        else:
            mine["won creates"] += 1
    while mine["updates"] < UPDATES:
        found = bucket.get("gc/counter")
        try:
            bucket.put_if_match("gc/counter", b"%d" % (int(found.data) + 1), found.etag)
        except PreconditionFailed:
            mine["lost updates"] += 1
        else:
            mine["updates"] += 1
    for turn in range(TURNS):
        key = f"shared/{turn % 3}/deep/{number}-{turn}"
        bucket.put(key, b"x")
        assert bucket.get(key).data == b"x"
        bucket.put(key, b"y")
        bucket.delete([key])
    bucket.put(f"shared/0/deep/kept-{number}", b"x")
    return dict(mine)


@pytest.mark.parametrize("durable", ["true", "false"])
def test_eight_processes_race(tmp_path: Path, durable: str) -> None:
    url = f"{tmp_path / 'table'}?durable={durable}"
    bucket = open_bucket(url, World.real())
    bucket.put("gc/counter", b"0")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with context.Pool(PROCESSES) as pool:
        results = pool.map(contend, [(url, number) for number in range(PROCESSES)], chunksize=1)
    total = sum((Counter(result) for result in results), Counter[str]())
    assert total["won creates"] == CREATES
    assert bucket.get("gc/counter").data == b"%d" % (PROCESSES * UPDATES)
    created = Counter(int(bucket.get(info.key).data) for info in bucket.list("created/"))
    assert created == {
        number: won
        for number, result in enumerate(results)
        if (won := result.get("won creates", 0))
    }
    assert [info.key for info in bucket.list("shared/")] == [
        f"shared/0/deep/kept-{number}" for number in range(PROCESSES)
    ]
    assert total["lost creates"] > 0
    tally("local creates lost by 8 processes", total["lost creates"])
    tally("local updates lost by 8 processes", total["lost updates"])
