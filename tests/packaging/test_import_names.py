"""Names that users have: no folder and no package of theirs is taken for a part of ours.

Once the wheel brought the names ``spark``, ``reader`` and ``compactor``: a folder ``spark/`` beside
a job broke ``format("blockstore")``, and the registry's package ``reader`` overwrote ours.
"""

from __future__ import annotations

import shutil

import pytest

from tests.packaging.conftest import Installed
from tests.packaging.environments import Environment

pytestmark = pytest.mark.xdist_group("packaging")

THEIRS = 'raise RuntimeError("a folder of the user was imported")\n'
ROOMS = ("compactor", "reader", "spark")


@pytest.fixture
def crowded(installed: Installed) -> Environment:
    """An environment whose working folder has folders of the user with our old names."""
    environment = installed("compactor", "reader", "spark")
    shutil.rmtree(environment.work)
    for name in ROOMS:
        (environment.work / name).mkdir(parents=True)
        (environment.work / name / "__init__.py").write_text(THEIRS)
    return environment


def test_folders_of_the_user_are_left_alone(crowded: Environment) -> None:
    said = crowded.run("blockstore", "demo").stdout
    assert "no problems found" in said
    code = """
from blockstore import compactor, reader, spark
import blockstore.compactor.verbs, blockstore.reader.verbs
print(spark.__name__, reader.__name__, compactor.__name__)
"""
    assert crowded.python(code).split() == [f"blockstore.{one}" for one in reversed(ROOMS)]


@pytest.mark.spark
def test_spark_finds_the_format_beside_a_folder_named_spark(crowded: Environment) -> None:
    """Slow (some ten seconds): a Spark session starts."""
    crowded.run("blockstore", "create", "lake/t", "--schema", "id:int")
    code = """
from pyspark.sql import SparkSession
session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
frame = session.range(5)
frame.write.format("blockstore").mode("append").save("lake/t")
print(session.read.format("blockstore").load("lake/t").count())
"""
    assert crowded.python(code) == "5\n"


def test_the_registry_s_package_reader_works_beside_ours(installed: Installed) -> None:
    """A package of that name is put where pip puts it; neither sees a file of the other."""
    environment = installed("reader")
    theirs = environment.site / "reader"
    assert not theirs.exists(), "the wheel brings the name itself"
    theirs.mkdir()
    (theirs / "__init__.py").write_text('def make_reader(path):\n    return "theirs"\n')
    try:
        code = """
from reader import make_reader
from blockstore.reader.query import query
print(make_reader("db"), query.__module__.partition(".query")[0])
"""
        assert environment.python(code).split() == ["theirs", "blockstore.reader"]
        assert "216 rows" in environment.run("blockstore", "demo", "beside").stdout
    finally:
        shutil.rmtree(theirs)
