"""One Spark session for all tests that need one: it costs seconds to start and a fraction of one to
use.

``local[2,4]``: two cores, and a task may fail three times before its job does, as on a real cluster
(plain ``local[2]`` never retries). Python workers run this interpreter, so that they find the
project where the tests do.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from blockstore.spark.settings import JVM_OPTIONS, UNIX_SOCKETS
from tests.support.spark_workers import workers_python

__all__ = ["CONFS", "spark_session", "start_session"]

CONFS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "768m",
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.ansi.enabled": "true",
    "spark.log.level": "OFF",
    "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {JVM_OPTIONS}",
    UNIX_SOCKETS: "true",
}
"""A session time zone with daylight saving, so that a test that forgets about zones fails; JVM and
sockets as the guide tunes them, while the sessions of clusters (``tests/end_to_end``) and of
Connect stand as Spark makes them."""


def start_session() -> SparkSession:
    """A local session of two cores that retries tasks; for the fixture, and for child processes of
    a test."""
    os.environ["PYSPARK_PYTHON"] = workers_python()
    os.environ["PYSPARK_DRIVER_PYTHON"] = workers_python()
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master("local[2,4]").appName("blockstore-tests")
    for name, value in CONFS.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


@pytest.fixture(scope="session")
def spark_session() -> Iterator[SparkSession]:
    session = start_session()
    yield session
    session.stop()
