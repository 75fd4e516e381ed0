"""The Spark guide's blocks as they are printed: its Python is a job of its ``spark-submit``, on a
standalone cluster over S3.

The job is the page's Python blocks in their order, with the code that the page leaves to its reader
before, between and after them.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import sysconfig
import tarfile
import venv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.table import Table
from tests.repo.fenced import ROOT, Block, blocks
from tests.support.cluster import standalone
from tests.support.s3 import make_bucket

pytestmark = pytest.mark.slow

PAGE = "docs/guides/spark.md"
SMALL = """
spark.ui.enabled                 false
spark.log.level                  OFF
spark.driver.memory              512m
spark.driver.host                127.0.0.1
spark.driver.bindAddress         127.0.0.1
spark.driver.extraJavaOptions    -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.executor.memory            512m
spark.executor.extraJavaOptions  -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
spark.sql.shuffle.partitions     2
"""
"""The settings of a cluster on a small machine.

``spark-submit`` is given them as a file: a folder of settings would be on Java's class path, to
which the archive of classes (``tests/support/jvm.py``) would then not fit.
"""

BEFORE = """
import json
from datetime import datetime
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
rows = [("JFK", datetime(2024, 2, 1, hour), hour * 10 - 20) for hour in range(12)]
df = spark.createDataFrame(rows, "origin string, at timestamp, delay long").repartition(2)
stream = spark.readStream.format("blockstore").load("s3://lake/arrived")
named = [(1, "Ada", 1), (2, "Closed", 1), (3, "Bo", 1)]
customers = spark.createDataFrame(named, "id long, name string, seen long")
changes = spark.readStream.format("blockstore").load("s3://lake/changes")

def until_done():
    for query in spark.streams.active:
        query.processAllAvailable()
        query.stop()
"""
BETWEEN = "\nuntil_done()\n"
AFTER = """
query = arrivals.writeStream.format("memory").queryName("seen").start()
query.processAllAvailable()
bs_spark.append(df, "s3://lake/flights")
until_done()
print(json.dumps({"seen": spark.table("seen").count(), "master": spark.sparkContext.master}))
"""
"""The job waits for its streams; the one of arrivals begins with the rows written after it."""


TWO_INTERPRETERS = """
from blockstore import spark as bs_spark
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
df = spark.range(4)
for call in (
    lambda: bs_spark.append(df, "s3://lake/interpreters").rows,
    lambda: bs_spark.read(spark, "s3://lake/interpreters").count(),
    lambda: df.write.format("blockstore").mode("append").save("s3://lake/interpreters"),
    lambda: spark.read.format("blockstore").load("s3://lake/interpreters").count(),
):
    try:
        print(call())
    except Exception as error:
        missing = 'Cannot run program "./driver/bin/python"' in str(error)
        print("no such program" if missing else error)
"""

TUNED = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
print(spark.conf.get("spark.python.unix.domain.socket.enabled"))
for name in ("arrow.enable_unsafe_memory_access", "arrow.enable_null_check_for_get"):
    print(spark.sparkContext._jvm.System.getProperty(name))
numbers = spark.read.format("blockstore").option("not_null", "true").load("numbers")
print(numbers.schema["id"].nullable)
"""


def block(begins: str) -> Block:
    (found,) = [one for one in blocks(PAGE) if one.text.startswith(begins)]
    return found


def job() -> str:
    """``job.py`` of the page; what needs no cluster is run by ``test_statements.py``."""
    python = [
        one.text
        for one in blocks(PAGE)
        if one.language == "python" and not one.text.startswith(("news", "def merge"))
    ]
    return BEFORE + BETWEEN.join(python) + BETWEEN + AFTER


def replaced(text: str, instead: Mapping[str, str]) -> str:
    for there, here in instead.items():
        assert there in text, f"the page says {there!r} no more"
        text = text.replace(there, here)
    return text


@dataclass(frozen=True)
class Desk:
    """A folder in which a person works, with a packed environment and the settings of their
    cluster."""

    folder: Path
    environment: dict[str, str]

    def write(self, name: str, text: str, instead: Mapping[str, str]) -> None:
        (self.folder / name).write_text(replaced(text, instead))

    def pack(self) -> None:
        """``lake-env.tar.gz`` as venv-pack makes it, but that the packages stay where they are."""
        made = self.folder / "made"
        venv.create(made, symlinks=True)
        (site,) = made.glob("lib/python*/site-packages")
        (site / "lake.pth").write_text(f"{ROOT}\n{sysconfig.get_path('purelib')}\n")
        with tarfile.open(self.folder / "lake-env.tar.gz", "w:gz") as tar:
            tar.add(made, ".")

    def run(self, block: Block, instead: Mapping[str, str], **variables: str) -> str:
        """What a block's commands print."""
        small = {"spark-submit": "spark-submit --properties-file small.conf"}
        text = replaced(block.text, {**small, **instead})
        driver = subprocess.Popen(
            ["bash", "-euc", text],
            cwd=self.folder, env={**self.environment, **variables}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        try:
            printed, errors = driver.communicate(timeout=300)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(driver.pid, signal.SIGKILL)
        assert driver.returncode == 0, f"{block}\n{printed[-2000:]}{errors[-6000:]}"
        return printed


@pytest.fixture(scope="module")
def desk(s3_server: str, tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """One with a bucket ``lake``."""
    make_bucket("lake")
    folder = tmp_path_factory.mktemp("desk")
    (folder / "small.conf").write_text(SMALL)
    mine = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "BLOCKSTORE_COMPACTOR_TIER_BLOCKS": "2",
    }
    made = Desk(folder, {**without("PYTHON", "PYSPARK", "SPARK_HOME"), **mine})
    made.pack()
    return made


@pytest.fixture(scope="module")
def master(s3_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A cluster without settings for the store or this project."""
    environment = without("PYTHON", "PYSPARK", "SPARK_HOME", "AWS_")
    with standalone(
        tmp_path_factory.mktemp("cluster"), memory="512m", environment=environment
    ) as address:
        yield address


def without(*prefixes: str) -> dict[str, str]:
    """The environment without the variables that begin with a prefix."""
    return {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}


def flights(number: int, rows: int = 4) -> pa.Table:
    start = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(hours=number)
    return pa.table(
        {
            "origin": pa.array([("JFK", "EWR")[row % 2] for row in range(rows)]),
            "at": pa.array([start] * rows, pa.timestamp("us", "UTC")),
            "delay": pa.array(range(-rows // 2, rows // 2), pa.int64()),
        }
    )


def sorted_rows(table: Table) -> list[str]:
    return sorted(map(repr, table.snapshot().scan().to_table().to_pylist()))


@pytest.mark.spark
@pytest.mark.s3
@pytest.mark.timeout(600)
def test_on_a_standalone_cluster_the_pages_commands_write_read_stream_and_merge(
    desk: Desk, master: str
) -> None:
    """Slow because it starts a cluster, and two drivers on it."""
    table = bs.create("s3://lake/flights", schema=flights(0).schema, sort_by=["origin"])
    table.append(flights(0))
    bs.create("s3://lake/arrived", schema=flights(0).schema).append(flights(100, 6))
    moved = pa.table({"id": [3, 4, 3], "name": ["Bob", "Cy", "Bo"], "seen": [3, 3, 2]})
    bs.create("s3://lake/changes", schema=moved.schema).append(moved)
    here = {"/mnt/checkpoints": str(desk.folder / "checkpoints"), '"version", 40': '"version", 2'}
    desk.write("job.py", job(), here)

    printed = desk.run(block("mkdir -p env"), {"spark://master:7077": master})
    assert json.loads(printed.splitlines()[-1]) == {"seen": 12, "master": master}
    assert printed.count("by Python in Spark's tasks, since Spark has no S3A connector") == 2
    table = bs.open("s3://lake/flights")
    operations = [
        (entry.operation, entry.job and entry.job.app.partition("/")[0])
        for entry in table.history()
    ]
    assert operations[2:] == [
        ("append", "nightly"),
        ("overwrite", "fix"),
        ("overwrite", None),
        ("overwrite", None),
        ("append", "stream"),
        ("append", "stream"),
        ("append", None),
    ]
    rows = sorted_rows(table)
    assert len(rows) == 2 + 12 + 6 + 6 + 12

    changed = bs.open("s3://lake/customers")
    names = changed.snapshot().scan().to_table().sort_by("id")["name"].to_pylist()
    assert names == ["Ada", "Bob", "Cy"]
    jobs = [entry.job and entry.job.app.partition("/")[0] for entry in changed.history()]
    assert jobs == [None, "crm", None, None, "stream"]

    desk.run(block("echo 'from blockstore.cli.main"), {"spark://master:7077": master})
    after = bs.open("s3://lake/flights")
    assert [entry.operation for entry in after.history()][-1] == "compact"
    assert len(after.snapshot().blocks) == 1
    assert sorted_rows(after) == rows


@pytest.mark.spark
@pytest.mark.s3
@pytest.mark.timeout(600)
def test_where_the_driver_has_an_interpreter_of_its_own_save_and_load_fail_and_the_functions_work(
    desk: Desk, master: str
) -> None:
    """Slow because it starts a cluster, if it comes first, and a driver on it."""
    (desk.folder / "driver").symlink_to("env")
    desk.write("job.py", TWO_INTERPRETERS, {})
    here = {"spark://master:7077": master}
    printed = desk.run(block("mkdir -p env"), here, PYSPARK_DRIVER_PYTHON="./driver/bin/python")
    assert printed.split("\n")[:4] == ["4", "4", "no such program", "no such program"]


@pytest.mark.spark
@pytest.mark.s3
@pytest.mark.timeout(600)
def test_the_three_settings_are_those_of_the_session(desk: Desk) -> None:
    """Slow because it starts a Spark of its own."""
    bs.create(str(desk.folder / "numbers"), schema=pa.schema([("id", pa.int64())])).append(
        pa.table({"id": [1]})
    )
    desk.write("job.py", TUNED, {})
    assert desk.run(block("spark-submit --conf"), {}).split() == ["true", "true", "false", "False"]
