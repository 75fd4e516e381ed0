"""DuckDB with its extension httpfs on the bare files of ours.

The extension is a package for one release of DuckDB, so both have an environment of their own
(``scripts/bench`` makes it from ``bench/httpfs.lock``); nothing is fetched at run time.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.peers.api import Handle, Peer, Unsupported
from bench.peers.s3 import place

__all__ = ["CONTESTANTS", "DuckOnS3"]

PYTHON = Path(__file__).resolve().parents[3] / ".bench-venv-httpfs" / "bin" / "python"
VERSIONS = (
    "from importlib.metadata import version as v; "
    "print('duckdb', v('duckdb') + ', httpfs', v('duckdb-extension-httpfs'))"
)


class DuckOnS3Handle(Handle):
    def __init__(self, directory: Path) -> None:
        import duckdb

        self._connection: Any = duckdb.connect()
        self._connection.execute(f"LOAD '{_extension()}'")
        host = os.environ["AWS_ENDPOINT_URL"].removeprefix("http://")
        self._connection.execute(
            f"CREATE SECRET (TYPE s3, KEY_ID '{os.environ['AWS_ACCESS_KEY_ID']}', "
            f"SECRET '{os.environ['AWS_SECRET_ACCESS_KEY']}', "
            f"REGION '{os.environ['AWS_REGION']}', ENDPOINT '{host}', URL_STYLE 'path', "
            "USE_SSL false)"
        )
        self._files = f"read_parquet('{place.bare_url(directory)}/*.parquet')"

    def point_range(self, low: int, high: int) -> int:
        query = f"SELECT * FROM {self._files} WHERE id BETWEEN {low} AND {high}"
        return int(self._connection.sql(query).to_arrow_table().num_rows)

    def group_by(self, shift: int) -> Mapping[str, int]:
        query = f"SELECT origin, count(*), sum(value + {shift}) FROM {self._files} GROUP BY origin"
        return {origin: rows for origin, rows, _ in self._connection.sql(query).fetchall()}

    def close(self) -> None:
        self._connection.close()


class DuckOnS3(Peer):
    name = "duckdb-s3"
    family = "duckdb"
    distribution = "duckdb"
    settings = "read_parquet over the bare files, found by a glob"

    def version(self) -> str:
        """Both versions, as the environment of its own has them."""
        found = subprocess.run(
            [self.interpreter(), "-c", VERSIONS], capture_output=True, text=True, check=True
        )
        return found.stdout.strip()

    def interpreter(self) -> str:
        if not PYTHON.exists():
            raise Unsupported("its environment is missing: run scripts/bench, which makes it")
        return str(PYTHON)

    def create(self, directory: Path, schema: pa.Schema, sort_by: Sequence[str]) -> Handle:
        raise Unsupported("it reads the bare files of ours")

    def open(self, directory: Path) -> Handle:
        return DuckOnS3Handle(directory)


def _extension() -> Path:
    found = find_spec("duckdb_extension_httpfs")
    if found is None or found.origin is None:
        raise Unsupported("the package duckdb-extension-httpfs is not installed")
    return next(Path(found.origin).parent.glob("extensions/*/httpfs.duckdb_extension"))


CONTESTANTS = (DuckOnS3(),)
