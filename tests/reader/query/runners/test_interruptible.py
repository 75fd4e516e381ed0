"""A query that is asked to stop stops, at whatever moment that comes; closing ends what runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import duckdb
import pytest

from blockstore.bucket.local import LocalBucket
from blockstore.errors import BlockstoreError
from blockstore.reader.errors import Canceled, TimedOut
from blockstore.reader.query import Budget, Engine
from blockstore.reader.query.runners.instance import Instance, Limits
from blockstore.reader.query.runners.interruptible import Interruptible
from blockstore.scan.view import TableSnapshot
from blockstore.world import World
from tests.reader.query.lakes import lake, snapshot_of

ENDLESS = (
    "SELECT count(*) FROM range(1000000000) a, range(1000000000) b WHERE a.range + b.range < 0"
)


@pytest.fixture
def snapshot(tmp_path: Path) -> TableSnapshot:
    return snapshot_of(lake(LocalBucket(str(tmp_path / "t"), World.manual().clock, durable=False)))


@pytest.fixture
def engine(snapshot: TableSnapshot) -> Iterator[Engine]:
    """One whose queries run in this process."""
    with Engine({"t": snapshot}, world=World.real()) as opened:
        yield opened


def later(seconds: float, call: Callable[[], None]) -> None:
    """After none at all, now and in this thread."""
    if seconds:
        threading.Timer(seconds, call).start()
    else:
        call()


@pytest.mark.parametrize("delay_s", [0.0, 0.001, 0.002, 0.004, 0.008, 0.016, 0.2])
def test_a_query_is_canceled_before_its_first_row(engine: Engine, delay_s: float) -> None:
    with pytest.raises(Canceled):
        engine.run(ENDLESS, began=lambda stop: later(delay_s, stop))
    assert engine.running() == 0


@pytest.mark.parametrize("seconds", [0.000_001, 0.005, 0.1])
def test_a_time_limit_ends_a_query_however_short_it_is(engine: Engine, seconds: float) -> None:
    with pytest.raises(TimedOut):
        engine.run(ENDLESS, budget=Budget(seconds=seconds))
    assert engine.running() == 0


def test_closing_ends_what_runs(snapshot: TableSnapshot) -> None:
    ended: list[BaseException] = []
    running = threading.Event()

    def ask() -> None:
        try:
            engine.run(ENDLESS, began=lambda _: running.set())
        except BaseException as error:
            ended.append(error)

    engine = Engine({"t": snapshot}, world=World.real())
    idle = engine.run("SELECT x.range FROM range(100000000000) x")
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    assert running.wait(10)
    time.sleep(0.1)
    engine.close()
    asking.join(10)
    assert len(ended) == 1, "the query goes on after the engine was closed"
    assert isinstance(ended[0], BlockstoreError)
    with pytest.raises(BlockstoreError):
        idle.reader.read_all()


def test_an_instance_whose_query_does_not_stop_is_left_and_not_waited_for() -> None:
    instance = Instance([], Limits(threads=1))
    cursor = instance.cursor()

    def ask() -> None:
        with suppress(duckdb.InterruptException):
            cursor.execute(ENDLESS)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    time.sleep(0.1)
    instance.close()
    assert asking.is_alive()
    cursor.interrupt()
    asking.join(10)
    assert not asking.is_alive()


class TestCalls:
    def test_what_is_asked_for_before_a_call_refuses_it(self) -> None:
        stopping = Interruptible(lambda: None)
        stopping.stop()
        with pytest.raises(duckdb.InterruptException), stopping.calling():
            raise AssertionError("the call was begun")
        with pytest.raises(duckdb.InterruptException):
            stopping.check()

    def test_a_call_is_interrupted_again_until_it_has_ended_and_never_after(self) -> None:
        heard = threading.Semaphore(0)
        stopping = Interruptible(heard.release)
        with stopping.calling():
            stopping.stop()
            stopping.stop()
            for _ in range(3):
                assert heard.acquire(timeout=10), (
                    "asked for once only, where the first may be forgotten"
                )
        while heard.acquire(blocking=False):
            pass
        time.sleep(0.1)
        assert not heard.acquire(blocking=False), "interrupted although nothing runs"

    def test_it_tells_whether_a_call_runs(self) -> None:
        stopping = Interruptible(lambda: None)
        assert stopping.idle(within_s=0)
        with stopping.calling():
            assert not stopping.idle(within_s=0.01)
        assert stopping.idle(within_s=0)
