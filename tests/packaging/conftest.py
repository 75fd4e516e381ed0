"""The wheel and the environments: each made once a run, when a test first needs it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.packaging.environments import Environment, build, make

Installed = Callable[..., Environment]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built wheel."""
    return build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Installed:
    """``installed("reader", "s3")``: an environment with these extras."""

    @cache
    def make_once(*extras: str) -> Environment:
        name = "-".join(extras) or "core"
        return make(tmp_path_factory.mktemp(name) / "environment", wheel, *extras)

    return make_once
