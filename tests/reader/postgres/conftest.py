"""One gateway with the Postgres door, for all tests of this folder that change nothing it holds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.reader.postgres.raw import Doors, both, settings_of


@pytest.fixture(scope="session")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    folder = tmp_path_factory.mktemp("postgres")
    with both(settings_of(folder)) as made:
        yield made
