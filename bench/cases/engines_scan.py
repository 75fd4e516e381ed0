"""Foreign engines read our Iceberg export, and an Iceberg table that PyIceberg made of the same
rows in as many files: are the files as good for them, and the metadata as quick?"""

from __future__ import annotations

import statistics
import subprocess
import time
from pathlib import Path

import pyarrow.compute as pc

from bench.case import Case, Figures, Metric, Prepare, Task
from bench.cases.query import PREPARE_NAME, SIZES, prepare
from bench.peers.api import Unsupported

__all__ = ["ENGINES_SCAN"]

_PYTHON = Path(".engines-venv/bin/python")
_TIMES = 5
_DUCKDB = """
import sys, time
from pathlib import Path
import duckdb, duckdb_extension_avro, duckdb_extension_iceberg
connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
for module in (duckdb_extension_avro, duckdb_extension_iceberg):
    (extension,) = Path(module.__file__).parent.glob("**/*.duckdb_extension")
    connection.execute(f"LOAD '{extension}'")
for number in range(int(sys.argv[2]) + 1):
    started = time.perf_counter()
    groups = connection.execute(
        "SELECT origin, count(*), sum(value + ?) FROM iceberg_scan(?) GROUP BY ALL",
        [number, sys.argv[1]],
    ).fetchall()
    print(sum(group[1] for group in groups), time.perf_counter() - started)
"""


def measure(task: Task) -> Figures:
    """The group-by of all rows, by both engines, each warm once."""
    if not _PYTHON.exists():
        raise Unsupported("the engines are not there: run scripts/setup --engines")
    handle = task.peer.open(task.directory)
    metadata = handle.iceberg_metadata()
    handle.close()
    rows = task.sizes["blocks"] * task.sizes["rows"]
    return {
        "pyiceberg_ms": statistics.median(_by_pyiceberg(metadata, rows)) * 1e3,
        "duckdb_ms": statistics.median(_by_duckdb(metadata, rows)) * 1e3,
    }


def _by_pyiceberg(metadata: str, rows: int) -> list[float]:
    from pyiceberg.table import StaticTable  # here: no other bench has it in its process

    taken = []
    for number in range(_TIMES + 1):
        started = time.perf_counter()
        table = StaticTable.from_metadata(metadata)
        found = table.scan(selected_fields=("origin", "value")).to_arrow()
        found = found.set_column(1, "value", pc.add(found["value"], number))
        groups = found.group_by("origin").aggregate([("value", "count"), ("value", "sum")])
        taken.append(time.perf_counter() - started)
        _expect(pc.sum(groups["value_count"]).as_py(), rows)
    return taken[1:]


def _by_duckdb(metadata: str, rows: int) -> list[float]:
    done = subprocess.run(
        [str(_PYTHON), "-c", _DUCKDB, metadata, str(_TIMES)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    taken = []
    for line in done.stdout.splitlines():
        found, seconds = line.split()
        _expect(int(found), rows)
        taken.append(float(seconds))
    return taken[1:]


def _expect(found: int, expected: int) -> None:
    if found != expected:
        raise ValueError(f"{found} rows, expected {expected}")


ENGINES_SCAN = Case(
    name="engines_scan",
    sentence="PyIceberg and DuckDB group our Iceberg export, and PyIceberg's own table of the same "
    "rows",
    peers=("ours", "iceberg"),
    metrics=(
        Metric(name="pyiceberg_ms", unit="ms", title="by PyIceberg", higher_is_better=False),
        Metric(name="duckdb_ms", unit="ms", title="by DuckDB", higher_is_better=False),
    ),
    sizes=SIZES,
    rounds=3,
    prepare=Prepare(name=PREPARE_NAME, run=prepare),
    measure=measure,
    reference="iceberg",
)
