"""Shares of owners: a job waits for one, and gives it back when it does not run any more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from blockstore.clock import ManualClock
from blockstore.errors import Unavailable
from blockstore.reader.http.quotas import Quotas
from blockstore.reader.jobs.record import Request, State
from blockstore.reader.jobs.shares import Shares
from tests.reader.jobs.gateways import Gateway, Lake
from tests.support.faulty import Call, FaultyBucket

FIRST, SECOND, OTHER = (f"01JD000000000000000000000{n}" for n in range(3))


def limited(gateway: Gateway, most: int) -> Quotas:
    """Owners have so many shares each, of these quotas."""
    quotas = Quotas(ManualClock())

    def share(request: Request) -> Callable[[], None] | None:
        return quotas.take_of(request.owner, most)

    gateway.runner._shares = Shares(share)
    return quotas


def test_a_job_waits_for_a_share_of_its_owner_and_lets_others_go_before(tmp_path: Path) -> None:
    gateway = Lake.make().gateway(1, folder=tmp_path)
    limited(gateway, 1)
    gateway.ask(FIRST)
    gateway.ask(SECOND)
    gateway.ask(OTHER, owner="you")
    claimed = gateway.runner.look()
    assert [one.job for one in claimed] == [FIRST, OTHER]
    assert gateway.runner.offer(SECOND) is None
    assert not gateway.store.sketch(SECOND).attempt, "it waits, and no attempt is spent"
    for one in claimed:
        gateway.run(one)
    [last] = gateway.runner.look()
    assert last.job == SECOND
    assert gateway.run(last) is not None


def test_a_query_of_the_owner_holds_its_share(tmp_path: Path) -> None:
    gateway = Lake.make().gateway(1, folder=tmp_path)
    quotas = limited(gateway, 1)
    end = quotas.take_of("me", 1)
    assert end is not None
    gateway.ask(FIRST)
    assert gateway.runner.look() == []
    end()
    assert [one.job for one in gateway.runner.look()] == [FIRST]
    assert quotas.take_of("me", 1) is None


def test_a_job_that_cannot_be_claimed_holds_no_share(tmp_path: Path) -> None:
    lake = Lake.make()

    def fails(call: Call) -> None:
        if call.method == "put_if_absent" and "/claims/" in call.key:
            raise Unavailable("the store is away")

    faulty = FaultyBucket(lake.bucket)
    faulty.before.append(fails)
    gateway = lake.gateway(1, bucket=faulty, folder=tmp_path)
    quotas = limited(gateway, 1)
    gateway.ask(FIRST)
    with pytest.raises(Unavailable):
        gateway.runner.offer(FIRST)
    assert quotas.take_of("me", 1) is not None, "the share was given back"


def test_a_job_that_was_cancelled_while_it_waited_ends_without_a_place(tmp_path: Path) -> None:
    gateway = Lake.make().gateway(1, folder=tmp_path)
    limited(gateway, 1)
    gateway.ask(FIRST)
    gateway.ask(SECOND)
    [held] = gateway.runner.look()
    gateway.store.cancel(SECOND)
    [ends] = gateway.runner.look()
    assert ends.job == SECOND
    outcome = gateway.run(ends)
    assert outcome is not None
    assert outcome.state is State.CANCELLED
    assert gateway.run(held) is not None
