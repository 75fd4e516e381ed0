"""How fast a command starts, held by what it loads: a clock would tell of the machine."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

BINARY = Path(sys.executable).parent / "blockstore"

HEAVY = {
    "boto3",
    "fastapi",
    "obstore",
    "pandas",
    "polars",
    "pyspark",
    "sqlglot",
    "starlette",
    "uvicorn",
}
"""Packages that take long to load, and that no command here uses."""
ENGINES = {"duckdb", "numpy", "pyarrow"}


def loaded(*words: str, code: int = 0) -> list[str]:
    """The modules that the command loads, as Python itself tells them."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", BINARY, *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr[-2000:]
    names = re.findall(r"^import time: +\d+ \| +\d+ \| *(\S+)$", done.stderr, flags=re.MULTILINE)
    assert "blockstore.cli.main" in names
    return names


def packages(modules: Sequence[str]) -> set[str]:
    """Those of which a part was loaded: a package that was sought in vain is told as well.

    Our rooms count as packages.
    """
    return {name.removeprefix("blockstore.").partition(".")[0] for name in modules if "." in name}


@pytest.mark.parametrize("words", [("--help",), ("--version",)])
def test_the_overview_loads_no_engine_and_draws_nothing(words: tuple[str, ...]) -> None:
    modules = loaded(*words)
    assert packages(modules).isdisjoint({*HEAVY, *ENGINES, "cyclopts", "docstring_parser", "rich"})
    assert len([name for name in modules if name.partition(".")[0] == "blockstore"]) <= 14


@pytest.mark.parametrize("verb", ["query", "serve", "compact"])
def test_the_help_of_a_rooms_verb_loads_no_engine(verb: str) -> None:
    assert packages(loaded(verb, "--help")).isdisjoint({*HEAVY, *ENGINES})


def test_a_verb_of_the_foundation_loads_no_room(lake: str) -> None:
    assert packages(loaded("ls", lake, code=1)).isdisjoint(
        {*HEAVY, "duckdb", "compactor", "reader", "spark"}
    )


@pytest.mark.parametrize("words", [(), ("-o", "csv")])
@pytest.mark.parametrize(
    "sql", ["select count(*) from flights", "select sum(delay) from flights where origin = 'JFK'"]
)
def test_a_query_loads_what_it_needs_and_nothing_that_changes_or_serves(
    flights: str, sql: str, words: tuple[str, ...]
) -> None:
    modules = loaded("query", flights, sql, *words)
    assert packages(modules).isdisjoint({*HEAVY, "attr", "compactor", "cyclopts", "spark", "ulid"})
    unwanted = {
        "blockstore.format.block_writer",
        "blockstore.format.encoding",
        "blockstore.index.change",
        "blockstore.index.commit",
        "blockstore.lifecycle.catalog",
        "blockstore.lifecycle.list_path",
        "blockstore.lifecycle.upload",
        "blockstore.operations.delete",
        "blockstore.operations.diff",
        "blockstore.operations.overwrite",
        "blockstore.operations.restore",
        "blockstore.operations.writer",
        "numpy.ma",
        "pyarrow.compute",
        "pyarrow.dataset",
        "pyarrow.fs",
        "pyarrow.parquet",
        "blockstore.scan.page_rows",
        "blockstore.reader.cache",
        "blockstore.reader.query.runners.pool",
        "blockstore.reader.tables.tables",
        "rich.console",
        "ssl",
    }
    assert unwanted.isdisjoint(modules), sorted(unwanted & {*modules})
    assert ("pyarrow.csv" in modules) == bool(words)
    assert len([name for name in modules if name.partition(".")[0] == "blockstore"]) <= 163
