"""A file appears whole, in the place of nothing but itself."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from blockstore.client.atomic_file import atomic_file
from blockstore.ids import Ids
from blockstore.world import World


@pytest.fixture
def ids() -> Ids:
    return World.manual().ids


def test_two_at_once_do_not_mix_and_no_file_of_others_is_touched(tmp_path: Path, ids: Ids) -> None:
    target, others = tmp_path / "out.csv", tmp_path / "out.csv.part"
    others.write_text("mine")
    with atomic_file(target, ids) as first, atomic_file(target, ids) as second:
        first.write(b"1" * 10)
        second.write(b"2" * 5)
        assert not target.exists()
    assert target.read_bytes() == b"1" * 10
    assert others.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.csv", "out.csv.part"]


def test_after_an_error_everything_is_as_it_was(tmp_path: Path, ids: Ids) -> None:
    target = tmp_path / "x"
    target.write_text("before")
    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error):
            _broken(target, ids, error)
    assert target.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def _broken(target: Path, ids: Ids, error: type[BaseException]) -> None:
    with atomic_file(target, ids) as file:
        file.write(b"half")
        raise error


def test_a_new_file_keeps_the_permissions_of_the_old_one(tmp_path: Path, ids: Ids) -> None:
    target = tmp_path / "x"
    target.touch(0o600)
    target.chmod(0o640)
    with atomic_file(target, ids) as file:
        file.write(b"new")
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    before = os.umask(0o027)
    try:
        with atomic_file(tmp_path / "y", ids):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "y").stat().st_mode) == 0o640


def test_what_a_link_points_to_is_replaced(tmp_path: Path, ids: Ids) -> None:
    (tmp_path / "there").mkdir()
    for name in ("x", "none yet"):
        link, target = tmp_path / f"link to {name}", tmp_path / "there" / name
        link.symlink_to(target)
        with atomic_file(link, ids) as file:
            file.write(b"new")
        assert link.is_symlink()
        assert target.read_text() == "new"


def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path, ids: Ids) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(fifo.read_bytes()))
    reader.start()
    with atomic_file(fifo, ids) as file:
        file.write(b"through")
    reader.join()
    assert read == [b"through"]
    assert stat.S_ISFIFO(fifo.stat().st_mode)
