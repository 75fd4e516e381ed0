"""The Spark session, and the S3 server, that the tests of this folder share."""

from __future__ import annotations

import pytest

from tests.support.s3 import s3_server, s3_url
from tests.support.spark import spark_session

__all__ = ["s3_server", "s3_url", "spark_session"]

PANDAS = "ignore:PySpark does not yet fully support pandas:FutureWarning"
"""pyspark warns about pandas 3 whenever mapInArrow is called, which does not use pandas."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that uses the session is a Spark test, and all of them run in one process: a second
    session costs more than a second core gains."""
    for item in items:
        if "spark_session" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.filterwarnings(PANDAS))
        if item.get_closest_marker("spark") is not None:
            item.add_marker(pytest.mark.xdist_group("spark"))
