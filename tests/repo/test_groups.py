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


SHARED = """
import os
import pathlib
import time

import pytest

HERE = pathlib.Path(__file__).parent


@pytest.fixture(scope="module")
def dear():
    (HERE / os.environ["PYTEST_XDIST_WORKER"]).touch()


@pytest.mark.parametrize("number", range(6))
def test_one(dear, number):
    time.sleep(0.1)
"""

LONG_LAST = """
import pytest


def test_plain(request):
    with open(request.path.parent / "order", "a") as order:
        order.write("plain ")


@pytest.mark.slow
def test_long(request):
    with open(request.path.parent / "order", "a") as order:
        order.write("long ")
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
@pytest.mark.parametrize(("text", "workers"), [(SHARED, 2), (LONG_LAST, 1)])
def test_a_fixture_of_a_file_is_made_once_and_what_takes_long_begins_first(
    tmp_path: Path, text: str, workers: int
) -> None:
    (tmp_path / "test_together.py").write_text(text)
    asked = ["-n", str(workers), "--dist", "loadgroup", "-p", "tests.support.together"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *asked, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    if text == SHARED:
        assert len(list(tmp_path.glob("gw*"))) == 1
    else:
        assert (tmp_path / "order").read_text() == "long plain "


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
