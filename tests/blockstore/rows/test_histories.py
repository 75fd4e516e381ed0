"""What concurrent clients read and write is what snapshot isolation allows."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.format.properties import Isolation
from blockstore.index import log as index_log
from blockstore.rows.change import ChangeRows
from blockstore.rows.seen import Seen
from blockstore.table import Table
from blockstore.world import World
from tests.blockstore.rows.lake import at_commit
from tests.support.elle import FAILED, OK, Lists, Transaction, problems
from tests.support.lists import Client, definition, fill, lists_of, transactions
from tests.support.tally import tally

CLIENTS = 4
ROWS = 3
SECONDS = 2.0


def run(
    *, row_ids: bool, careless: bool = False, isolation: Isolation = Isolation.WRITE_SERIALIZABLE
) -> tuple[list[Transaction], Lists]:
    """Let clients work for some seconds; what they did, and the lists at the end."""
    world = World.real()
    bucket = MemoryBucket(world.clock)
    made = definition(row_ids=row_ids, isolation=isolation)
    table = Table(bucket, world, index_log.create(bucket, world, made))
    fill(table, ROWS)
    logs: list[list[dict[str, Any]]] = [[] for _ in range(CLIENTS)]
    errors: list[BaseException] = []
    until = time.monotonic() + SECONDS

    def work(number: int) -> None:
        own = Table.open_bucket(bucket, World.real())
        rng = random.Random(number)
        client = Client(own, number, rng, logs[number].append, careless=careless)
        try:
            while time.monotonic() < until:
                client.step()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    history = [one for log in logs for one in transactions(log)]
    return history, lists_of(table)


@pytest.mark.parametrize("row_ids", [False, True], ids=["key", "row ids"])
def test_clients_at_once_are_isolated_by_snapshots(row_ids: bool) -> None:
    history, end = run(row_ids=row_ids)
    assert problems(history, end) == []
    outcomes = [one.outcome for one in history if one.appends]
    tally("transactions on lists", len(history))
    assert outcomes.count(OK) > 5
    assert FAILED in outcomes, "no two clients ever met: this run proves nothing"


def test_a_lost_update_is_found() -> None:
    found = problems(*run(row_ids=False, careless=True))
    assert any("lost update" in one or "read" in one for one in found)


def test_a_commit_that_does_not_look_at_what_others_touched_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ChangeRows, "_check_untouched", lambda *_: None)
    assert problems(*run(row_ids=False))


@pytest.mark.parametrize("row_ids", [False, True], ids=["key", "row ids"])
def test_serializable_clients_make_no_cycle_at_all(row_ids: bool) -> None:
    history, end = run(row_ids=row_ids, isolation=Isolation.SERIALIZABLE)
    assert problems(history, end, serializable=True) == []
    tally("serializable transactions on lists", len(history))
    assert [one.outcome for one in history if one.appends].count(OK) > 5


def crossed() -> list[str]:
    """Two clients read both of two lists at one version, and each appends to another one; what is
    wrong with that."""
    world = World.real()
    bucket = MemoryBucket(world.clock)
    made = definition(row_ids=False, isolation=Isolation.SERIALIZABLE)
    table = Table(bucket, world, index_log.create(bucket, world, made))
    fill(table, 2)
    logs: list[list[dict[str, Any]]] = [[], []]
    one, other = (
        Client(Table.open_bucket(bucket, world), number, random.Random(0), log.append)
        for number, log in enumerate(logs)
    )
    at_commit(one.table, lambda: other.cross(1))
    one.cross(0)
    history = [made for log in logs for made in transactions(log)]
    assert problems(history, lists_of(table)) == []
    return problems(history, lists_of(table), serializable=True)


def test_write_skew_is_refused_and_found_where_a_commit_looks_at_written_rows_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert crossed() == []
    monkeypatch.setattr(Seen, "check", lambda *_: None)
    assert crossed() == ["a forbidden cycle: 0.1 -> 1.1 -> 0.1"]
