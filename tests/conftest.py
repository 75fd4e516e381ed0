"""What every test shares."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# How long an example takes says nothing here: the machine may be busy. In CI Hypothesis loads a
# profile of its own.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
if "CI" not in os.environ:
    settings.load_profile("busy")

pytest_plugins = [
    "tests.support.s3",
    "tests.support.skips",
    "tests.support.tally",
    "tests.support.tiers",
    "tests.support.jvm",
]
