"""Work folders: gone after each merge, cleared after a dead process, never taken from a living one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from compactor.merge.workdir import WorkDirectory, clear_abandoned

DIES = """
import os, sys
from pathlib import Path
from compactor.merge.workdir import WorkDirectory
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


def test_what_a_dead_process_left_is_cleared_and_what_a_living_one_uses_is_not(tmp_path: Path) -> None:
    dead = tmp_path / "blockstore-dead"
    died = subprocess.run([sys.executable, "-c", DIES, str(dead)], check=False, timeout=120)
    assert died.returncode == 9
    assert (dead / "run").exists()
    living = WorkDirectory(tmp_path / "blockstore-living")
    living.path("run").write_bytes(b"x")
    (tmp_path / "blockstore-unlocked").mkdir()
    (tmp_path / "blockstore-lone.lock").touch()
    (tmp_path / "of another program").mkdir()
    assert clear_abandoned(tmp_path) == 2
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"blockstore-living", "blockstore-living.lock", "of another program"}
    living.clear()
    assert clear_abandoned(tmp_path) == 0


def test_a_folder_that_is_not_there_has_nothing_to_clear(tmp_path: Path) -> None:
    assert clear_abandoned(tmp_path / "missing") == 0
