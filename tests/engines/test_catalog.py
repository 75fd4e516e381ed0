"""Foreign engines read a lake with nothing but the gateway's URL and a token."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import blockstore as bs
from blockstore.reader.settings import TableSettings
from tests.engines.catalog_clients import ENGINES
from tests.engines.random_tables import each_in_iceberg, random_table
from tests.engines.test_iceberg import PYTHON
from tests.reader.http.gateways import READ, Served, serving, settings

TABLES = int(os.environ.get("BLOCKSTORE_ENGINE_TABLES", "7"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not PYTHON.exists(), reason="the engines are not installed: scripts/setup --engines"
    ),
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, dict[str, bs.Table]]]:
    folder = tmp_path_factory.mktemp("engines")
    tables = {f"t{seed}": random_table(f"{folder}/lake/t{seed}", seed) for seed in range(TABLES)}
    url = f"{folder}/lake?durable=false"
    with serving(settings(url, folder, tables=TableSettings(urls=(url,)))) as served:
        yield served, tables


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_returns_the_rows_of_every_table(
    lake: tuple[Served, dict[str, bs.Table]], engine: str
) -> None:
    served, tables = lake
    program = Path(__file__).parent / "catalog_clients.py"
    done = subprocess.run(
        [PYTHON, program, engine, f"{served.url}/iceberg", READ, "lake"],
        capture_output=True, text=True, timeout=280, env={**os.environ, "TZ": "UTC"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[:3000]
    found = json.loads(done.stdout.splitlines()[-1])
    assert set(found) == set(tables)
    for name, table in tables.items():
        assert found[name] == each_in_iceberg(table), name
