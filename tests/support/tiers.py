"""The fast tier: ``scripts/test --fast`` leaves out what takes long to start or to search.

It leaves out Spark, browsers, real stores, the processes of ``tests/end_to_end`` and
``tests/packaging``, and tests that are marked ``alone`` or ``slow``; models and the simulation run
at their smallest. ``scripts/test`` runs everything: the fast tier is for the time between two
edits.

The files of its second part are those that name the mark ``alone`` themselves; a test that is
marked from elsewhere is refused, for neither part would run it.
"""

from __future__ import annotations

import os

import pytest

ALONE = "alone"
MARKERS = frozenset({ALONE, "s3", "slow", "spark"})
FIXTURES = frozenset({"browser", "visit"})
FOLDERS = ("tests/bench/", "tests/end_to_end/", "tests/packaging/", "tests/spark/")
_VARIABLE = "BLOCKSTORE_FAST_TESTS"


def is_fast() -> bool:
    """Whether this run is of the fast tier: series of any length take their smallest."""
    return _VARIABLE in os.environ


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="leave out what takes long")


def pytest_configure(config: pytest.Config) -> None:
    """Before any test module is imported, also in the workers of pytest-xdist."""
    if config.getoption("fast"):
        os.environ[_VARIABLE] = "1"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for path in sorted({item.path for item in items if item.get_closest_marker(ALONE)}):
        if f"mark.{ALONE}" not in path.read_text():
            raise pytest.UsageError(
                f"{path}: its tests are marked {ALONE!r} elsewhere, and scripts/test would run "
                f"them in neither part: write pytest.mark.{ALONE} in the file"
            )
    if not config.getoption("fast"):
        return
    left_out = [item for item in items if _takes_long(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]


def _takes_long(item: pytest.Item) -> bool:
    return (
        item.nodeid.startswith(FOLDERS)
        or not MARKERS.isdisjoint(mark.name for mark in item.iter_markers())
        or not FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))
    )
