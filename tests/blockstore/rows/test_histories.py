"""What concurrent clients read and write is what snapshot isolation allows."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import pytest

from blockstore.bucket.memory import MemoryBucket
from blockstore.index import log as index_log
from blockstore.rows.change import ChangeRows
from blockstore.table import Table
from blockstore.world import World
from tests.support.elle import FAILED, OK, Transaction, problems
from tests.support.lists import Client, definition, fill, lists_of, transactions
from tests.support.tally import tally

CLIENTS = 4
ROWS = 3
SECONDS = 2.0


def run(*, row_ids: bool, careless: bool = False) -> tuple[list[Transaction], list[str]]:
    """Let clients work for some seconds; what they did, and what is wrong with it."""
    world = World.real()
    bucket = MemoryBucket(world.clock)
    table = Table(bucket, world, index_log.create(bucket, world, definition(row_ids=row_ids)))
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
    return history, problems(history, lists_of(table))


@pytest.mark.parametrize("row_ids", [False, True], ids=["key", "row ids"])
def test_clients_at_once_are_isolated_by_snapshots(row_ids: bool) -> None:
    history, found = run(row_ids=row_ids)
    assert found == []
    outcomes = [one.outcome for one in history if one.appends]
    tally("transactions on lists", len(history))
    assert outcomes.count(OK) > 5
    assert FAILED in outcomes, "no two clients ever met: this run proves nothing"


def test_a_lost_update_is_found() -> None:
    _, found = run(row_ids=False, careless=True)
    assert any("lost update" in one or "read" in one for one in found)


def test_a_commit_that_does_not_look_at_what_others_touched_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ChangeRows, "_check_untouched", lambda *_: None)
    _, found = run(row_ids=False)
    assert found
