"""Foreign engines return the rows of an exported table: the newest version, and two with tags."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

import blockstore as bs
from blockstore.export.iceberg.export import export_iceberg
from tests.engines.clients import ENGINES
from tests.engines.random_tables import each_in_iceberg, random_table

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".engines-venv" / "bin" / "python"
TABLES = int(os.environ.get("BLOCKSTORE_ENGINE_TABLES", "5"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not PYTHON.exists(), reason="the engines are not installed: scripts/setup --engines"
    ),
]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bs.Table]:
    """Random tables, by the document of their export."""
    folder, made = tmp_path_factory.mktemp("iceberg"), {}
    for seed in range(TABLES):
        table = random_table(f"{folder}/t{seed}", seed)
        done = export_iceberg(table)
        assert done.version == table.snapshot().version
        made[done.metadata] = table
    return made


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_returns_the_rows_of_random_tables(
    exported: dict[str, bs.Table], engine: str
) -> None:
    done = subprocess.run(
        [PYTHON, Path(__file__).parent / "clients.py", engine, *exported],
        capture_output=True, text=True, timeout=240, env={**os.environ, "TZ": "UTC"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert set(found) == set(exported)
    for metadata, table in exported.items():
        assert found[metadata] == each_in_iceberg(table), metadata
