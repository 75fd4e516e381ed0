"""The release script: what it builds is sound, and what is not a release is refused."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def release(*words: str) -> subprocess.CompletedProcess[str]:
    command = [ROOT / "scripts" / "release", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_dry_run_builds_and_tries_the_wheel_and_tags_nothing() -> None:
    before = subprocess.check_output(["git", "tag"], cwd=ROOT)
    done = release("--dry-run")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("are sound; nothing was tagged\n")
    assert subprocess.check_output(["git", "tag"], cwd=ROOT) == before


def test_a_version_that_is_not_that_of_the_project_is_refused() -> None:
    done = release("0.0.9")
    assert done.returncode == 1
    assert "pyproject.toml has version" in done.stderr
