"""Disk space is checked before a merge, and a disk that still fills up ends it clearly and leaves
nothing.
"""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.bucket.local import LocalBucket
from blockstore.bucket.memory import MemoryBucket
from blockstore.clock import ManualClock
from blockstore.compactor.merge.local import LocalEngine
from blockstore.compactor.merge.preflight import Needs, check_space, free_bytes, needs
from blockstore.compactor.merge.stage import Stage
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.errors import NoSpace
from tests.compactor.scene import SCHEMA, Scene

MIB = 1 << 20
GIB = 1 << 30


def wanted(*sizes: int, open_together: int = 2, limit: int = 100, remote: bool = False) -> Needs:
    return needs(sizes, open_together=open_together, limit=limit, held_bytes=MIB, remote=remote)


def test_local_chunks_that_may_all_be_open_need_room_for_the_output_only() -> None:
    assert wanted(5 * MIB, 7 * MIB) == Needs(work=0, output=12 * MIB)


def test_chunks_of_a_remote_store_are_copied_if_they_are_not_held_in_memory() -> None:
    assert wanted(5 * MIB, 7 * MIB, 10, remote=True) == Needs(work=12 * MIB, output=0)


def test_chunks_too_many_to_be_open_at_once_pass_over_the_work_disk() -> None:
    few = wanted(*[MIB] * 101, open_together=101, limit=100)
    assert few.work >= 2 * MIB
    many = wanted(*[MIB] * 300, open_together=300, limit=100)
    assert many.work >= 200 * MIB


def test_a_merge_that_does_not_fit_is_refused_with_the_folder_and_both_sizes(
    tmp_path: Path,
) -> None:
    bucket = MemoryBucket(ManualClock())
    check_space(Needs(work=GIB, output=0), bucket, tmp_path, lambda _: 2 * GIB)
    with pytest.raises(
        NoSpace, match=rf"1\.0 GiB on the disk of {tmp_path}.*100\.0 MiB are free.*work_dir"
    ):
        check_space(
            Needs(work=GIB, output=0), bucket, tmp_path / "not there yet", lambda _: 100 * MIB
        )
    check_space(Needs(work=0, output=GIB), bucket, tmp_path, lambda _: 0)


def test_a_bucket_on_the_work_disk_needs_room_for_both(tmp_path: Path) -> None:
    bucket = LocalBucket(tmp_path / "lake", ManualClock())
    both = Needs(work=GIB, output=GIB)
    check_space(both, bucket, tmp_path, lambda _: 3 * GIB)
    with pytest.raises(NoSpace, match="needs up to"):
        check_space(both, bucket, tmp_path, lambda _: GIB + GIB // 2)


def test_the_system_reports_what_is_free(tmp_path: Path) -> None:
    assert 0 < free_bytes(tmp_path) < 1 << 60


def test_a_full_disk_ends_the_run_before_anything_is_written_and_the_table_reads_as_before(
    tmp_path: Path,
) -> None:
    table = bs.create(str(tmp_path / "lake"), schema=SCHEMA, sort_by=["row"])
    for _ in range(3):
        table.append(pa.table({"writer": ["a"], "row": [1]}, schema=SCHEMA))
    before = {info.key for info in table.bucket.list()}
    settings = Settings(tier_blocks=2, work_dir=tmp_path / "work")
    with pytest.raises(NoSpace, match="free some space; nothing was written"):
        compact_once(table, settings, engine=LocalEngine(lambda _: 10))
    assert {info.key for info in table.bucket.list()} == before
    assert len(compact_once(table, settings, engine=LocalEngine(lambda _: GIB)).done) == 1


def test_a_disk_that_fills_up_during_a_merge_is_reported_and_leaves_no_file(tmp_path: Path) -> None:
    made = Scene(tmp_path / "work")
    for number in range(40):
        made.append(f"w{number}")
    settings = Settings(tier_blocks=2, memory_bytes=64 * MIB, work_dir=tmp_path / "work")
    path = Stage.path

    def on_a_full_disk(stage: Stage, name: str) -> Path:
        place = path(stage, name)
        place.symlink_to("/dev/full")
        return place

    with (
        mock.patch("blockstore.compactor.merge.local._Attempt._open_limit", return_value=3),
        mock.patch.object(Stage, "path", on_a_full_disk),
        pytest.raises(NoSpace, match=r"work directory .* is full: free some space"),
    ):
        compact_once(made.open(), settings, engine=LocalEngine(lambda _: GIB))
    assert list((tmp_path / "work").iterdir()) == []
    assert made.found() == made.expected
