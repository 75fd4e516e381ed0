"""``scripts/s3-server``: servers side by side, clear refusals, and none that outlives its owner."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.support.s3 import SCRIPT


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(SCRIPT), *arguments], capture_output=True, text=True, check=False)


@pytest.mark.s3
def test_a_second_server_runs_beside_the_first_and_ends_with_its_owner(
    s3_server: str, tmp_path: Path
) -> None:
    root = tmp_path / "second"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as owner:
        started = run("start", "--root", str(root), "--while", str(owner.pid))
        assert started.returncode == 0, started.stderr
        settings = dict(line.removeprefix("export ").split("=") for line in started.stdout.splitlines())
        assert settings["AWS_ENDPOINT_URL"] != s3_server
        assert {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"} <= set(settings)
        again = run("start", "--root", str(root))
        assert again.returncode == 1
        assert "one runs in" in again.stderr
        pid = int((root / "pid").read_text())
        owner.communicate(b"\n")
    watched = os.pidfd_open(pid)
    assert wait_for(watched)
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(settings["AWS_ENDPOINT_URL"])
    assert urllib.request.urlopen(f"{s3_server}/healthz").status == 200


def wait_for(process: int) -> bool:
    """Whether a process that is not our child ends within half a minute."""
    return bool(select.select([process], [], [], 30)[0])


def test_stopping_where_none_runs_is_no_error_and_removes_nothing(tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"")
    assert run("stop", "--root", str(tmp_path)).returncode == 0
    assert (tmp_path / "mine").exists()
