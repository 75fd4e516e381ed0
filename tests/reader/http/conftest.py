"""One gateway for all tests of this folder that change nothing it holds; each makes what it needs
beside."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.reader.http.gateways import Served, make_lake, serving, settings


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("gateway")
    with serving(settings(make_lake(folder), folder)) as one:
        yield one
