"""Work folders: gone after each merge, cleared after a dead process, never taken from a living
one."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.compactor.merge.workdir import (
    NoWorkDirectory,
    WorkDirectory,
    check_outside_tables,
    clear_abandoned,
    merge_folder,
    work_disk,
)
from blockstore.errors import Invalid, NoSpace

ULID, TOKEN = "01JD0000000000000000000000", "0123456789abcdef"

DIES = """
import os, sys
from pathlib import Path
from blockstore.compactor.merge.workdir import WorkDirectory
WorkDirectory(Path(sys.argv[1])).path("run").write_bytes(b"x" * 1000)
os._exit(9)
"""


def test_a_folder_is_made_at_its_first_use_and_gone_after_it(tmp_path: Path) -> None:
    work = WorkDirectory(tmp_path / "deep" / "blockstore-a")
    work.clear()
    assert list(tmp_path.iterdir()) == []
    work.path("one").write_bytes(b"x")
    work.path("two").write_bytes(b"x")
    work.clear()
    work.clear()
    assert list((tmp_path / "deep").iterdir()) == []


def die_with(folder: Path) -> None:
    died = subprocess.run([sys.executable, "-c", DIES, str(folder)], check=False, timeout=120)
    assert died.returncode == 9
    assert (folder / "run").exists()


@pytest.mark.parametrize("name", [ULID, TOKEN])
def test_what_a_dead_process_left_is_cleared_and_what_a_living_one_uses_is_not(
    tmp_path: Path, name: str
) -> None:
    die_with(merge_folder(tmp_path, name))
    living = WorkDirectory(merge_folder(tmp_path, "01JD0000000000000000000001"))
    kept = living.path("run")
    kept.write_bytes(b"x")
    lone = merge_folder(tmp_path, "01JD0000000000000000000002")
    lone.with_name(lone.name + ".lock").touch()
    assert clear_abandoned(tmp_path) == 1
    assert {path.name for path in tmp_path.iterdir()} == {
        kept.parent.name,
        kept.parent.name + ".lock",
    }
    living.clear()
    assert clear_abandoned(tmp_path) == 0


@pytest.mark.parametrize("locked", [False, True])
@pytest.mark.parametrize(
    "name",
    [
        "blockstore-lake",
        "blockstore-backup",
        "blockstore-spill-x1b2c3d4",
        "blockstore-ab3d_fgh",
        f"blockstore-{ULID}",
        f"blockstore-{TOKEN}",
        "blockstore-merge-lake",
        f"blockstore-merge-{ULID}-old",
        f"my-blockstore-merge-{ULID}",
        f"blockstore-merge-{ULID.lower()}",
        f"blockstore-merge-{ULID}\n",
    ],
)
def test_what_has_another_name_is_left_alone(tmp_path: Path, name: str, locked: bool) -> None:
    """A lake, what is read from a pipe, what a query spills: whatever made it, it is not a
    merge's."""
    (tmp_path / name).mkdir()
    (tmp_path / name / "precious").touch()
    if locked:
        (tmp_path / f"{name}.lock").touch()
    assert clear_abandoned(tmp_path) == 0
    assert (tmp_path / name / "precious").exists()
    assert (tmp_path / f"{name}.lock").exists() is locked


def test_a_folder_without_a_lock_is_not_removed(tmp_path: Path) -> None:
    """The lock comes before the folder and goes after it: a merge's own is never without one."""
    folder = merge_folder(tmp_path, ULID)
    folder.mkdir()
    assert clear_abandoned(tmp_path) == 0
    assert folder.is_dir()


def test_what_another_user_left_goes_where_this_one_may_remove_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compactor that now runs as another user would leave it for ever."""
    die_with(merge_folder(tmp_path, ULID))
    another = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: another)
    assert clear_abandoned(tmp_path) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """The system's folder for temporary files is everybody's."""
    precious = tmp_path / "elsewhere" / "precious"
    precious.parent.mkdir()
    precious.touch()
    work = tmp_path / "work"
    work.mkdir()
    folder = merge_folder(work, ULID)
    folder.symlink_to(precious.parent)
    folder.with_name(folder.name + ".lock").touch()
    assert clear_abandoned(work) == 0
    assert precious.exists()


@pytest.mark.parametrize("index", [True, False])
def test_a_work_directory_inside_a_table_is_refused_with_both_names(
    tmp_path: Path, index: bool
) -> None:
    schema = pa.schema([("k", pa.int64())])
    table = bs.create(str(tmp_path / "lake" / "t"), schema=schema, sort_by=["k"], index=index)
    table.append(pa.table({"k": [1]}))
    for inside in (tmp_path / "lake" / "t", tmp_path / "lake" / "t" / "deep" / "work"):
        with pytest.raises(
            Invalid, match=rf"{inside} .*the table {tmp_path}/lake/t[:,] .*set work_dir"
        ):
            check_outside_tables(inside)
    check_outside_tables(tmp_path / "lake")
    check_outside_tables(tmp_path / "not there yet")


def test_a_folder_that_is_not_there_has_nothing_to_clear(tmp_path: Path) -> None:
    assert clear_abandoned(tmp_path / "missing") == 0


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_reported_with_the_folder_and_what_to_do(tmp_path: Path, code: int) -> None:
    with (
        pytest.raises(NoSpace, match=f"{tmp_path} is full: free some space, or set work_dir"),
        work_disk(tmp_path),
    ):
        raise OSError(code, "full")


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.EIO, errno.ENOENT])
def test_a_folder_that_cannot_be_used_is_reported_with_what_to_do(
    tmp_path: Path, code: int
) -> None:
    said = rf"{tmp_path} cannot be used \({os.strerror(code)}\): make it a folder .*set work_dir"
    with pytest.raises(NoWorkDirectory, match=said), work_disk(tmp_path):
        raise OSError(code, "fails")


@pytest.mark.parametrize(
    "error", [OSError(errno.EMFILE, "many"), OSError("no number"), MemoryError("large")]
)
def test_what_no_other_folder_would_fix_stays_what_it_is(tmp_path: Path, error: Exception) -> None:
    with pytest.raises(type(error)) as raised, work_disk(tmp_path):
        raise error
    assert raised.value is error


def test_a_work_directory_that_is_a_file_is_reported_when_it_is_first_used(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    work = WorkDirectory(merge_folder(tmp_path / "file", ULID))
    with pytest.raises(NoWorkDirectory, match=f"the work directory {tmp_path}/file cannot be used"):
        work.open()
    work.clear()
