"""Which worker of pytest-xdist runs a test, and what begins first.

- Tests that use a fixture of their file's (a browser, a gateway, a process) run in one worker, as
  if the file named a group: apart, each worker would make that fixture for its share of them.
- What takes long begins first. A test of a minute that begins last leaves the other workers idle.

A test that names a group stays in it. Without workers nothing changes.
"""

from __future__ import annotations

import os

import pytest

LONG_FOLDERS = ("tests/specs/", "tests/end_to_end/")
LONG_MARKS = frozenset({"s3", "slow", "spark"})


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before pytest-xdist looks for groups; in each worker alike."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    for item in items:
        if item.get_closest_marker("xdist_group") is None and _shares(item):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
    items.sort(key=lambda item: not _takes_long(item))


def _shares(item: pytest.Item) -> bool:
    """Whether a fixture that the test uses is kept for the other tests of its file."""
    if not isinstance(item, pytest.Function):
        return False
    used = item._fixtureinfo.name2fixturedefs.values()
    return any(one.scope == "module" for definitions in used for one in definitions)


def _takes_long(item: pytest.Item) -> bool:
    return item.nodeid.startswith(LONG_FOLDERS) or not LONG_MARKS.isdisjoint(
        mark.name for mark in item.iter_markers()
    )
