"""PostgreSQL's clients at the gateway's Postgres door: what their users do first."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import blockstore as bs
from tests.engines.postgres_clients import CLIENTS
from tests.reader.http.gateways import FEW, READ, WRITE
from tests.reader.postgres.raw import Doors, both, settings_of, until
from tests.reader.postgres.test_door import SLOW
from tests.repo.fenced import blocks

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".engines-venv" / "bin" / "python"
JAR = ROOT / ".engines-venv" / "postgresql.jar"
NODE = shutil.which("node")
MODULES = ROOT / ".engines-venv" / "node_modules"
PSQL = shutil.which("psql")
PEOPLE = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("ok", pa.bool_()),
        pa.field("raw", pa.binary()),
    ]
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    folder = tmp_path_factory.mktemp("clients")
    asked = settings_of(folder)
    bs.create(f"{folder}/lake/people?durable=false", schema=PEOPLE, key=["id"])
    with both(asked) as made:
        yield made


@pytest.mark.skipif(
    not PYTHON.exists(), reason="the engines are not installed: scripts/setup --engines"
)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_connects_lists_reads_writes_and_fails_readably(doors: Doors, client: str) -> None:
    script = Path(__file__).parent / "postgres_clients.py"
    done = subprocess.run(
        [PYTHON, script, client, str(doors.door.port), WRITE],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.skipif(
    NODE is None or not (MODULES / "pg").exists(),
    reason="node or node-postgres is not installed: scripts/setup --engines",
)
def test_node_postgres_connects_lists_reads_cancels_writes_and_fails_readably(
    doors: Doors,
) -> None:
    assert NODE is not None
    script = Path(__file__).parent / "node" / "postgres_client.js"
    done = subprocess.run(
        [NODE, script, str(doors.door.port), WRITE],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "NODE_PATH": str(MODULES)},
    )
    assert done.returncode == 0, done.stderr[-3000:]


def psql(doors: Doors, *commands: str, token: str = WRITE) -> subprocess.CompletedProcess[str]:
    given = [word for command in commands for word in ("-c", command)]
    where = f"host=127.0.0.1 port={doors.door.port} user=me dbname=lake password={token}"
    return subprocess.run(
        [PSQL, "-X", "-A", where, *given], capture_output=True, text=True, timeout=60
    )


@pytest.mark.skipif(PSQL is None, reason="psql is not installed: scripts/setup --engines")
def test_psql_lists_and_describes_tables_queries_and_copies(doors: Doors, tmp_path: Path) -> None:
    found = psql(doors, r"\dt", r"\d people", r"\t", "SELECT n FROM public.flights WHERE n = 3")
    assert found.returncode == 0, found.stderr
    assert "public|flights|table|me" in found.stdout
    assert "id|bigint||not null|" in found.stdout
    assert '"people_pkey" PRIMARY KEY, btree (id)' in found.stdout
    assert found.stdout.splitlines()[-1] == "3"
    out = psql(doors, rf"\copy (SELECT * FROM flights) to '{tmp_path}/f.csv' csv header")
    assert out.stdout == "COPY 1000\n", out.stderr
    (tmp_path / "p.csv").write_text("101,a\n102,\n")
    into = psql(doors, rf"\copy people (id, name) from '{tmp_path}/p.csv' csv")
    assert into.stdout == "COPY 2\n", into.stderr
    wrong = psql(doors, "SELECT nope FROM flights")
    assert wrong.returncode == 1
    assert wrong.stderr.startswith("ERROR:  the SQL cannot be run: ")
    assert "LINE 1: SELECT nope FROM flights\n               ^" in wrong.stderr
    asked = f"host=127.0.0.1 port={doors.door.port} user=me dbname=lake password={WRITE}"
    given = subprocess.run(
        [PSQL, "-X", "-A", asked, "-v", "n=7", "-v", "other=x"],
        input="SELECT s FROM flights WHERE n = :n AND s <> :'other';",
        capture_output=True,
        text=True,
    )
    assert "row 7" in given.stdout, given.stderr


@pytest.mark.skipif(PSQL is None, reason="psql is not installed: scripts/setup --engines")
def test_psql_asks_for_the_privileges_of_its_user(doors: Doors) -> None:
    asked = (
        r"\t",
        (
            "SELECT has_table_privilege(current_user, 'public.flights', 'SELECT'), "
            "has_table_privilege('flights', 'INSERT, DELETE'), "
            "has_schema_privilege('public', 'CREATE')"
        ),
        "SELECT relname FROM pg_class WHERE has_table_privilege(oid, 'UPDATE') ORDER BY 1",
    )
    for token, rights, changed in (
        (READ, "t|f|f", []),
        (WRITE, "t|t|t", ["flights", "people", "people_pkey", "salaries"]),
        (FEW, "t|t|f", ["flights"]),
    ):
        found = psql(doors, *asked, token=token)
        assert found.stdout.splitlines()[1:] == [rights, *changed], found.stderr
    unseen = psql(doors, "SELECT has_table_privilege('salaries', 'SELECT')", token=FEW)
    assert unseen.stderr == 'ERROR:  relation "salaries" does not exist\n'


@pytest.mark.skipif(PSQL is None, reason="psql is not installed: scripts/setup --engines")
def test_psql_fetches_a_million_rows_and_cancels_with_the_keyboard(
    doors: Doors, tmp_path: Path
) -> None:
    many = psql(
        doors,
        rf"\copy (SELECT i, 'row ' || i FROM range(1_000_000) t(i)) to '{tmp_path}/m.csv' csv",
    )
    assert many.stdout == "COPY 1000000\n", many.stderr
    assert PSQL is not None
    where = f"host=127.0.0.1 port={doors.door.port} user=me dbname=lake password={WRITE}"
    engine = doors.served.gateway.engine
    with subprocess.Popen(
        [PSQL, "-X", where, "-c", SLOW], stderr=subprocess.PIPE, text=True
    ) as asking:
        assert until(lambda: engine.running() == 1)
        asking.send_signal(signal.SIGINT)
        _, said = asking.communicate(timeout=60)
    assert said.startswith("Cancel request sent\nERROR:  ")
    assert until(lambda: engine.running() == 0)


SPARK = """
import sys
from pyspark.sql import SparkSession

jar, port, token = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.driver.extraClassPath", jar)
    .config("spark.ui.enabled", "false")
    .config("spark.driver.extraJavaOptions", "-Duser.timezone=America/New_York")
    .config("spark.sql.session.timeZone", "UTC")
    .getOrCreate()
)
where = {
    "url": f"jdbc:postgresql://127.0.0.1:{port}/lake", "driver": "org.postgresql.Driver",
    "user": "me", "password": token, "fetchsize": "100",
}
def read(table, **more):
    found = spark.read.format("jdbc").options(**where, **more)
    return found.option("dbtable", table).load()

flights = read("flights")
print(flights.dtypes)
print(flights.orderBy("n").first()["time"])
print(flights.where("n < 10 AND s LIKE 'row%'").count(), flights.agg({"n": "sum"}).first()[0])
parts = {"partitionColumn": "n", "lowerBound": "0", "upperBound": "1000", "numPartitions": "3"}
print(read("flights", **parts).distinct().count())
as_catalog = "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"
spark.conf.set("spark.sql.catalog.lake", as_catalog)
for name in ("url", "driver", "user", "password"):
    spark.conf.set(f"spark.sql.catalog.lake.{name}", where[name])
print(sorted(one["tableName"] for one in spark.sql("SHOW TABLES IN lake.public").collect()))
print([tuple(one)[:2] for one in spark.sql("DESCRIBE lake.public.people").collect()])
asked = "SELECT n, s FROM lake.public.flights WHERE n < :most AND s <> :other ORDER BY n"
print([tuple(one) for one in spark.sql(asked, args={"most": 3, "other": "row 1"}).collect()])
where["fetchsize"] = "10000"
many = "(SELECT i, 'row ' || i AS s FROM range(1_000_000) t(i)) AS many"
print(sorted(read(many).agg({"i": "sum", "s": "max"}).first().asDict().items()))
slow = "(SELECT count(*) AS n FROM range(100_000_000_000) t(i) WHERE mod(i, 7) = 3) AS slow"
for table, seconds in (("nowhere", 0), (slow, 2)):
    try:
        read(table, queryTimeout=seconds).collect()
    except Exception as error:
        print(str(getattr(error, "java_exception", error)).splitlines()[0])
"""


@pytest.mark.spark
@pytest.mark.skipif(
    not JAR.exists(), reason="PostgreSQL's JDBC driver is not there: scripts/setup --engines"
)
def test_spark_reads_a_table_by_jdbc(doors: Doors) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SPARK, str(JAR), str(doors.door.port), WRITE],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "TZ": "UTC"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    *found, nowhere, slow = done.stdout.splitlines()
    assert found == [
        "[('time', 'timestamp'), ('n', 'bigint'), ('s', 'string')]",
        "2026-01-01 00:00:00",
        "10 499500",
        "1000",
        "['flights', 'people', 'salaries']",
        "[('id', 'bigint'), ('name', 'string'), ('ok', 'boolean'), ('raw', 'binary')]",
        "[(0, 'row 0'), (2, 'row 2')]",
        "[('max(s)', 'row 999999'), ('sum(i)', 499999500000)]",
    ]
    assert "nowhere" in nowhere, nowhere
    assert "cancel" in slow, slow


@pytest.mark.skipif(
    not PYTHON.exists() or PSQL is None,
    reason="the engines or psql are not installed: scripts/setup --engines",
)
def test_the_commands_of_the_guide_run_as_printed(tmp_path: Path) -> None:
    make_flights(tmp_path)
    found = blocks("docs/guides/postgres.md")
    (serve,) = found[0].text.splitlines()
    command = serve.replace("8080", "0").replace("5432", "0").split()
    blockstore = ROOT / ".venv" / "bin" / command[0]
    with subprocess.Popen(
        [blockstore, *command[1:]], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as gateway:
        try:
            assert gateway.stdout is not None
            port = gateway.stdout.readline().strip().rpartition(":")[2]
            outputs: list[str] = []
            for block in found[1:]:
                text = block.text.replace("5432", port)
                run = ["sh", "-ec", text] if block.language == "sh" else [PYTHON, "-c", text]
                done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=60)
                assert done.returncode == 0, f"{text}\n{done.stderr}"
                outputs.append(done.stdout)
        finally:
            gateway.terminate()
            gateway.wait(30)
    assert "flights" in outputs[0]
    assert outputs[1:] == ["[('B6', 1), ('UA', 1)]\n", "3\n", "3\n"]
    assert (tmp_path / "flights.csv").read_text().splitlines()[0] == "carrier,origin"


def make_flights(folder: Path) -> None:
    rows = pa.table({"carrier": ["UA", "B6", "B6"], "origin": ["JFK", "JFK", "EWR"]})
    bs.create(f"{folder}/lake/flights", schema=rows.schema).append(rows)
