"""What every test shares."""

from __future__ import annotations

import gc
import os

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says nothing here: the machine may be busy. In CI Hypothesis loads a
# profile of its own.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
if "CI" not in os.environ:
    settings.load_profile("busy")

pytest_plugins = [
    "tests.support.decoded",
    "tests.support.s3",
    "tests.support.skips",
    "tests.support.tally",
    "tests.support.tiers",
    "tests.support.jvm",
    "tests.support.together",
    "tests.support.unsynced",
]

LONGEST_ID = 200


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """While tests are collected next to nothing becomes garbage, and to look for it again and again
    among ever more modules and tests takes as long as to import them."""
    gc.disable()


def pytest_collection_finish() -> None:
    """What thirteen thousand tests are made of stays until the end: the garbage collector, which
    some tests call after each of their rows, need not look at it again."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """A value of any length has a short name. An id is written and sent for each test, several
    times; one of megabytes made the record of a run half a gigabyte."""
    if isinstance(val, str | bytes) and len(val) > LONGEST_ID:
        return f"{argname} of {len(val)}"
    return None
