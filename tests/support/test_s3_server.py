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
        settings = dict(
            line.removeprefix("export ").split("=") for line in started.stdout.splitlines()
        )
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


@pytest.mark.s3
@pytest.mark.xdist_group("rgw")
def test_ceph_runs_in_a_folder_and_is_gone_once_stopped_rgw(
    rgw_settings: dict[str, str], tmp_path: Path
) -> None:
    root = tmp_path / "ceph"
    started = run("start", "rgw", "--root", str(root))
    assert started.returncode == 0, started.stderr
    endpoint = started.stdout.splitlines()[0].partition("=")[2]
    assert endpoint != rgw_settings["AWS_ENDPOINT_URL"]
    watched = [os.pidfd_open(int(pid)) for pid in (root / "pid").read_text().split()]
    assert len(watched) == 3
    assert run("start", "rgw", "--root", str(root)).returncode == 1
    assert run("stop", "--root", str(root)).returncode == 0
    assert all(wait_for(process) for process in watched)
    assert not root.exists()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(endpoint)


@pytest.mark.parametrize("apt", ["missing", "fails"])
def test_where_ceph_cannot_be_installed_one_loud_line_says_so(tmp_path: Path, apt: str) -> None:
    if apt == "fails":
        fake = tmp_path / "apt-get"
        fake.write_text("#!/bin/sh\necho 'no network' >&2\nexit 100\n")
        fake.chmod(0o755)
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "install", "rgw"],
        env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "SKIPPING CEPH" in done.stderr
    assert "apt-get install" in done.stderr or "no network" in done.stderr
