"""Foreign engines read a lake with nothing but the gateway's URL and a token."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import blockstore as bs
from blockstore.reader.settings import TableSettings
from tests.engines.catalog_clients import ENGINES
from tests.engines.forms import lines
from tests.engines.random_tables import LABELS, each_in_iceberg, random_table, rows_in_iceberg
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
        assert found[name] == EXPECTED.get(engine, each_in_iceberg)(table), name


def _without_values_of_labels(table: bs.Table) -> list[list[str]]:
    """Sail 0.7 has the columns of labels, and null in them."""
    empty = []
    for rows in rows_in_iceberg(table):
        for at, name in enumerate(rows.schema.names):
            if name in LABELS:
                rows = rows.set_column(at, name, pa.nulls(len(rows), pa.string()))
        empty.append(lines(rows))
    return empty


def _with_the_newest_labels(table: bs.Table) -> list[list[str]]:
    """Daft 0.7 refuses a tag that lacks a label of the newest version."""
    newest, *tagged = rows_in_iceberg(table)
    labels = LABELS & set(newest.schema.names)
    refused = lines(pa.table({"refused": ["Could not find field with id: N"]}))
    return [
        lines(newest),
        *(lines(rows) if labels <= set(rows.schema.names) else refused for rows in tagged),
    ]


EXPECTED = {"sail": _without_values_of_labels, "daft": _with_the_newest_labels}
"""What an engine returns that lacks something."""
