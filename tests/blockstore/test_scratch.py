"""Scratch folders: held while a process that has the lock lives, cleared after it, and only where
they are what they seem."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from blockstore.scratch import LOCK, HeldFolder, clear_abandoned

NAME = re.compile(r"mine-[0-9]")


def left(folder: Path) -> Path:
    """As a dead process leaves a folder: with something in it, and a lock that is not held."""
    folder.mkdir()
    (folder / "rows").touch()
    lock = folder.with_name(folder.name + LOCK)
    lock.touch()
    return lock


def test_a_held_folder_is_this_users_alone_and_gone_when_it_is_removed(tmp_path: Path) -> None:
    held = HeldFolder(tmp_path / "mine-1")
    assert held.path.stat().st_mode & 0o777 == 0o700
    (held.path / "deep").mkdir()
    (held.path / "deep" / "rows").touch()
    assert clear_abandoned(tmp_path, NAME, any_user=False) == 0
    assert (held.path / "deep" / "rows").exists()
    held.remove()
    assert list(tmp_path.iterdir()) == []


def test_what_nobody_holds_goes_with_its_lock_and_a_lock_alone_is_no_folder(tmp_path: Path) -> None:
    left(tmp_path / "mine-1")
    left(tmp_path / "mine-2")
    (tmp_path / "mine-3.lock").touch()
    assert clear_abandoned(tmp_path, NAME, any_user=False) == 2
    assert list(tmp_path.iterdir()) == []


def test_the_last_that_holds_the_lock_holds_the_folder(tmp_path: Path) -> None:
    held = HeldFolder(tmp_path / "mine-1")
    heir = os.dup(held.held)
    os.close(held.held)
    assert clear_abandoned(tmp_path, NAME, any_user=False) == 0
    os.close(heir)
    assert clear_abandoned(tmp_path, NAME, any_user=False) == 1


@pytest.mark.parametrize("name", ["mine-10", "my-mine-1", "mine-1\n", "other"])
def test_another_name_is_somebody_elses(tmp_path: Path, name: str) -> None:
    left(tmp_path / name)
    assert clear_abandoned(tmp_path, NAME, any_user=False) == 0
    assert (tmp_path / name / "rows").exists()


def test_a_folder_without_a_lock_is_somebody_elses(tmp_path: Path) -> None:
    left(tmp_path / "mine-1").unlink()
    assert clear_abandoned(tmp_path, NAME, any_user=False) == 0
    assert (tmp_path / "mine-1" / "rows").exists()


def test_a_link_is_followed_neither_as_a_folder_nor_as_a_lock(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    left(tmp_path / "mine-1").unlink()
    (tmp_path / "mine-1.lock").symlink_to(precious / "made")
    (tmp_path / "mine-2").symlink_to(precious)
    (tmp_path / "mine-2.lock").touch()
    assert clear_abandoned(tmp_path, NAME, any_user=False) == 0
    with pytest.raises(OSError, match="symbolic links"):
        HeldFolder(tmp_path / "mine-1")
    assert list(precious.iterdir()) == []


def test_a_folder_that_cannot_be_made_leaves_no_lock(tmp_path: Path) -> None:
    (tmp_path / "mine-1").touch()
    with pytest.raises(FileExistsError):
        HeldFolder(tmp_path / "mine-1")
    assert [path.name for path in tmp_path.iterdir()] == ["mine-1"]


def test_a_lock_that_was_removed_before_it_was_held_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process took it for a dead one's between our opening and our holding it."""
    opened = os.open
    removed: list[Path] = []

    def open_and_lose(path: Path, flags: int, mode: int = 0o777) -> int:
        found = opened(path, flags, mode)
        if not removed:
            removed.append(path)
            path.unlink()
        return found

    monkeypatch.setattr(os, "open", open_and_lose)
    held = HeldFolder(tmp_path / "mine-1")
    monkeypatch.undo()
    assert removed == [tmp_path / "mine-1.lock"]
    assert removed[0].exists()
    assert clear_abandoned(tmp_path, NAME, any_user=False) == 0
    held.remove()
    assert list(tmp_path.iterdir()) == []


def test_another_users_is_left_to_it_unless_whoever_made_it_is_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left(tmp_path / "mine-1")
    another = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: another)
    assert clear_abandoned(tmp_path, NAME, any_user=False) == 0
    assert clear_abandoned(tmp_path, NAME, any_user=True) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_is_not_there_has_nothing_to_clear(tmp_path: Path) -> None:
    assert clear_abandoned(tmp_path / "missing", NAME, any_user=False) == 0
