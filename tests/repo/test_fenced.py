"""Every fenced block of every page is run here, or stands below with the reason why not.

A page's blocks run in their order, in a folder that its stage has prepared. A new block that is
neither run nor named fails.
"""

from __future__ import annotations

import re
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import blockstore as bs
from tests.repo.fenced import ROOT, Block, Page, blocks, pages, running

DRAWING = "a drawing"
README = "run by tests/repo/test_readme.py"
DRILL = "run by tests/repo/test_operations_page.py"
GUIDE = "run by tests/spark/test_guide.py"
STATEMENTS = "run by tests/spark/test_statements.py"
DATASET = "run by tests/blockstore/scan/test_dataset.py"
IMPORT = "run by tests/reader/importing/test_import.py"
EXPORT = "run by tests/blockstore/cli/verbs/test_export.py"
KEYS = "run by tests/engines/test_storage.py, on an S3 server"
FLIGHT = "run by tests/engines/test_flight.py, in an environment of the engines"
NOTEBOOK = "run by tests/blockstore/notebook/test_notebook.py"
BI = "run by tests/engines/bi/run.py, in a long series"
IBIS = "done by the client ibis of tests/engines/test_postgres.py"
POSTGRES = "run by tests/engines/test_postgres.py, against a gateway on a free port"
INSTALLED = "what it installs is what is tested: scripts/setup has done it"
TUTORIALS = ("docs/tutorials/devices.md", "docs/tutorials/spark.md")

ELSEWHERE = {
    ("README.md", "scripts/demo"): "the demo takes minutes, and scripts/test is what runs this",
    ("README.md", "  writers (any number)"): DRAWING,
    ("README.md", "import blockstore as bs"): README,
    ("README.md", "blockstore query lake/readings"): README,
    ("README.md", "from pyspark.sql import SparkSession"): README,
    ("CONTRIBUTING.md", "scripts/prove"): "it takes hours",
    ("docs/architecture.md", " Spark jobs, Python, devices"): DRAWING,
    ("docs/architecture.md", "flights/"): DRAWING,
    ("docs/format.md", "<table>/"): DRAWING,
    ("docs/tutorials/analyst.md", "pip install"): INSTALLED,
    ("docs/operations.md", "blockstore history drill/t"): DRILL,
    ("docs/operations.md", "blockstore replicate drill/t backup/t"): DRILL,
    ("docs/operations.md", "blockstore create drill/t"): DRILL,
    ("docs/guides/cli.md", "blockstore repair lake/flights --deep"): (
        "each line mends a table that is damaged in a way of its own: run by "
        "tests/blockstore/cli/verbs/test_care.py and "
        "tests/blockstore/care/repair/test_repair.py"
    ),
    (
        "docs/guides/changes.md",
        "changes = spark.readStream",
    ): "run on a folder by tests/spark/feed/test_changes.py",
    ("docs/guides/engines.md", "pip install"): INSTALLED,
    ("docs/guides/engines.md", '[engines."lake"]'): KEYS,
    ("docs/guides/engines.md", '{\n  "s3.endpoint"'): KEYS,
    ("docs/guides/engines.md", "blockstore import"): IMPORT,
    ("docs/guides/engines.md", "import blockstore as bs"): DATASET,
    ("docs/guides/engines.md", "blockstore export lake"): EXPORT,
    ("docs/guides/flight.md", "pip install"): INSTALLED,
    ("docs/guides/flight.md", "from adbc_driver_flightsql"): FLIGHT,
    ("docs/guides/flight.md", "import pandas"): FLIGHT,
    ("docs/guides/flight.md", "past = "): FLIGHT,
    ("docs/guides/flight.md", "cursor.execute"): FLIGHT,
    ("docs/guides/flight.md", "import pyarrow"): FLIGHT,
    ("docs/guides/postgres.md", "blockstore serve lake"): POSTGRES,
    ("docs/guides/postgres.md", "psql"): POSTGRES,
    ("docs/guides/postgres.md", "import psycopg"): POSTGRES,
    ("docs/guides/postgres.md", "import sqlalchemy"): POSTGRES,
    ("docs/guides/postgres.md", "import adbc"): POSTGRES,
    ("docs/guides/bi.md", "postgresql+psycopg2"): BI,
    ("docs/guides/bi.md", "# profiles.yml"): BI,
    ("docs/guides/bi.md", "{% materialization"): BI,
    ("docs/guides/python.md", "pip install"): INSTALLED,
    ("docs/guides/python.md", "%load_ext"): NOTEBOOK,
    ("docs/guides/python.md", "%%blockstore\nselect item"): NOTEBOOK,
    ("docs/guides/python.md", "least = 5"): NOTEBOOK,
    ("docs/guides/python.md", "%%blockstore -o many"): NOTEBOOK,
    ("docs/guides/python.md", "import ibis"): IBIS,
    ("docs/guides/python.md", "from pathlib"): "tried by hand with dlt 1.31",
    ("docs/guides/gateway.md", '[tokens."grafana"]'): "read by tests/reader/test_settings.py",
    ("docs/guides/gateway.md", '[policies."own-orders"]'): "read by tests/reader/test_settings.py",
    ("docs/guides/gateway.md", '[issuers."company"]'): "read by tests/reader/test_settings.py",
    ("docs/guides/gateway.md", '[peers]\nself = "https://gateway-1'): (
        "read by tests/reader/test_settings.py"
    ),
    ("docs/guides/gateway.md", '[peers]\nself = "https://10'): (
        "read by tests/reader/test_settings.py"
    ),
    ("docs/guides/gateway.md", '{"event"'): "compared by tests/reader/doors/test_audit.py",
    ("docs/guides/gateway.md", "blockstore create logs/audit"): (
        "run with a gateway's own log by tests/reader/doors/test_audit.py"
    ),
    ("docs/guides/spark.md", "pip install"): INSTALLED,
    ("docs/guides/spark.md", "import blockstore as bs"): GUIDE,
    ("docs/guides/spark.md", "df.write.format"): GUIDE,
    ("docs/guides/spark.md", "bs_spark.overwrite"): GUIDE,
    ("docs/guides/spark.md", "from pyspark.sql import functions as sf"): GUIDE,
    ("docs/guides/spark.md", "flights = bs_spark.read"): GUIDE,
    ("docs/guides/spark.md", "print(bs_spark.how"): GUIDE,
    ("docs/guides/spark.md", "CREATE TEMPORARY VIEW"): "run by tests/spark/test_catalog.py",
    ("docs/guides/spark.md", "spark.conf.set"): GUIDE,
    ("docs/guides/spark.md", "spark-submit --conf"): GUIDE,
    ("docs/guides/spark.md", "query = ("): GUIDE,
    ("docs/guides/spark.md", "upserts = ("): GUIDE,
    ("docs/guides/spark.md", "bs_spark.upsert"): GUIDE,
    ("docs/guides/spark.md", "customers.repartition"): GUIDE,
    ("docs/guides/spark.md", "closed = customers"): GUIDE,
    ("docs/guides/spark.md", "news = spark.createDataFrame"): STATEMENTS,
    ("docs/guides/spark.md", "news.createOrReplaceTempView"): STATEMENTS,
    ("docs/guides/spark.md", "def merge"): STATEMENTS,
    ("docs/guides/spark.md", "stream.writeStream.foreachBatch"): GUIDE,
    ("docs/guides/spark.md", "mkdir -p env"): GUIDE,
    (
        "docs/guides/spark.md",
        "blockstore compact",
    ): "run on a folder by tests/spark/merging/test_engine.py",
    ("docs/guides/sql.md", "create table if not exists"): "it is the file that the next block runs",
    ("docs/guides/spark.md", "echo 'from blockstore.cli.main"): GUIDE,
}
"""The page and the beginning of the block, and why it is not run here."""


def elsewhere(block: Block) -> str | None:
    """Why the block is not run here; None for one that is."""
    if block.page == "docs/format.md" and block.language.startswith("json"):
        return "decoded by tests/repo/test_format_page.py"
    if block.page.startswith("docs/guides/engines/"):
        return "run by tests/engines/test_pages.py, in an environment of the engines"
    if block.page in TUTORIALS:
        return "run by tests/repo/test_tutorials.py"
    for (page, begins), reason in ELSEWHERE.items():
        if block.page == page and block.text.startswith(begins):
            return reason
    return None


HERE = sorted(page for page in pages() if any(elsewhere(block) is None for block in blocks(page)))


def flights(rows: int, month: int) -> pa.Table:
    schema = pa.schema(
        [
            ("origin", pa.string()),
            ("carrier", pa.string()),
            ("dep_delay", pa.int64()),
            ("time_hour", pa.timestamp("us", "UTC")),
        ]
    )
    start = 1_356_998_400_000_000 + (month - 1) * 31 * 86_400_000_000
    return pa.table(
        {
            "origin": [("JFK", "EWR", "LGA")[row % 3] for row in range(rows)],
            "carrier": [("UA", "DL")[row % 2] for row in range(rows)],
            "dep_delay": [None if row % 7 == 0 else row for row in range(rows)],
            "time_hour": pa.array(
                [start + row * 3_600_000_000 for row in range(rows)], pa.timestamp("us", "UTC")
            ),
        },
        schema=schema,
    )


def csv(rows: pa.Table, path: Path) -> None:
    pacsv.write_csv(rows, path)


def a_lake(folder: Path) -> bs.Table:
    """``lake/flights`` with 42 versions, the 40th the first of the last three writes; and
    ``lake/carriers``."""
    table = bs.create(
        str(folder / "lake" / "flights"),
        schema=flights(1, 1).schema,
        time_column="time_hour",
        sort_by=["origin", "time_hour"],
    )
    for _ in range(41):
        table.append(flights(6, 1))
    table.tag("q3-close", version=40)
    carriers = pa.table({"carrier": ["UA", "DL"], "name": ["United", "Delta"]})
    bs.create(str(folder / "lake" / "carriers"), schema=carriers.schema).append(carriers)
    return table


def readings(folder: Path) -> pa.Table:
    rows = pa.table({"sensor": ["a", "b"], "value": [1.0, 2.0]})
    bs.create(str(folder / "store" / "readings"), schema=rows.schema).append(rows)
    return rows


def stage_operations(folder: Path) -> Page:
    a_lake(folder)
    shutil.copytree(ROOT / "configs", folder / "configs")
    with (folder / "configs" / "reader.toml").open("a") as file:
        file.write(f'\n[tokens.somebody]\nsha256 = "{"0" * 64}"\nscopes = ["read"]\n')
    return Page(folder, {"s3://bucket/lake": "lake", "/etc/blockstore/": "configs/"})


def stage_cli(folder: Path) -> Page:
    """The page makes ``lake/flights`` itself, from these files; the rest of its story is told by
    ``between``."""
    pq.write_table(flights(100, 1).slice(0, 0), folder / "flights.parquet")
    csv(flights(100, 1), folder / "january.csv")
    pq.write_table(flights(100, 2), folder / "february.parquet")
    rows = readings(folder)
    csv(rows, folder / "today.csv")
    csv(rows, folder / "tomorrow.csv")
    shutil.copytree(ROOT / "configs", folder / "configs")
    (folder / "reader.toml").write_text(
        f'[tables]\nurls = ["lake"]\n[tokens.somebody]\nsha256 = "{"0" * 64}"\nscopes = ["read"]\n'
    )
    here = {"s3://lake": "store", "2024-01-31T12": "2999-01-31T12"}
    # The same commands, over in seconds.
    return Page(
        folder, {**here, "--steps 2000": "--steps 200", "--seeds 50": "--seeds 2 --steps 200"}
    )


def stage_gateway(folder: Path) -> Page:
    page = stage_operations(folder)
    csv(flights(20, 3), folder / "march.csv")
    # The page's later blocks ask the gateway that lets everybody in, which is the first that it
    # starts.
    return Page(
        folder, {**page.instead, "blockstore serve --config configs/reader.toml s3://lake": OPEN}
    )


OPEN = "blockstore serve lake --no-auth"


def stage_devices(folder: Path) -> Page:
    rows = readings(folder)
    return Page(folder, {"s3://lake": "store"}, {"rows": rows})


def stage_columns(folder: Path) -> Page:
    header = "id,name,age\n"
    (folder / "good.csv").write_text(f"{header}syn1,Ada,36\n")
    (folder / "bad.csv").write_text(f"{header}syn1,Ada,36\nsyn2,Bo,212\n")
    (folder / "letters.csv").write_text("who,scan\nann,\n")
    (folder / "scan.pdf").write_bytes(b"%PDF")
    return Page(folder)


def stage_rows(folder: Path) -> Page:
    (folder / "people.csv").write_text("name,born,paid\nann,1990-01-02,1\nbob,,12.50\ncat,,\n")
    (folder / "stock.csv").write_text("shop,item,count\nberlin,nut,5\nparis,nut,1\n")
    (folder / "more.csv").write_text("shop,item,count\nberlin,nut,7\nparis,bolt,2\n")
    return Page(folder)


def stage_changes(folder: Path) -> Page:
    (folder / "monday.csv").write_text("item,count\nnut,5\nbolt,1\n")
    (folder / "tuesday.csv").write_text("item,count\nnut,4\nbolt,0\n")
    return Page(folder, {}, {"pa": pa})


def stage_sql(folder: Path) -> Page:
    script = next(one for one in blocks("docs/guides/sql.md") if one.language == "sql")
    (folder / "night.sql").write_text(script.text)
    return Page(folder)


def stage_flight(folder: Path) -> Page:
    page = stage_operations(folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # HTTP listens where the stage says, so that this waits for it.
    instead = {"31337": str(port), "--port 8080 ": f"--port {page.port} "}
    made = Page(folder, instead)
    made.port = page.port
    return made


def stage_python(folder: Path) -> Page:
    a_lake(folder)
    return Page(folder)


STAGES: dict[str, Callable[[Path], Page]] = {
    "docs/operations.md": stage_operations,
    "docs/guides/cli.md": stage_cli,
    "docs/guides/columns.md": stage_columns,
    "docs/guides/rows.md": stage_rows,
    "docs/guides/changes.md": stage_changes,
    "docs/guides/sql.md": stage_sql,
    "docs/guides/devices.md": stage_devices,
    "docs/tutorials/analyst.md": Page,
    "docs/scale.md": Page,
    "docs/guides/gateway.md": stage_gateway,
    "docs/guides/flight.md": stage_flight,
    "docs/guides/python.md": stage_python,
}


def between(page: Page, block: Block) -> None:
    """What has happened to the table of the page about the command line before this block."""
    if block.page != "docs/guides/cli.md" or "lake/flights" not in block.text:
        return
    table_folder = page.folder / "lake" / "flights"
    if not table_folder.exists():
        return
    table = bs.open(str(table_folder))
    while table.poll() < 42:
        block_of = table.append(flights(6, 3))
        page.instead = {**page.instead, "01KA5C3M2Q0V8E6R9T1W4Y7ZBN": str(block_of.ulid)}
    if "q3-close" in block.text:
        table.tag("q3-close", version=40)
        carriers = pa.table({"carrier": ["UA", "DL"], "name": ["United", "Delta"]})
        bs.create(str(page.folder / "lake" / "carriers"), schema=carriers.schema).append(carriers)


def test_every_block_is_run_or_has_a_reason() -> None:
    assert set(STAGES) == set(HERE), "a page with blocks to run has a stage; others need none"
    fences = {
        page: len(re.findall(r"^ *```", (ROOT / page).read_text(), flags=re.MULTILINE))
        for page in pages()
    }
    assert {page: 2 * len(blocks(page)) for page in fences} == fences, (
        "a fence that is not closed, or not seen"
    )


def test_every_reason_is_about_a_block_that_is_there_and_a_file_that_is() -> None:
    for page, begins in ELSEWHERE:
        assert len([block for block in blocks(page) if block.text.startswith(begins)]) == 1, (
            page,
            begins,
        )
    for reason in ELSEWHERE.values():
        assert [
            path for path in re.findall(r"tests/[\w/.]*\w", reason) if not (ROOT / path).exists()
        ] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", HERE)
def test_the_blocks_of_a_page_run_in_their_order(name: str, tmp_path: Path) -> None:
    stage = STAGES.get(name)
    assert stage is not None, (
        f"{name} has blocks that nothing runs: {[str(one) for one in blocks(name)]}"
    )
    with running(stage(tmp_path)) as page:
        for block in blocks(name):
            if elsewhere(block) is None:
                between(page, block)
                page.run(block)
