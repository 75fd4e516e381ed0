"""One gateway with a Flight SQL door for the tests of this folder that change nothing it holds;
each makes what it needs beside."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.reader.flight.doors import Opened, opened
from tests.reader.http.gateways import make_lake, settings


@pytest.fixture(scope="session")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    folder = tmp_path_factory.mktemp("flight")
    with opened(settings(make_lake(folder), folder)) as one:
        yield one
