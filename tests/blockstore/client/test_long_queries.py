"""Each of our clients fetches a million rows, and at Ctrl-C the gateway ends its query too."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reader.http.gateways import READ, Served, make_lake, serving, settings
from tests.reader.postgres.raw import until

MANY = "SELECT i AS n, 'row ' || i AS s FROM range(1_000_000) t(i)"
SLOW = "SELECT count(*) AS n FROM range(100_000_000_000) t(i) WHERE i % 7 = 3"
CLIENTS = {
    "Client": """
from blockstore.client import Client
with Client(url, token=token) as client:
    ask = lambda sql: client.sql(sql).to_arrow().num_rows
""",
    "dbapi": """
from blockstore.client import dbapi
with dbapi.connect(url, token) as connection:
    ask = lambda sql: len(connection.cursor().execute(sql).fetchall())
""",
    "SQLAlchemy": """
import contextlib
import sqlalchemy as sa
engine = sa.create_engine(url.replace("http://", f"blockstore://{token}@") + "/lake")
def ask(sql):
    with engine.connect() as connection:
        return len(connection.execute(sa.text(sql)).fetchall())
with contextlib.nullcontext():
""",
}
PROGRAM = """
import sys
url, token, many, slow = sys.argv[1:]
{client}
    print(ask(many), flush=True)
    try:
        ask(slow)
    except KeyboardInterrupt:
        print("stopped", ask("SELECT 1"))
"""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("long")
    with serving(settings(make_lake(folder), folder)) as one:
        yield one


@pytest.mark.parametrize("client", CLIENTS)
def test_a_million_rows_are_fetched_and_ctrl_c_ends_a_query(gateway: Served, client: str) -> None:
    program = PROGRAM.format(client=CLIENTS[client])
    engine = gateway.gateway.engine
    with subprocess.Popen(
        [sys.executable, "-c", program, gateway.url, READ, MANY, SLOW],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    ) as asking:
        assert asking.stdout is not None
        assert asking.stdout.readline() == "1000000\n"
        assert until(lambda: engine.running() == 1)
        asking.send_signal(signal.SIGINT)
        said, _ = asking.communicate(timeout=60)
    assert (said, asking.returncode) == ("stopped 1\n", 0)
    assert until(lambda: engine.running() == 0)
