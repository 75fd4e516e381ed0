"""Folders for spills: a living process's stay, a dead one's go, and nothing else does."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from blockstore.reader.query.runners.instance import clear_abandoned_spill, spill_folder

_SPILLS = """
import sys
from blockstore.reader.query.runners.instance import spill_folder
folder = spill_folder()
(folder.path / "spilled").touch()
print(folder.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's folder for temporary files."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_is_there_until_it_is_removed(temporary: Path) -> None:
    folder = spill_folder()
    (folder.path / "spilled").touch()
    assert clear_abandoned_spill() == 0
    assert (folder.path / "spilled").exists()
    folder.remove()
    assert list(temporary.iterdir()) == []


def test_what_a_killed_process_left_goes_and_what_a_living_one_has_stays(temporary: Path) -> None:
    words = [sys.executable, "-c", _SPILLS]
    with subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[4],
    ) as process:
        assert process.stdout is not None
        path = Path(process.stdout.readline().strip())
        assert path.parent == temporary
        assert clear_abandoned_spill() == 0
        assert (path / "spilled").exists()
        process.kill()
    assert clear_abandoned_spill() == 1
    assert list(temporary.iterdir()) == []


def test_a_process_that_inherited_the_lock_holds_the_folder(temporary: Path) -> None:
    """The process that spills outlives its killed gateway by a moment."""
    folder = spill_folder()
    heir = os.dup(folder.held)
    os.close(folder.held)
    assert clear_abandoned_spill() == 0
    os.close(heir)
    assert clear_abandoned_spill() == 1


@pytest.mark.parametrize("locked", [False, True])
@pytest.mark.parametrize(
    "name", ["blockstore-merge-x1b2c3d4", "blockstore-spill-lake", "blockstore-spill-x1b2c3d4-old"]
)
def test_what_has_another_name_is_left_alone(temporary: Path, name: str, locked: bool) -> None:
    (temporary / name).mkdir()
    if locked:
        (temporary / f"{name}.lock").touch()
    assert clear_abandoned_spill() == 0
    assert (temporary / name).is_dir()


def test_a_folder_without_a_lock_is_nobodys_to_remove(temporary: Path) -> None:
    (temporary / "blockstore-spill-x1b2c3d4").mkdir()
    assert clear_abandoned_spill() == 0
    assert (temporary / "blockstore-spill-x1b2c3d4").is_dir()


def test_a_link_is_not_followed(temporary: Path) -> None:
    """The system's folder for temporary files is everybody's."""
    precious = temporary / "elsewhere/precious"
    precious.parent.mkdir()
    precious.touch()
    (temporary / "blockstore-spill-x1b2c3d4").symlink_to(precious.parent)
    (temporary / "blockstore-spill-x1b2c3d4.lock").touch()
    assert clear_abandoned_spill() == 0
    assert precious.exists()


def test_another_users_is_left_to_it(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (temporary / "blockstore-spill-x1b2c3d4").mkdir()
    (temporary / "blockstore-spill-x1b2c3d4.lock").touch()
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    assert clear_abandoned_spill() == 0
    monkeypatch.setattr(os, "geteuid", lambda: mine)
    assert clear_abandoned_spill() == 1
