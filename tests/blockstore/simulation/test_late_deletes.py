"""A DELETE that its sender has decided to send, and did not send for long: the oracle allows what
no process can avoid, and nothing more."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from blockstore.format.properties import Properties
from blockstore.names import meta_key
from blockstore.simulation.bucket import UNDONE, SimulatedBucket
from blockstore.simulation.ground import Kind
from blockstore.simulation.process import Process, Role
from blockstore.simulation.report import Section
from blockstore.simulation.stage import Stage
from blockstore.simulation.violation import Violation

ULID = "01HF7YAT00APM0EB7W0V22Q7NB"
KEY = f"{ULID}/chunks/000001.parquet"
HALF_MS = 3_600_000
"""Half of ``delete_delay``."""


@pytest.fixture(params=[Kind.INDEXED, Kind.LISTED])
def stage(request: pytest.FixtureRequest) -> Stage:
    properties = Properties.parse({"delete_delay": "2h", "sync_delay": "6m"})
    stage = Stage.of(7, request.param, properties)
    stage.faults.on = False
    return stage


@pytest.fixture
def bucket(stage: Stage) -> SimulatedBucket:
    role = Role(name="remover", act=lambda process, thread: None)
    return SimulatedBucket(Process(stage, role, 1, SimulatedBucket))


def sent_after(stage: Stage, milliseconds: int, patch: pytest.MonkeyPatch) -> None:
    """Let the next requests come so long after it was decided to send them."""

    def stall() -> None:
        stage.scheduler.now_ms += milliseconds

    patch.setattr(stage.scheduler, "turn", stall)


def undone(stage: Stage) -> int:
    return stage.report.of(Section.EVENTS).get(UNDONE, 0)


def test_one_that_is_wrong_by_then_is_undone(
    stage: Stage, bucket: SimulatedBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.store.put(KEY, b"rows")
    sent_after(stage, HALF_MS + 1, monkeypatch)
    bucket.delete([KEY])
    assert stage.store.get(KEY).data == b"rows"
    assert stage.judge.directories.by_ulid[ULID].objects == {KEY.partition("/")[2]: 4}
    assert undone(stage) == 1


def test_one_that_is_sent_in_time_is_the_finding(
    stage: Stage, bucket: SimulatedBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time that it takes by itself counts as well."""
    stage.store.put(KEY, b"rows")
    sent_after(stage, HALF_MS - 30, monkeypatch)
    with pytest.raises(Violation, match="no deletion mark"):
        bucket.delete([KEY])
    assert undone(stage) == 0


def test_one_that_is_right_is_carried_out_however_late(
    stage: Stage, bucket: SimulatedBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.store.put(KEY, b"rows")
    stage.judge.directories.forced.add(ULID)
    sent_after(stage, 100 * HALF_MS, monkeypatch)
    bucket.delete([KEY])
    assert list(stage.store.list()) == []
    assert undone(stage) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        lambda bucket: bucket.put(KEY, b"others"),
        lambda bucket: bucket.put(meta_key(ULID), b"{}"),
    ],
    ids=["a chunk", "a meta.json"],
)
def test_no_other_request_is_excused(
    stage: Stage,
    bucket: SimulatedBucket,
    monkeypatch: pytest.MonkeyPatch,
    wrong: Callable[[SimulatedBucket], object],
) -> None:
    stage.store.put(KEY, b"rows")
    stage.judge.directories.by_ulid[ULID].complete = True
    sent_after(stage, 100 * HALF_MS, monkeypatch)
    with pytest.raises(Violation):
        wrong(bucket)
    assert undone(stage) == 0
