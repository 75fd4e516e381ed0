"""Foreign engines read what is exported as Delta, and Delta's writers refuse it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.compactor.run.once import compact_once
from blockstore.compactor.settings import Settings
from blockstore.errors import Invalid
from blockstore.export.delta.export import export_delta
from blockstore.scan.view import TableSnapshot
from tests.engines.delta_clients import ENGINES
from tests.engines.forms import lines
from tests.engines.random_tables import random_table
from tests.engines.test_iceberg import PYTHON

TABLES = int(os.environ.get("BLOCKSTORE_ENGINE_TABLES", "8"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not PYTHON.exists(), reason="the engines are not installed: scripts/setup --engines"
    ),
]


def asked(engine: str, *folders: str) -> dict[str, Any]:
    done = subprocess.run(
        [PYTHON, Path(__file__).parent / "delta_clients.py", engine, *folders],
        capture_output=True, text=True, timeout=120, env={**os.environ, "TZ": "UTC"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TableSnapshot]:
    """Versions of random tables of which Delta can read every column, by ``FOLDER@VERSION``: the
    newest one, and those that have a tag."""
    folder, made = tmp_path_factory.mktemp("delta"), {}
    newest: set[str] = set()

    def export(table: bs.Table) -> str | None:
        try:
            done = export_delta(table)
        except Invalid:
            with pytest.raises(Invalid, match="when merges have rewritten them"):
                export_delta(table)
            return None
        made[f"{done.metadata}@{done.version}"] = table.snapshot()
        return f"{done.metadata}@{done.version}"

    for seed in range(TABLES):
        table = random_table(f"{folder}/t{seed}", seed, labelled=seed % 2 > 0, tagged=export)
        newest |= {export(table) or ""} - {""}
    assert len(newest) >= TABLES // 3
    assert len(made) >= 2 * TABLES
    return made


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_returns_the_rows_or_refuses(
    exported: dict[str, TableSnapshot], engine: str
) -> None:
    found = asked(engine, *exported)
    read = 0
    for version, shown in exported.items():
        if isinstance(found[version], str):
            assert engine == "polars", found[version]
            assert shown.snapshot.columns.labels
            assert "columnMapping" in found[version]
            continue
        assert found[version] == lines(shown.scan().to_table()), version
        read += 1
    assert read > 0


def test_deltas_writer_and_vacuum_refuse_and_change_nothing(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64())])
    table = bs.create(f"{tmp_path}/t", schema=schema, key="id")
    for _ in range(2):
        table.upsert(pa.table({"id": [1, 2, 3]}, schema))
    compact_once(table, Settings(tier_blocks=2))
    export_delta(table)
    before = {
        path: path.read_bytes() for path in sorted((tmp_path / "t").rglob("*")) if path.is_file()
    }
    (refused,) = asked("writing", f"{tmp_path}/t").values()
    # VACUUM takes what the log has removed, which is nothing; one of all files is refused.
    assert refused == [*["CommitFailedError"] * 4, "done"]
    after = {
        path: path.read_bytes() for path in sorted((tmp_path / "t").rglob("*")) if path.is_file()
    }
    assert after == before
