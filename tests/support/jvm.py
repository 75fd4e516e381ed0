"""Java processes of the tests start with the classes of Spark at hand (``scripts/spark-classes``).

A Spark session of its own then takes a third of the time, wherever a test starts one. What compiles
quickly and collects with one thread is quick in a process that lives for seconds.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
_VARIABLE = "JDK_JAVA_OPTIONS"


def pytest_configure(config: pytest.Config) -> None:
    """For every Java process of this run; what the user has set comes last and wins."""
    if not ARCHIVE.exists():
        return
    quick = f"-XX:SharedArchiveFile={ARCHIVE} -Xshare:auto -Xlog:disable"
    more = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    given = os.environ.get(_VARIABLE, "")
    if str(ARCHIVE) not in given:
        os.environ[_VARIABLE] = f"{quick} {more} {given}".strip()
