"""Engines read and write a lake on an S3 server with nothing but the gateway's URL and a token: the
catalog gives them the keys."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import blockstore as bs
from blockstore.reader.iceberg.storage import Storage
from blockstore.reader.settings import TableSettings
from tests.engines.test_iceberg import PYTHON
from tests.reader.http.gateways import READ, SCHEMA, WRITE, rows_of, serving, settings

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not PYTHON.exists(), reason="the engines are not installed: scripts/setup --engines"
    ),
]

PROGRAM = """
import json, sys
from sessions import duckdb_with
import polars
from pyiceberg.catalog import load_catalog

uri, reads, writes = sys.argv[1:]
reader = load_catalog("lake", type="rest", uri=uri, token=reads).load_table("lake.flights")
rows = reader.scan(row_filter="n < 3").to_arrow()
table = load_catalog("lake", type="rest", uri=uri, token=writes).load_table("lake.flights")
table.append(rows)
table.delete("n >= 90")
found = {"pyiceberg": table.scan().to_arrow().num_rows}
reader.refresh()
keys = {name: value for name, value in reader.io.properties.items() if name.startswith("s3.")}
found["polars"] = len(polars.scan_iceberg(reader, storage_options=keys).collect())
connection = duckdb_with("httpfs", "avro", "iceberg")
connection.execute(f"CREATE SECRET (TYPE iceberg, TOKEN '{reads}')")
connection.execute(f"ATTACH '' AS lake (TYPE iceberg, ENDPOINT '{uri}')")
found["duckdb"] = connection.execute("SELECT count(*) FROM lake.lake.flights").fetchone()[0]
print(json.dumps(found))
"""


def test_engines_need_no_keys_of_their_own(s3_url: str, tmp_path: Path) -> None:
    table = bs.create(f"{s3_url}/lake/flights", schema=SCHEMA, time_column="time", sort_by=["n"])
    table.append(rows_of(range(100)))
    keys = tmp_path / "keys.json"
    keys.write_text(
        json.dumps(
            {
                "s3.endpoint": os.environ["AWS_ENDPOINT_URL"],
                "s3.access-key-id": os.environ["AWS_ACCESS_KEY_ID"],
                "s3.secret-access-key": os.environ["AWS_SECRET_ACCESS_KEY"],
                "s3.region": "us-east-1",
                "client.region": "us-east-1",
                "s3.path-style-access": "true",
            }
        )
    )
    url = f"{s3_url}/lake"
    asked = settings(url, tmp_path, tables=TableSettings(urls=(url,)))
    bare = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    with serving(replace(asked, engines={"lake": Storage(read=keys)})) as served:
        done = subprocess.run(
            [PYTHON, "-c", PROGRAM, f"{served.url}/iceberg", READ, WRITE],
            capture_output=True, text=True, timeout=120,
            env={**bare, "PYTHONPATH": str(Path(__file__).parent)},
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == dict.fromkeys(
        ("pyiceberg", "polars", "duckdb"), 93
    )
    table.poll()
    assert table.snapshot().count() == 93
