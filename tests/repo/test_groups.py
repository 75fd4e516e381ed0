"""Tests that share what is dear (a Spark session, a server, the demo) run in one worker, as
``scripts/test`` asks; and each test is in one of its two parts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

GROUPED = """
import os
import pathlib
import time

import pytest


@pytest.mark.xdist_group("shared")
@pytest.mark.parametrize("number", range(6))
def test_one(number):
    pathlib.Path(str(number)).write_text(os.environ["PYTEST_XDIST_WORKER"])
    time.sleep(0.1)
"""


MARKED_ELSEWHERE = """
from tests.support.tiers import ALONE
import pytest

pytestmark = getattr(pytest.mark, ALONE)


def test_one():
    pass
"""


@pytest.mark.slow
def test_tests_of_a_group_run_in_one_worker(tmp_path: Path) -> None:
    """Where a plugin does not know its pytest, it ignores the groups: nothing fails, and everything
    takes longer."""
    (tmp_path / "test_grouped.py").write_text(GROUPED)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup", "test_grouped.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len({(tmp_path / str(number)).read_text() for number in range(6)}) == 1


@pytest.mark.slow
def test_a_test_that_no_part_would_run_is_refused(tmp_path: Path) -> None:
    """``scripts/test`` looks for the mark in the text of the files."""
    (tmp_path / "test_hidden.py").write_text(MARKED_ELSEWHERE)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.support.tiers", str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "write pytest.mark.alone in the file" in done.stderr
