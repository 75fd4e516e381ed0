"""What every test shares."""

from __future__ import annotations

pytest_plugins = ["tests.support.s3", "tests.support.skips", "tests.support.tally"]
