"""How fast a command starts, held by what it loads: a clock would tell of the machine."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

BINARY = Path(sys.executable).parent / "blockstore"

HEAVY = {"boto3", "fastapi", "obstore", "pandas", "polars", "pyspark", "sqlglot", "starlette", "uvicorn"}
"""Packages that take long to load, and that no command here uses."""
ENGINES = {"duckdb", "numpy", "pyarrow"}
OURS = {"blockstore", "compactor", "reader", "spark"}


def loaded(*words: str, code: int = 0) -> list[str]:
    """The modules that the command loads, as Python itself tells them."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", BINARY, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr[-2000:]
    names = re.findall(r"^import time: +\d+ \| +\d+ \| *(\S+)$", done.stderr, flags=re.MULTILINE)
    assert "blockstore.cli.main" in names
    return names


def packages(modules: Sequence[str]) -> set[str]:
    """Those of which a part was loaded: a package that was sought in vain is told as well."""
    return {name.partition(".")[0] for name in modules if "." in name}


@pytest.mark.parametrize("words", [("--help",), ("--version",)])
def test_the_overview_loads_no_engine_and_draws_nothing(words: tuple[str, ...]) -> None:
    modules = loaded(*words)
    assert packages(modules).isdisjoint({*HEAVY, *ENGINES, "rich", "docstring_parser"})
    assert len([name for name in modules if name.partition(".")[0] in OURS]) <= 22


@pytest.mark.parametrize("verb", ["query", "serve", "compact"])
def test_the_help_of_a_rooms_verb_loads_no_engine(verb: str) -> None:
    assert packages(loaded(verb, "--help")).isdisjoint({*HEAVY, *ENGINES})


def test_a_verb_of_the_foundation_loads_no_room(lake: str) -> None:
    assert packages(loaded("ls", lake, code=1)).isdisjoint({*HEAVY, "duckdb", "compactor", "reader", "spark"})


def test_a_query_loads_what_it_needs_and_nothing_that_changes_or_serves(flights: str) -> None:
    modules = loaded("query", flights, "select count(*) from flights")
    assert packages(modules).isdisjoint({*HEAVY, "compactor", "spark"})
    unwanted = {
        "blockstore.operations.delete",
        "blockstore.operations.overwrite",
        "blockstore.operations.restore",
        "blockstore.operations.writer",
        "pyarrow.csv",
        "pyarrow.dataset",
        "reader.query.workers",
        "reader.tables.tables",
    }
    assert unwanted.isdisjoint(modules)
    assert len([name for name in modules if name.partition(".")[0] in OURS]) <= 190
