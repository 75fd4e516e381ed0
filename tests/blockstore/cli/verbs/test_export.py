"""``blockstore export``."""

from __future__ import annotations

import json
from pathlib import Path

from tests.blockstore.cli.conftest import Command


def test_iceberg_metadata_is_written_and_named(blockstore: Command, lake: str) -> None:
    url = f"{lake}/items"
    blockstore("create", url, "--schema", "sku:string, n:int", "--key", "sku")
    for n in (1, 2):
        rows = Path(lake) / f"{n}.csv"
        rows.write_text(f"sku,n\na,{n}\nb,2\n")
        blockstore("upsert", url, str(rows))
    said, where = blockstore("export", url).out.splitlines()
    assert said == "version 3 as iceberg: 1 file"
    assert where.startswith("file://")
    assert where.endswith(".metadata.json")
    found = json.loads(blockstore("export", url, "--json").out)
    assert found == {"version": 3, "metadata": where, "files": 1, "deletes": 0, "written": 0}
    assert "no problems found" in blockstore("verify", url).out


def test_a_delta_log_is_written(blockstore: Command, lake: str) -> None:
    url = f"{lake}/items"
    blockstore("create", url, "--schema", "sku:string, n:int", "--key", "sku")
    for text in ("sku,n\na,1\nb,2\n", "sku,n\na,3\n"):
        rows = Path(lake) / "rows.csv"
        rows.write_text(text)
        blockstore("upsert", url, str(rows))
    said, where = blockstore("export", url, "--to", "delta").out.splitlines()
    assert said == "version 3 as delta: 2 files without 1 former row"
    assert where.endswith("/items")
    assert "no problems found" in blockstore("verify", url).out
