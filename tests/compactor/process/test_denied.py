"""Credentials that may not mark or delete: the table is degraded and the process not ready, and
what was done counts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from blockstore.bucket import Bucket
from blockstore.bucket.local import LocalBucket
from blockstore.bucket.wrapper import Wrapper
from blockstore.cli.failure import FAILED
from blockstore.cli.main import run
from blockstore.compactor.process.keeper import CLEAN, COMPACT
from blockstore.compactor.process.status import TableHealth
from blockstore.errors import AccessDenied
from blockstore.names import DELETION_MARK
from tests.compactor.clean.test_retention import Aging
from tests.compactor.lake import Lake
from tests.compactor.tended import Tended, Tending
from tests.compactor.test_care_verbs import aborted, age, rows, table_at
from tests.support.aged import believe_mtime

DAY_S = 24 * 3600.0


@pytest.fixture(autouse=True)
def files_of_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    believe_mtime(monkeypatch)


class NoDelete(Wrapper):
    """May write, and not delete."""

    def delete(self, keys: Iterable[str]) -> None:
        raise AccessDenied("s3:DeleteObject is denied (403)")

    def delete_once(self, key: str) -> None:
        self.delete([key])


class NoMarks(Wrapper):
    """May not write a deletion mark, by default of any block."""

    def __init__(self, inner: Bucket, *ulids: str) -> None:
        super().__init__(inner)
        self.ulids = ulids

    def put(self, key: str, data: bytes) -> str:
        self._look(key)
        return super().put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> str:
        self._look(key)
        return super().put_if_absent(key, data)

    def _look(self, key: str) -> None:
        if key.endswith(DELETION_MARK) and (
            not self.ulids or any(ulid in key for ulid in self.ulids)
        ):
            raise AccessDenied("s3:PutObject of the mark is denied (403)")


@pytest.fixture
def tended(tmp_path: Path) -> Tended:
    """A table without an index."""
    lake = Tended(tmp_path)
    lake.create("t", indexed=False)
    table = lake.bare("t")
    for number in range(4):
        lake.append("t", f"w{number}", table)
    return lake


def merged(lake: Tended, bucket: Bucket) -> Tending:
    """A process whose blocks are merged and whose results have aged."""
    process = lake.process(bucket)
    lake.world.clock.sleep(DAY_S)
    process.look()
    for _ in range(3):
        while process.turn("t", COMPACT) == 0.0:
            pass
        lake.world.clock.sleep(DAY_S)
    return process


def is_degraded(process: Tending, part: str) -> bool:
    status = process.of("t")
    assert (status.health, part in status.problem) == (TableHealth.DEGRADED, True), status
    assert f"t: {status.problem}; {status.fix}" in process.status().not_ready
    return "write and delete" in status.fix


def test_cleaning_that_may_not_delete_is_degraded_and_counts_what_it_did(tended: Tended) -> None:
    process = merged(tended, NoDelete(tended.bucket))
    process.turn("t", CLEAN)
    marked = process.of("t").totals.marked
    assert marked >= 4
    tended.append("t", "w4", tended.bare("t"))
    tended.append("t", "w5", tended.bare("t"))
    tended.world.clock.sleep(3 * DAY_S)
    while process.turn("t", COMPACT) == 0.0:
        pass
    tended.world.clock.sleep(3 * DAY_S)
    process.turn("t", CLEAN)
    assert is_degraded(process, "DeleteObject")
    assert process.of("t").totals.marked > marked, "marks of the pass that failed count"
    assert process.of("t").totals.removed == 0


def test_cleaning_recovers_with_the_credentials(tended: Tended) -> None:
    bucket = NoDelete(tended.bucket)
    process = merged(tended, bucket)
    for _ in range(2):
        process.turn("t", CLEAN)
        tended.world.clock.sleep(3 * DAY_S)
    assert is_degraded(process, "DeleteObject")
    bucket.delete = tended.bucket.delete  # type: ignore[method-assign]
    process.turn("t", CLEAN)
    assert process.of("t").problem == ""
    assert process.of("t").totals.removed >= 4


def test_marks_that_cleaning_may_not_place_are_degraded_and_each_is_named(
    tended: Tended, caplog: pytest.LogCaptureFixture
) -> None:
    process = merged(tended, NoMarks(tended.bucket))
    process.turn("t", CLEAN)
    assert is_degraded(process, "PutObject")
    assert process.of("t").totals.marked == 0
    assert caplog.text.count("was not cleaned") >= 4


def test_cleaning_that_may_not_mark_removes_what_is_due_all_the_same(tmp_path: Path) -> None:
    lake = Lake(tmp_path, indexed=False)
    for writer in "abcd":
        lake.append(writer)
    lake.sleep(2.1)
    lake.compact()
    lake.sleep(2.1)
    marked = {one.ulid for one in lake.clean().marked}
    assert marked
    lake.sleep(1)
    for writer in "ef":
        lake.append(writer)
    lake.sleep(2.1)
    lake.compact()
    lake.sleep(2.1)
    cleaned = lake.clean(NoMarks(lake.bucket))
    assert {one.ulid for one in cleaned.removed} == marked
    assert isinstance(cleaned.denied, AccessDenied)
    assert (cleaned.marked, cleaned.failed != {}) == ((), True)


def retiring(tmp_path: Path, *only: int) -> tuple[Tending, Aging]:
    """A process whose retention may not mark, or not the blocks of those days."""
    aging = Aging(indexed=False)
    bucket = NoMarks(aging.bucket, *(aging.blocks[days] for days in only))
    lake = Tended(tmp_path, world=aging.world)
    lake.bucket = aging.bucket
    process = lake.process(bucket)
    process.look()
    (name,) = process._keepers
    process._keepers[name].table = aging.open(bucket)
    for loop in process.loops.of(name):
        process.turn(name, loop)
    return process, aging


def test_retention_that_may_not_mark_is_degraded(tmp_path: Path) -> None:
    process, aging = retiring(tmp_path)
    (table,) = process.status().tables
    assert (table.health, table.totals.retired) == (TableHealth.DEGRADED, 0)
    assert "PutObject" in process.status().not_ready[0]
    assert aging.days() == [40, 31, 30, 10]


def test_retention_names_a_block_that_it_could_not_mark(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    process, aging = retiring(tmp_path, 40)
    (table,) = process.status().tables
    assert (table.totals.retired, aging.days()) == (1, [40, 30, 10])
    assert f"block {aging.blocks[40]} was not expired: s3:PutObject" in caplog.text


@pytest.mark.parametrize(("age_days", "denied"), [(0, "put_if_absent"), (3, "delete")])
def test_the_verb_names_each_block_and_fails(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    age_days: int,
    denied: str,
) -> None:
    url = f"{tmp_path / 'readings'}?durable=false"
    table_at(url, index=False).append(rows(1_700_000_000_000))
    folder = aborted(url)
    age(url, 3)
    if age_days:
        assert run(["cleanup", url]) == 0
        age(url, age_days)
    capsys.readouterr()

    def refused(*_: object) -> None:
        raise AccessDenied("the folder may not be written (EACCES)")

    monkeypatch.setattr(LocalBucket, denied, refused)
    assert run(["cleanup", url]) == FAILED
    said = capsys.readouterr()
    assert f"failed: {folder.name}: the folder may not be written (EACCES)" in said.out
    assert "Traceback" not in said.out + said.err


def test_the_verb_of_retention_ends_with_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{tmp_path / 'readings'}?durable=false"
    table_at(url, index=False).append(rows(1_500_000_000_000))
    age(url, 3)

    def refused(*_: object) -> None:
        raise AccessDenied("the folder may not be written (EACCES)")

    monkeypatch.setattr(LocalBucket, "put_if_absent", refused)
    assert (
        run(["retention", url, "--property", "retention=90d", "--property", "sync_delay=0s"])
        == FAILED
    )
    said = capsys.readouterr()
    assert "the folder may not be written (EACCES)" in said.err
    assert "Traceback" not in said.out + said.err
