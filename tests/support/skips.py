"""In CI a skip is a failure, unless tests/repo/allowed_skips.txt lists the test with its reason.

``*`` in a line stands for anything: a parameter that many tests share is one line.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

ALLOWED = Path(__file__).parent.parent / "repo" / "allowed_skips.txt"


def allowed_skips() -> dict[str, str]:
    """Test id -> reason, from lines ``tests/…::test_name  # reason``."""
    lines = [
        line
        for line in ALLOWED.read_text().splitlines()
        if line.strip() and not line.startswith("#")
    ]
    return {
        node.strip(): reason.strip() for node, _, reason in (line.partition("#") for line in lines)
    }


def is_allowed(node: str) -> bool:
    """Whether a test may be skipped in CI."""
    patterns = (".*".join(map(re.escape, line.split("*"))) for line in allowed_skips())
    return any(re.fullmatch(pattern, node) for pattern in patterns)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):  # type: ignore[no-untyped-def]
    outcome = yield
    report = outcome.get_result()
    expected_failure = hasattr(report, "wasxfail")
    if (
        report.skipped
        and os.environ.get("CI")
        and not expected_failure
        and not is_allowed(item.nodeid)
    ):
        report.outcome = "failed"
        report.longrepr = (
            f"{item.nodeid} was skipped in CI "
            f"({call.excinfo.value if call.excinfo else 'no reason'}): "
            "make it run, or list it with its reason in tests/repo/allowed_skips.txt"
        )
