"""What the built wheel brings, and what works with each extra and without any."""

from __future__ import annotations

import shlex
import signal
import subprocess
import urllib.request
import zipfile
from pathlib import Path

import pytest

from tests.packaging.conftest import Installed
from tests.packaging.environments import Environment

pytestmark = pytest.mark.xdist_group("packaging")

READINGS = "id,celsius\n1,4.5\n2,5.5\n"
CREATE = ("blockstore", "create", "lake/t", "--schema", "id:int, celsius:double")


def lake(environment: Environment) -> str:
    """A small table, written by the command."""
    if not (environment.work / "lake").exists():
        (environment.work / "t.csv").write_text(READINGS)
        environment.run(*CREATE)
        environment.run("blockstore", "write", "lake/t", "t.csv")
    return "lake/t"


def test_the_wheel_brings_two_names_and_says_that_it_is_typed(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"blockstore", "pyspark_blockstore.py"}
    assert "blockstore/py.typed" in names
    rooms = {name.split("/")[1] for name in names if name.count("/") > 1}
    assert rooms >= {"compactor", "reader", "spark"}
    assert len(names) == len(set(names))


class TestCore:
    """Without an extra: tables by Python and by the command."""

    def test_a_table_is_written_and_read(self, installed: Installed) -> None:
        core = installed()
        table = lake(core)
        code = (
            "import blockstore as bs; "
            "print(bs.open('lake/t').snapshot().scan().to_table().num_rows)"
        )
        assert core.python(code) == "2\n"
        assert "no problems found" in core.run("blockstore", "verify", table, "--deep").stdout

    def test_it_merges_once(self, installed: Installed) -> None:
        core = installed()
        assert core.run("blockstore", "compact", lake(core), "--once")

    @pytest.mark.parametrize(
        ("words", "package", "extra"),
        [
            (("query", "lake/t", "select 1"), "duckdb", "reader"),
            (("query", "lake/t", "select 1", "-o", "csv"), "duckdb", "reader"),
            (("import", "lake", "made"), "duckdb", "reader"),
            (("serve", "lake", "--no-auth"), "", "reader"),
            (("compact", "lake", "--wait"), "", "compactor"),
            (("compact", "lake/t", "--once", "--engine", "spark"), "pyspark", "spark"),
            (("ls", "s3://nowhere/t"), "boto3", "s3"),
            (("ls", "gs://nowhere/t"), "obstore", "cloud"),
            (("ls", "s3://nowhere/t?client=obstore"), "obstore", "cloud"),
        ],
        ids=lambda value: value[0] if isinstance(value, tuple) else None,
    )
    def test_what_an_extra_brings_is_refused_with_the_command_that_installs_it(
        self, installed: Installed, words: tuple[str, ...], package: str, extra: str
    ) -> None:
        core = installed()
        lake(core)
        said = core.run("blockstore", *words, code=1).stderr
        assert said.startswith("error: ")
        assert said.count("\n") == 1
        assert package in said
        assert f"pip install 'blocklake[{extra}]'" in said

    def test_python_says_it_too(self, installed: Installed) -> None:
        core = installed()
        lake(core)
        code = """
import blockstore as bs
table = bs.open("lake/t").snapshot()
for work in (
    lambda: table.scan().to_duckdb(),
    lambda: table.scan().to_pandas(),
    lambda: bs.Client("http://127.0.0.1:1"),
):
    try:
        work()
        print("done")
    except bs.MissingExtra as error:
        print(error)
"""
        said = core.python(code).splitlines()
        assert [line[line.index("pip install ") :] for line in said] == [
            "pip install 'blocklake[reader]'",
            "pip install 'blocklake[spark]'",
            "pip install 'blocklake[client]'",
        ]

    def test_the_demo_says_what_is_missing_and_goes_on(self, installed: Installed) -> None:
        core = installed()
        said = core.run("blockstore", "demo", "shown").stdout
        assert "blocklake[reader]" in said
        assert "no problems found" in said


class TestReader:
    def test_the_demo_shows_every_step(self, installed: Installed) -> None:
        reader = installed("reader")
        said = reader.run("blockstore", "demo").stdout
        commands = [
            line.split()[2] for line in said.splitlines() if line.startswith("$ blockstore")
        ]
        shown = {"create", "write", "query", "compact", "delete", "history", "verify"}
        assert shown <= set(commands)
        assert "216 rows" in said
        assert "no problems found" in said
        again = reader.run("blockstore", "demo", code=1).stderr
        assert "not an empty folder" in again
        _, _, serve = said.strip().rpartition("To see it in a browser: blockstore ")
        with Serving(reader, *shlex.split(serve)) as url:
            page = urllib.request.urlopen(url, timeout=30).read().decode()
        assert "<html" in page

    def test_a_query_returns_rows(self, installed: Installed) -> None:
        reader = installed("reader")
        sql = "select sum(celsius) as total from t"
        done = reader.run("blockstore", "query", lake(reader), sql, "-o", "csv")
        assert done.stdout.split() == ['"total"', "10"]

    def test_the_gateway_serves_and_the_client_extra_is_enough_to_query_it(
        self, installed: Installed
    ) -> None:
        reader, client = installed("reader"), installed("client")
        lake(reader)
        with Serving(reader, "serve", "lake", "--no-auth") as url:
            code = f"""
import blockstore as bs
with bs.Client({url!r}) as gateway:
    print(gateway.sql("select count(*) as n from t").to_pylist())
"""
            assert client.python(code) == "[{'n': 2}]\n"

    def test_a_format_whose_library_is_missing_is_refused_with_the_command(
        self, installed: Installed
    ) -> None:
        reader = installed("reader")
        lake(reader)
        for form, package in {"delta": "deltalake", "iceberg": "pyiceberg"}.items():
            (reader.work / form / "metadata").mkdir(parents=True)
            (reader.work / form / "metadata" / "v1.metadata.json").touch()
            words = ("blockstore", "import", form, "made", "--from", form)
            assert reader.run(*words, code=1).stderr == (
                f"error: an import from {form.title()} needs {package}, which is not installed: "
                "run pip install 'blocklake[import]'\n"
            )

    def test_a_door_whose_packages_are_missing_is_refused_with_the_command(
        self, installed: Installed
    ) -> None:
        reader = installed("reader")
        lake(reader)
        words = ("blockstore", "serve", "lake", "--no-auth", "--port", "0", "--flight-port", "0")
        said = reader.run(*words, code=1).stderr
        assert said.splitlines()[-1] == (
            "error: the Flight SQL door needs protobuf, which is not installed: run pip install "
            "'blocklake[flight]'"
        )


class TestFlight:
    def test_the_door_serves(self, installed: Installed) -> None:
        door = installed("flight")
        lake(door)
        code = """
import sys
from pyarrow import flight
from blockstore.reader.flight.messages import packed
client = flight.FlightClient(sys.stdin.readline().split()[-1])
command = flight.FlightDescriptor.for_command(
    packed("CommandStatementQuery", query="select count(*) as n from t")
)
(end,) = client.get_flight_info(command).endpoints
print(client.do_get(end.ticket).read_all().to_pylist())
"""
        (door.work / "program.py").write_text(code)
        words = ("serve", "lake", "--no-auth", "--port", "0", "--flight-port", "0")
        with Serving(door, *words, scheme="grpc") as url:
            done = subprocess.run(
                [door.folder / "venv" / "bin" / "python", "program.py"],
                cwd=door.work,
                env=door.variables,
                input=url,
                capture_output=True,
                text=True,
                check=False,
            )
        assert done.stdout == "[{'n': 2}]\n", done.stderr


class TestCompactor:
    def test_it_waits_for_work_and_ends_in_good_order(self, installed: Installed) -> None:
        compactor = installed("compactor")
        lake(compactor)
        with Serving(compactor, "compact", "lake", "--wait") as url:
            assert url.startswith("http://127.0.0.1:")


@pytest.mark.parametrize(
    ("extra", "url"),
    [
        ("s3", "s3://nowhere/t"),
        ("cloud", "s3://nowhere/t?client=obstore"),
        ("cloud", "az://nowhere/t"),
    ],
)
def test_a_store_s_client_is_there(installed: Installed, extra: str, url: str) -> None:
    """No store is asked: what is refused is the missing endpoint or credential, or the address."""
    environment = installed(extra)
    code = f"""
import os
os.environ.update(AWS_ENDPOINT_URL="http://127.0.0.1:9", AWS_ACCESS_KEY_ID="a",
    AWS_SECRET_ACCESS_KEY="b", AWS_REGION="eu", AZURE_STORAGE_ACCOUNT_NAME="a",
    AZURE_STORAGE_ACCOUNT_KEY="Yg==")
from blockstore.bucket import open_bucket
from blockstore.world import World
print(open_bucket({url!r}, World.real()).url)
"""
    assert environment.python(code).strip().startswith(url.partition("?")[0])


@pytest.mark.spark
def test_spark_writes_and_reads_without_a_checkout(installed: Installed) -> None:
    """Slow (some ten seconds): a Spark session starts."""
    spark = installed("spark")
    lake(spark)
    code = """
from pyspark.sql import SparkSession
session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
url = "lake/t"
frame = session.createDataFrame([(3, 1.0)], "id long, celsius double")
frame.write.format("blockstore").mode("append").save(url)
print(session.read.format("blockstore").load(url).count())
from blockstore import spark as bs_spark
print(bs_spark.read(session, url).count())
"""
    assert spark.python(code).split() == ["3", "3"]


class Serving:
    """A process of an environment that serves, from its first line with an address to SIGTERM."""

    def __init__(self, environment: Environment, *words: str, scheme: str = "http") -> None:
        self._environment = environment
        self._words = words
        self._start = f"{scheme}://127.0.0.1:"

    def __enter__(self) -> str:
        self._process = subprocess.Popen(
            [self._environment.folder / "venv" / "bin" / "blockstore", *self._words],
            cwd=self._environment.work,
            env={**self._environment.variables, "BLOCKSTORE_HTTP_LISTEN": "127.0.0.1:0"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._process.stdout is not None
        seen = []
        for line in self._process.stdout:
            seen.append(line)
            for word in line.split():
                if word.strip('",').startswith(self._start):
                    return word.strip('",.')
        raise AssertionError("".join(seen))

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.communicate(timeout=60)
        assert self._process.returncode == 0
