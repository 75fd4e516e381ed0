"""The lower bounds of ``pyproject.toml``: what a user may have is what was tried.

``.oldest-venv`` has each requirement at its lower bound. Some tests of each room that leans on a
library run there every time; ``scripts/prove oldest`` runs all of the fast tier.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".oldest-venv" / "bin" / "python"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NOT_OF_USERS = {"dev", "docs", "bench"}
"""Extras for those who work on the project."""

pytestmark = pytest.mark.xdist_group("oldest")

TESTS = (
    "tests/blockstore/bucket/test_bad_responses.py",  # obstore
    "tests/blockstore/cli/test_main.py",  # cyclopts, rich
    "tests/blockstore/scan/test_execute.py",  # pyarrow, numpy
    "tests/blockstore/scan/test_remote_rows.py",  # pyarrow
    "tests/compactor/merge/test_pieces.py",  # pyarrow
    "tests/reader/http/test_arrow_uploads.py",  # pyarrow
    "tests/reader/http/test_people.py",  # pyjwt
    "tests/reader/http/test_queries.py",  # fastapi
    "tests/reader/importing",  # deltalake, pyiceberg
    "tests/reader/postgres/test_constants.py",  # sqlglot
    "tests/reader/statements/test_escapes.py",  # sqlglot, duckdb
)


WORDS = os.environ.get("BLOCKSTORE_OLDEST", " ".join(TESTS)).split()
"""What pytest is asked for there; more by ``scripts/prove oldest``."""


def bounds() -> dict[str, Version]:
    """The lower bound of each requirement that users have, by name."""
    found: dict[str, Version] = {}
    extras = PROJECT["optional-dependencies"]
    listed = [*PROJECT["dependencies"]]
    listed += [line for name, lines in extras.items() if name not in NOT_OF_USERS for line in lines]
    for one in map(Requirement, listed):
        if one.name != PROJECT["name"]:
            (low,) = [spec.version for spec in one.specifier if spec.operator == ">="]
            assert found.setdefault(one.name.lower(), Version(low)) == Version(low), one.name
    return found


def test_the_lock_has_each_requirement_at_its_lower_bound() -> None:
    pins = re.findall(
        r"^([a-z0-9-]+)(?:\[\w+\])?==(\S+)",
        (ROOT / "tests/packaging/oldest.lock").read_text(),
        re.MULTILINE,
    )
    locked = {name: Version(version) for name, version in pins}
    assert {name: locked.get(name) for name in bounds()} == bounds()


@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11), reason="the oldest packages are of Python 3.11"
)
def test_what_leans_on_a_library_passes_at_the_lower_bounds() -> None:
    assert PYTHON.exists(), "run scripts/setup --oldest"
    done = subprocess.run(
        [PYTHON, "-m", "pytest", "-q", "--fast", "-p", "no:cacheprovider", *WORDS],
        cwd=ROOT,
        env={name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-2_000:]
    said = re.search(r"\b\d+ passed\b.*", done.stdout)
    assert said is not None, done.stdout[-1_000:]
    assert "skipped" not in said[0], said[0]
    print("at the lower bounds:", said[0])
