"""Programs of pyarrow, Polars and DuckDB over a dataset: a million rows, Ctrl-C, parameters, and
what a wrong name says."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import blockstore as bs

MANY = 1_000_000
SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])
PROGRAM = """
import signal, sys
import pyarrow.compute as pc
import blockstore as bs

held = bs.open(sys.argv[1]).snapshot().dataset()
{client}
print(held.schema.names, *total(), flush=True)
print(few(3), flush=True)
try:
    wrong()
except Exception as error:
    print(type(error).__name__, " ".join(str(error).split()), flush=True)
try:
    print("begins", flush=True)
    while True:
        slow()
except BaseException as error:
    caught = error
# Polars raises it for its own threads, and Python once more, perhaps a moment later: no call here
# is outside of a try.
try:
    few(2)
except KeyboardInterrupt:
    pass
try:
    few(2)
except KeyboardInterrupt:
    pass
assert "nterrupt" in repr(caught), caught  # DuckDB has an error of its own, which speaks of it
print("stopped", few(2))
"""
CLIENTS = {
    "pyarrow": """
def total():
    rows = held.to_table()
    return rows.num_rows, pc.sum(rows["n"])
def few(most):
    return held.to_table(filter=pc.field("n") < most)["s"].to_pylist()
def wrong():
    held.to_table(columns=["nope"])
slow = total
""",
    "polars": """
import polars
lazy = polars.scan_pyarrow_dataset(held)
def total():
    rows = lazy.collect()
    return rows.height, rows["n"].sum()
def few(most):
    return lazy.filter(polars.col("n") < most).select("s").collect()["s"].to_list()
def wrong():
    lazy.select("nope").collect()
slow = total
""",
    "duckdb": """
import duckdb
own = duckdb.connect()
def total():
    return own.execute("SELECT count(*), sum(n)::BIGINT FROM held").fetchone()
def few(most):
    return [s for (s,) in own.execute("SELECT s FROM held WHERE n < ?", [most]).fetchall()]
def wrong():
    own.execute("SELECT nope FROM held")
def slow():
    # DuckDB looks for a name among Python's variables, and reports one that Ctrl-C kept it from
    # finding as missing: it has the name before.
    own.execute("SELECT count(*) FROM named a, named b WHERE (a.n + b.n) % 7 = 3").fetchall()
own.register("named", held)
""",
}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"{tmp_path_factory.mktemp('many')}/t?durable=false"
    made = bs.create(url, schema=SCHEMA)
    for first in range(0, MANY, MANY // 4):
        numbers = range(first, first + MANY // 4)
        columns = [list(numbers), [f"row {number}" for number in numbers]]
        made.append(pa.table(columns, schema=SCHEMA))
    return url


@pytest.mark.parametrize("client", CLIENTS)
def test_a_million_rows_a_condition_a_wrong_name_and_ctrl_c(table: str, client: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(client=CLIENTS[client]), table],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    ) as asking:
        assert asking.stdout is not None
        said = asking.stdout.readline
        assert said() == f"['n', 's'] {MANY} {MANY * (MANY - 1) // 2}\n"
        assert said() == "['row 0', 'row 1', 'row 2']\n"
        assert "nope" in (wrong := said()), wrong
        assert said() == "begins\n"
        asking.send_signal(signal.SIGINT)
        rest, _ = asking.communicate(timeout=60)
    assert (rest, asking.returncode) == ("stopped ['row 0', 'row 1']\n", 0)
