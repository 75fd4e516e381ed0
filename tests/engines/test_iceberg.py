"""Foreign engines return the rows of an exported table: the newest version, and one with a tag."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from blockstore.export.iceberg.export import export_iceberg
from tests.engines.clients import ENGINES
from tests.engines.forms import lines
from tests.engines.random_tables import newest_in_iceberg, random_table

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".engines-venv" / "bin" / "python"
TABLES = int(os.environ.get("BLOCKSTORE_ENGINE_TABLES", "5"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not PYTHON.exists(), reason="the engines are not installed: scripts/setup --engines"
    ),
]


def read(engine: str, metadata: str, *tag: str) -> list[str]:
    done = subprocess.run(
        [PYTHON, Path(__file__).parent / "clients.py", engine, metadata, *tag],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


@pytest.mark.parametrize("seed", range(TABLES))
def test_every_engine_returns_the_rows_of_a_random_table(seed: int, tmp_path: Path) -> None:
    table = random_table(str(tmp_path / "t"), seed)
    done = export_iceberg(table)
    now, then = table.snapshot(), table.snapshot(tag="then")
    assert done.version == now.version
    for engine in ENGINES:
        assert read(engine, done.metadata) == lines(newest_in_iceberg(table)), engine
        found = read(engine, done.metadata, "then")
        assert found == lines(then.scan().to_table()), f"{engine}, at the tag"
