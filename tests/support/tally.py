"""Totals that a test run reports at its end: crash points tried, races lost, schedules explored.

A test that enumerates says how much it enumerated (``tally("crash points", n)``), so that a run
that silently tried nothing is seen. Works under pytest-xdist: every worker hands its totals to the
controller.
"""

from __future__ import annotations

from collections import Counter

import pytest

_totals: Counter[str] = Counter()
_KEY = "blockstore_tally"


def tally(name: str, count: int = 1) -> None:
    """Add ``count`` to the total that the run reports as ``name``."""
    _totals[name] += count


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """In a worker of pytest-xdist: hand the totals to the controller."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_KEY] = dict(_totals)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object, error: object) -> None:
    """In the controller of pytest-xdist: take over a worker's totals (none if it crashed)."""
    _totals.update(getattr(node, "workeroutput", {}).get(_KEY, {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one line a total."""
    if _totals:
        terminalreporter.section("tally")
        for name, count in sorted(_totals.items()):
            terminalreporter.write_line(f"{name}: {count}")
